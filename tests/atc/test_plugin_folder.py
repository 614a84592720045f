# SPDX-License-Identifier: Apache-2.0

"""The folder that `poolgrad export-atc --plugin` writes."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from poolgrad_lowering import FileError, write_atc_plugin
from poolgrad_lowering.entry.cli import main
from poolgrad_lowering.entry.cli.exit_codes import ExitCode
from poolgrad_lowering.ge.atc import plugin_folder
from poolgrad_lowering.model.diagnostics.errors import UsageError
from poolgrad_lowering.runtime.atc import find_plugin
from tests.atc.shipped import shipped_library
from tests.harness.ge.compiling import NATIVE
from tests.harness.ge.driver import Plugin

SOURCES = Path(plugin_folder.__file__).parent / "plugin"
LIBRARY = "framework/onnx/libpoolgrad_atc_plugin.so"
MARKER = "poolgrad-atc-plugin.txt"
OTHER = {"x86_64": "aarch64", "aarch64": "x86_64"}


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def sources() -> set[str]:
    return {f"source/{path.name}" for path in SOURCES.iterdir() if path.name != "CMakeLists.txt"}


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation of the wheel for any system."""
    monkeypatch.setattr(plugin_folder, "_package_folders", lambda: [SOURCES.parent])


def test_the_folder_has_the_library_and_the_sources(tmp_path: Path) -> None:
    plugin = write_atc_plugin(tmp_path / "new" / "plugin")
    assert plugin.folder == tmp_path / "new" / "plugin"
    assert files(plugin.folder) == {LIBRARY, MARKER} | sources()
    assert len(sources()) == 12
    assert plugin.library == plugin.folder / LIBRARY
    assert plugin.machine == NATIVE.name
    assert plugin.library.read_bytes() == shipped_library().read_bytes()
    for name in sources():
        assert (plugin.folder / name).read_bytes() == (SOURCES / Path(name).name).read_bytes()
    marker = (plugin.folder / MARKER).read_text(encoding="utf-8")
    assert plugin.setting in marker
    assert plugin.build in marker
    if NATIVE.compiler:
        with Plugin(plugin.library) as opened:
            assert opened.registrations


@pytest.mark.parametrize("before", ["", "/opt/vendor"])
def test_the_line_for_a_shell_puts_the_folder_first(tmp_path: Path, before: str) -> None:
    plugin = write_atc_plugin(tmp_path / "two words")
    command = ["sh", "-c", f"{plugin.setting}; printenv ASCEND_CUSTOM_OPP_PATH"]
    printed = subprocess.run(
        command, env={"ASCEND_CUSTOM_OPP_PATH": before}, capture_output=True, text=True, check=True
    )
    assert printed.stdout.rstrip("\n") == ":".join(filter(None, [str(plugin.folder), before]))


def test_doctor_recognises_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", str(write_atc_plugin(tmp_path).folder))
    assert find_plugin() == (str(tmp_path / LIBRARY), None)


def test_the_machine_of_the_library_may_be_demanded(tmp_path: Path) -> None:
    assert write_atc_plugin(tmp_path, machine=NATIVE.name).machine == NATIVE.name
    with pytest.raises(UsageError, match=rf"only the library for {NATIVE.name}.*on a machine of {OTHER[NATIVE.name]}"):
        write_atc_plugin(tmp_path / "other", machine=OTHER[NATIVE.name])
    assert not (tmp_path / "other").exists()


@pytest.mark.usefixtures("without_library")
def test_an_installation_without_the_library_writes_the_sources(tmp_path: Path) -> None:
    plugin = write_atc_plugin(tmp_path)
    assert (plugin.library, plugin.machine) == (None, None)
    assert files(tmp_path) == {MARKER} | sources()
    with pytest.raises(UsageError, match="this installation has no library of the plugin"):
        write_atc_plugin(tmp_path, machine="x86_64")


def test_a_library_for_another_machine_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytearray(shipped_library().read_bytes())
    content[18:20] = {"x86_64": 183, "aarch64": 62}[NATIVE.name].to_bytes(2, "little")
    package = tmp_path / "package"
    shutil.copytree(SOURCES, package / "plugin")
    (package / Path(LIBRARY).name).write_bytes(content)
    monkeypatch.setattr(plugin_folder, "_package_folders", lambda: [package])
    assert write_atc_plugin(tmp_path / "plugin").machine == OTHER[NATIVE.name]


def test_a_second_time_replaces_what_the_first_wrote_and_nothing_else(tmp_path: Path) -> None:
    write_atc_plugin(tmp_path)
    (tmp_path / "source" / "json.cpp").write_text("old")
    (tmp_path / LIBRARY).write_text("old")
    (tmp_path / "framework" / "onnx" / "libother.so").write_text("another plugin")
    write_atc_plugin(tmp_path)
    assert (tmp_path / "source" / "json.cpp").read_bytes() == (SOURCES / "json.cpp").read_bytes()
    assert (tmp_path / LIBRARY).stat().st_size > 1000
    assert (tmp_path / "framework" / "onnx" / "libother.so").read_text() == "another plugin"


@pytest.mark.parametrize("name", [LIBRARY, "source/build.sh", MARKER])
def test_files_of_others_are_not_replaced(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(
        FileError, match=f"cannot write '.*{name}': it exists and is not of `poolgrad export-atc --plugin`"
    ):
        write_atc_plugin(tmp_path)
    assert files(tmp_path) == {name}
    assert (tmp_path / name).read_text() == "mine"


def test_a_link_that_leads_nowhere_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "build.sh").symlink_to("/nonexistent/build.sh")
    with pytest.raises(FileError, match="it exists and is not of"):
        write_atc_plugin(tmp_path)


def test_a_folder_that_atc_cannot_be_given(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has a ':', which separates folders for ATC"):
        write_atc_plugin(tmp_path / "a:b")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["", "framework"])
def test_a_file_in_the_way(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "plugin"
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("a file")
    with pytest.raises(FileError, match=r"cannot (make|read) "):
        write_atc_plugin(folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(FileError, match="Permission denied"):
        write_atc_plugin(tmp_path)


# -- the command


def test_the_command_prints_the_line_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export-atc", "--plugin", str(tmp_path)]) == ExitCode.DONE
    path = shlex.quote(str(tmp_path))
    assert capsys.readouterr() == (
        f"export ASCEND_CUSTOM_OPP_PATH={path}${{ASCEND_CUSTOM_OPP_PATH:+:$ASCEND_CUSTOM_OPP_PATH}}\n",
        "",
    )


@pytest.mark.usefixtures("without_library")
def test_the_command_says_that_the_plugin_has_to_be_compiled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export-atc", "--plugin", str(tmp_path)]) == ExitCode.DONE
    printed = capsys.readouterr()
    assert printed.out.startswith("export ")
    assert (
        f"warning: this installation has no library of the plugin; where the toolkit is, run sh {tmp_path}"
        in printed.err
    )
    assert main(["export-atc", "--plugin", str(tmp_path), "--quiet"]) == ExitCode.DONE
    assert capsys.readouterr().err == ""


def test_the_command_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export-atc", "--plugin", str(tmp_path), "--json", "--machine", NATIVE.name]) == ExitCode.DONE
    printed = json.loads(capsys.readouterr().out)
    assert list(printed) == ["folder", "library", "machine", "build", "setting"]
    assert printed["library"] == str(tmp_path / LIBRARY)
    assert printed["machine"] == NATIVE.name


def test_the_command_refuses_another_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["export-atc", "--plugin", str(tmp_path / "plugin"), "--machine", OTHER[NATIVE.name]]
    assert main(arguments) == ExitCode.BAD_INPUT
    assert "leave out --machine and run source/build.sh where the toolkit is" in capsys.readouterr().err
