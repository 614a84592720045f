# SPDX-License-Identifier: Apache-2.0

"""The script that compiles the plugin against a toolkit: here one of the stand-in's libraries, and of the plugin's own
declarations under the names of GE's headers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from poolgrad_lowering import write_atc_plugin
from poolgrad_lowering.dialect import OPS
from tests.atc.test_plugin_library import SYMBOLS, names, needed
from tests.harness.ge.compiling import NATIVE, OLD_STRINGS, standin
from tests.harness.ge.driver import Plugin

if not NATIVE.compiler:
    pytest.skip("there is no C++ compiler", allow_module_level=True)

LIBRARIES = ("libgraph.so", "libregister.so")
UNCHECKED = "no headers of GE; the plugin's own declarations are used"


@pytest.fixture
def toolkit(tmp_path: Path) -> Path:
    """A toolkit with the libraries that the plugin needs and with headers."""
    folder = tmp_path / "tool kit"
    for name in ("lib64", "include/register", "include/graph"):
        (folder / name).mkdir(parents=True)
    for name in LIBRARIES:
        shutil.copy(standin() / name, folder / "lib64")
    declarations = folder / "include" / "declarations.h"
    shutil.copy(plugin(tmp_path) / "source" / "ge_declarations.h", declarations)
    for name in ("register/register.h", "graph/operator.h"):
        (folder / "include" / name).write_text('#include "../declarations.h"\n#define FROM_THE_TOOLKIT\n')
    return folder


def plugin(tmp_path: Path) -> Path:
    folder = tmp_path / "plug in"
    if not folder.exists():
        write_atc_plugin(folder)
        (folder / "framework" / "onnx" / "libpoolgrad_atc_plugin.so").unlink()
    return folder


def build(tmp_path: Path, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in {"LD_PRELOAD", "ASCEND_HOME_PATH", "CXX", "CXXFLAGS"}
    }
    command = ["sh", str(plugin(tmp_path) / "source" / "build.sh"), *map(str, arguments)]
    return subprocess.run(command, cwd="/", env=kept | variables, capture_output=True, text=True, check=False)


def installed(tmp_path: Path) -> list[str]:
    """The files where ATC looks for plugins."""
    return [
        str(path.relative_to(tmp_path)) for path in plugin(tmp_path).joinpath("framework").rglob("*") if path.is_file()
    ]


@pytest.mark.parametrize(
    "flags", [(), pytest.param(OLD_STRINGS, marks=pytest.mark.atc)], ids=["new strings", "old strings"]
)
def test_the_plugin_is_compiled_opened_and_installed(tmp_path: Path, toolkit: Path, flags: tuple[str, ...]) -> None:
    marked = "-Werror -DEXPECT_TOOLKIT"
    (plugin(tmp_path) / "source" / "plugin.cpp").open("a").write(
        "#if defined(EXPECT_TOOLKIT) && !defined(FROM_THE_TOOLKIT)\n#error headers\n#endif\n"
    )
    done = build(tmp_path, ASCEND_HOME_PATH=str(toolkit), CXXFLAGS=" ".join((marked, *flags)))
    library = plugin(tmp_path) / "framework" / "onnx" / "libpoolgrad_atc_plugin.so"
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{library}\n", "")
    assert installed(tmp_path) == ["plug in/framework/onnx/libpoolgrad_atc_plugin.so"]
    asked = {name for name in names(library, "--undefined-only") if name.startswith(("ge::", "domi::"))}
    assert asked == set(SYMBOLS)
    assert names(library, "--defined-only") == []
    assert set(LIBRARIES) <= needed(library)
    dynamic = subprocess.run(["readelf", "-dW", library], capture_output=True, text=True, check=True).stdout
    assert "Flags: NOW NODELETE" in dynamic
    with Plugin(library) as opened:
        assert len(opened.registrations) == len(OPS)


@pytest.mark.atc
def test_a_toolkit_without_headers(tmp_path: Path, toolkit: Path) -> None:
    shutil.rmtree(toolkit / "include")
    done = build(tmp_path, toolkit)
    assert done.returncode == 0, done.stderr
    assert UNCHECKED in done.stderr
    assert len(installed(tmp_path)) == 1


@pytest.mark.atc
def test_a_library_that_does_not_open_is_not_installed(tmp_path: Path, toolkit: Path) -> None:
    old = plugin(tmp_path) / "framework" / "onnx" / "libpoolgrad_atc_plugin.so"
    old.write_text("old")
    empty = tmp_path / "empty.cpp"
    empty.write_text("")
    library = toolkit / "lib64" / "libregister.so"
    subprocess.run([NATIVE.compiler, "-shared", "-Wl,-soname,libregister.so", "-o", library, empty], check=True)
    done = build(tmp_path, toolkit)
    assert done.returncode == 1
    assert "undefined symbol: _ZN4domi" in done.stderr
    assert f"does not open with the libraries of '{toolkit}/lib64'; nothing is installed" in done.stderr
    assert old.read_text() == "old"
    assert len(installed(tmp_path)) == 1


@pytest.mark.atc
def test_headers_that_do_not_fit(tmp_path: Path, toolkit: Path) -> None:
    (toolkit / "include" / "graph" / "operator.h").write_text("#error another GE\n")
    done = build(tmp_path, toolkit)
    assert done.returncode == 1
    assert done.stderr.endswith("build.sh: the plugin does not compile\n")
    assert installed(tmp_path) == []


def test_no_toolkit_is_named(tmp_path: Path) -> None:
    done = build(tmp_path)
    assert done.returncode == 1
    assert "build.sh: ASCEND_HOME_PATH is not set; run '. set_env.sh'" in done.stderr


def test_a_folder_that_is_no_toolkit(tmp_path: Path) -> None:
    done = build(tmp_path, tmp_path)
    assert done.returncode == 1
    assert f"there is no {tmp_path}/lib64/libgraph.so; '{tmp_path}' is not the folder of a CANN toolkit" in done.stderr


def test_no_compiler(tmp_path: Path, toolkit: Path) -> None:
    done = build(tmp_path, toolkit, CXX="absent-g++")
    assert done.returncode == 1
    assert "there is no compiler 'absent-g++'; install g++, or name another one by the variable CXX" in done.stderr
