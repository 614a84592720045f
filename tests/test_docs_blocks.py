# SPDX-License-Identifier: Apache-2.0

"""What README and docs/ tell a reader to type works as it stands: each page's blocks run in order, in one folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from poolgrad_lowering import lower_file
from tests.doc_blocks import PAGES, ROOT, Block, blocks
from tests.harness.onnxruntime.release import lay_out
from tests.harness.processes import environment

RUN = ("sh", "python")
SHOWN = ("", "text", "json", "toml", "cpp", "csharp")  # not run here: graphs, output, data, sources
NOT_RUN = {
    "an overview",  # of which the tests of the command parse every line
    "installs the published package",
    "makes environments of its own",
    "needs an NPU",
    "needs .NET",
    "needs Olive",  # make test-plugs
    "needs PyTorch",  # make test-torch-step
    "needs onnxruntime-cann",  # make test-cann-ep
    "needs onnxruntime-training",
    "needs torch_npu",  # make test-torch-npu
}
SECONDS = re.compile(r"\d+\.\d{3} s\b")


def runs(block: Block) -> bool:
    return block.kind in RUN and block.not_run is None


TO_RUN = [page for page in PAGES if page.exists() and any(runs(block) for block in blocks(page))]


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that pages name without making them."""
    made = tmp_path_factory.mktemp("named")
    shutil.copyfile(ROOT / "models/built/torch/lenet.onnx", made / "training.onnx")
    lower_file(made / "training.onnx", made / "lowered.onnx")
    (made / "models").symlink_to(ROOT / "models")
    shutil.copytree(ROOT / "models/built/artifacts/lenet", made / "artifacts")
    shutil.copy(ROOT / "docs" / "examples" / "run_lowered.cpp", made)
    lay_out(made / "onnxruntime")
    return made


@pytest.fixture
def folder(tmp_path: Path, named: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of `named`, which is the current folder."""
    shutil.copytree(named, tmp_path, symlinks=True, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    for name in ("ASCEND_HOME_PATH", "ACLNN_HOST_SOC", "ACLNN_HOST_STRICT"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_every_page_is_there() -> None:
    assert {page.stem for page in TO_RUN} >= {"README", "runtime", "training", "verify"}


@pytest.mark.parametrize("page", TO_RUN, ids=lambda page: page.stem)
@pytest.mark.usefixtures("folder")
def test_blocks_of_the_page(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    printed = ""
    for block in blocks(page):
        if block.is_output:
            assert without_seconds(block.text) == without_seconds(printed), f"{page.name}:{block.line}"
        elif runs(block) and block.kind == "python":
            exec(compile("\n" * block.line + block.text, str(page), "exec"), names)
            printed = capsys.readouterr().out
        elif runs(block):
            printed = "".join(map(shell, block.commands))


def shell(command: str) -> str:
    """Run a line of shell in the current folder and return what it prints."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ran = subprocess.run(
        ["bash", "-c", command], env=environment() | {"PATH": path}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


def without_seconds(text: str) -> str:
    return SECONDS.sub("… s", text)


def of_all_pages(attribute: Callable[[Block], Any]) -> set[Any]:
    return {attribute(block) for page in PAGES if page.exists() for block in blocks(page)}


def test_no_block_escapes_by_its_language() -> None:
    assert of_all_pages(lambda block: block.kind) <= {*RUN, *SHOWN}


def test_reasons_not_to_run_are_known_and_used() -> None:
    assert of_all_pages(lambda block: block.not_run) == {None, *NOT_RUN}


def test_what_an_output_is_of_runs() -> None:
    for page in PAGES:
        found = blocks(page) if page.exists() else []
        for before, block in zip([None, *found], found, strict=False):
            assert not block.is_output or (before is not None and runs(before)), f"{page.name}:{block.line}"


def test_a_page_that_shows_something_else_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```sh\necho 1\n```\n\n<!-- output: -->\n```text\n2\n```\n<!-- not run: why -->\n```sh\nfalse\n```\n"
    )
    shown, output, not_run = blocks(page)
    assert (shown.commands, runs(shown), shown.line) == (["echo 1"], True, 1)
    assert (output.is_output, output.text, output.line) == (True, "2\n", 6)
    assert (not_run.not_run, runs(not_run)) == ("why", False)
    assert shell("echo 1") != output.text
    with pytest.raises(AssertionError):
        shell("false")
