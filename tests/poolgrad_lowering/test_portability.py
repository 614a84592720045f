# SPDX-License-Identifier: Apache-2.0

"""The compiler is pure Python: it runs where POSIX's modules and functions do not exist, as on Windows and macOS."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.external_models import DATA, external, onto_zeros, saved
from tests.harness.processes import environment

WITHOUT_POSIX = """
import concurrent.futures.process, importlib, os, shutil, sys
import networkx, numpy, onnx, onnx.reference

for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None  # an import raises ImportError
for name in (
    "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "fchmod", "fork", "geteuid", "getuid", "mkfifo", "pread",
    "preadv", "readv", "sched_getaffinity", "statvfs",
):
    delattr(os, name)
os.supports_dir_fd = set()
os.O_BINARY = 0
shutil._use_fd_functions = False
"""
LIBRARY = """
from poolgrad_lowering import inspect, lower, lower_file, lower_folder, verify, verify_files
from pathlib import Path
source, folder = Path(sys.argv[1]), Path(sys.argv[2])
for _ in range(2):  # a new file, and one that is replaced
    report = lower_file(source, source.with_name("lowered.onnx"), verify=True, report_path=folder / "report.json")
    assert len(report.lowered) == 1, report
assert verify_files(source, source.with_name("lowered.onnx")).proven
model = onnx.load(source, load_external_data=False)
assert len(lower(model, base_dir=source.parent).report.lowered) == 1
"""
FOLDERS = """
from poolgrad_lowering import lower_folder
from poolgrad_lowering.model.io.atomic_write import NewFolder
from pathlib import Path
source, folder = Path(sys.argv[1]), Path(sys.argv[2])
[result] = lower_folder(source.parent, folder / "all", copy_external=True)
assert result.written, result
(folder / "new").mkdir()
with NewFolder(folder / "new") as new:
    new.file("a/b").write_text("c")
    new.commit()
assert (folder / "new" / "a" / "b").read_text() == "c"
"""
COMMAND = """
from poolgrad_lowering.entry.cli import main
source, folder = sys.argv[1:]
lowered = source.replace("m.onnx", "lowered.onnx")
for arguments in (
    ["inspect", source],
    ["lower", source, "-o", lowered, "--verify", "--report", folder + "/report.json", "--html", folder + "/page.html"],
    ["verify", source, lowered],
    ["targets"],
    ["patterns"],
):
    assert main(arguments) == 0, arguments
"""


@pytest.mark.parametrize("script", [LIBRARY, FOLDERS, COMMAND], ids=["library", "folders", "command"])
def test_without_posix(tmp_path: Path, script: str) -> None:
    zeros = external("zeros", [6, 16])
    models, results = tmp_path / "models", tmp_path / "results"
    models.mkdir()
    results.mkdir()
    saved(models, onto_zeros(zeros), bytes(6 * 16 * 4))
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_POSIX + script, str(models / "m.onnx"), str(results)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert onnx.load(models / "m.onnx", load_external_data=False)
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".poolgrad-")]
    assert (models / DATA).exists()
