# SPDX-License-Identifier: Apache-2.0

"""What `make wheels` has put into dist/: what a wheel holds, what its libraries need, and that the sdist builds."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.wheels

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}
SBOM = "poolgrad-lowering.cdx.json"
OLDEST_GLIBC = "2_34"
GREATEST_SIZE = 2_300_000  # of it 0.24 MB are the recorded calls of Ascend's kernels, numbers that do not compress
# The libraries, and what each lets out, as a pattern of whole names. The plugin for ATC registers itself, and uses the
# libraries of CANN that the process has.
PLUGIN = "poolgrad_lowering/ge/atc/libpoolgrad_atc_plugin.so"
LIBRARIES = {
    PLUGIN: "",
    "poolgrad_lowering/runtime/libaclnn_host.so": r"acl\w+",
    "poolgrad_lowering/runtime/libpoolgrad_ep.so": (
        "CreateEpFactories|ReleaseEpFactory|RegisterCustomOps|PoolgradDescribeRuntime|PoolgradIsRegistered"
    ),
}
BIND_NOW, EXECUTABLE = 0x8, 0x1  # DF_BIND_NOW, PF_X
# The C library in its parts, and the compiler's own library, which every machine with a C++ program has.
NEEDED = re.compile(r"lib(c|m|gcc_s)\.so\.\d+|ld-linux-\S+")
CANN = ["libgraph.so", "libregister.so"]
PACKAGES = {"poolgrad_lowering": "", "patterns": "patterns/", "runtime": "runtime/"}


@pytest.fixture(params=MACHINES)
def wheel(request: pytest.FixtureRequest) -> Path:
    [found] = DIST.glob(f"*-py3-none-manylinux_{OLDEST_GLIBC}_{request.param}.whl")
    return found


@pytest.fixture
def any_wheel() -> Path:
    [found] = DIST.glob("*-py3-none-any.whl")
    return found


def package_files() -> set[str]:
    """The files of Python, data, schemas, style and script in the source tree, and the sources of the plugin for ATC.

    By their names in a wheel.
    """
    files = set()
    for folder, prefix in PACKAGES.items():
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".css", ".js", ".json", ".npz", ".py"):
                files.add(f"poolgrad_lowering/{prefix}{path.relative_to(ROOT / folder).as_posix()}")
    plugin = ROOT / "poolgrad_lowering" / "ge" / "atc" / "plugin"
    files |= {path.relative_to(ROOT).as_posix() for path in plugin.iterdir() if path.name != "CMakeLists.txt"}
    return files | {"poolgrad_lowering/py.typed"}


def test_nothing_else_is_built() -> None:
    assert len(list(DIST.iterdir())) == len(MACHINES) + 2


def check_contents(wheel: Path, files: set[str]) -> None:
    """A wheel holds these files, and its own metadata with the licence as it stands in the source tree."""
    assert wheel.stat().st_size < GREATEST_SIZE
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        metadata = {Path(name).name: name for name in names if re.match(r"[^/]+\.dist-info/", name)}
        assert archive.read(metadata["LICENSE"]) == (ROOT / "LICENSE").read_bytes()
        assert b"\nLicense-Expression: Apache-2.0\n" in archive.read(metadata["METADATA"])
    assert names - set(metadata.values()) == files
    assert set(metadata) == {"LICENSE", "METADATA", "RECORD", "WHEEL", "entry_points.txt", SBOM}


def test_a_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    check_contents(wheel, package_files() | set(LIBRARIES))


def test_the_wheel_for_any_system_holds_the_same_without_libraries(any_wheel: Path) -> None:
    check_contents(any_wheel, package_files())


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_of_a_wheel(wheel: Path, library: str) -> None:
    elffile = pytest.importorskip("elftools.elf.elffile")
    with zipfile.ZipFile(wheel) as archive:
        content = archive.read(library)
    assert len(content) < GREATEST_SIZE
    elf = elffile.ELFFile(io.BytesIO(content))
    assert elf["e_machine"] == MACHINES[wheel.stem.partition(f"{OLDEST_GLIBC}_")[2]]
    assert elf.get_section_by_name(".symtab") is None, "not stripped"
    needed = [tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")]
    assert [name for name in needed if not NEEDED.fullmatch(name)] == (CANN if library == PLUGIN else [])
    symbols = elf.get_section_by_name(".dynsym").iter_symbols()
    exported = [symbol.name for symbol in symbols if symbol.name and symbol["st_shndx"] != "SHN_UNDEF"]
    assert bool(exported) == bool(LIBRARIES[library])
    assert [name for name in exported if not re.fullmatch(LIBRARIES[library], name)] == []


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_of_a_wheel_is_hardened(wheel: Path, library: str) -> None:
    """Relocated data is read-only from the loading on, the stack is guarded, and the C library checks sizes."""
    elffile = pytest.importorskip("elftools.elf.elffile")
    with zipfile.ZipFile(wheel) as archive:
        elf = elffile.ELFFile(io.BytesIO(archive.read(library)))
    segments = {segment["p_type"]: segment for segment in elf.iter_segments()}
    assert "PT_GNU_RELRO" in segments
    assert segments["PT_GNU_STACK"]["p_flags"] & EXECUTABLE == 0
    [flags] = elf.get_section_by_name(".dynamic").iter_tags("DT_FLAGS")
    assert flags["d_val"] & BIND_NOW
    imported = {
        symbol.name for symbol in elf.get_section_by_name(".dynsym").iter_symbols() if symbol["st_shndx"] == "SHN_UNDEF"
    }
    assert "__stack_chk_fail" in imported
    assert [name for name in imported if re.fullmatch(r"__\w+_chk", name)]


def test_the_plugin_opens_with_an_older_glibc(wheel: Path) -> None:
    """ATC may run on another system than the one that the plugin comes from, such as CentOS 7 with glibc 2.17."""
    elffile = pytest.importorskip("elftools.elf.elffile")
    with zipfile.ZipFile(wheel) as archive:
        elf = elffile.ELFFile(io.BytesIO(archive.read(PLUGIN)))
    needed = [
        tuple(map(int, version.name.removeprefix("GLIBC_").split(".")))
        for _, versions in elf.get_section_by_name(".gnu.version_r").iter_versions()
        for version in versions
        if version.name.startswith("GLIBC_")
    ]
    assert (0,) < max(needed) <= (2, 17)


def commands_without(unwanted: str, folder: Path) -> Path:
    """A folder with links to the commands on the path, but for those whose names begin so."""
    folder.mkdir()
    for place in reversed(os.environ["PATH"].split(os.pathsep)):
        for command in Path(place).glob("*"):
            link = folder / command.name
            if not command.name.startswith(unwanted):
                link.unlink(missing_ok=True)
                link.symlink_to(command)
    return folder


def test_the_sdist_builds_without_ninja(tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("there is no CMake")
    [sdist] = DIST.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = archive.getnames()
    assert not [name for name in names if re.match(r"[^/]+/(build|dist|\.nox|\.git/)", name)]
    assert f"{sdist.name.removesuffix('.tar.gz')}/LICENSE" in names
    commands = commands_without("ninja", tmp_path / "commands")
    assert shutil.which("ninja", path=str(commands)) is None
    venv.create(tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    options = ["--quiet", "--no-deps", "--disable-pip-version-check", "--wheel-dir", str(tmp_path / "wheels")]
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "wheel", *options, str(sdist)],
        env={**os.environ, "PATH": str(commands), "CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count())},
        check=True,
    )
    [built] = (tmp_path / "wheels").iterdir()
    with zipfile.ZipFile(built) as archive:
        assert set(archive.namelist()) >= package_files() | set(LIBRARIES)
