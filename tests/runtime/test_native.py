# SPDX-License-Identifier: Apache-2.0

"""Both libraries called from C++, without Python and onnxruntime, on this machine and on an emulated 64-bit Arm.

The programs compare each bit of what the libraries compute with the definitions, and write it down.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from poolgrad_lowering.runtime import get_host_library_path, get_library_path

ROOT = Path(__file__).parents[2]
SOURCES = Path(__file__).parents[1] / "harness" / "native"
CASES = 500
# What each program is given: a library, and what its file of results is called.
PROGRAMS = {
    "check_host": ("libaclnn_host.so", ["check_host.cpp", "pools.cpp"]),
    "check_provider": ("libpoolgrad_ep.so", ["check_provider.cpp", "fake_ort.cpp", "pools.cpp"]),
}
INSTALLED = {"libaclnn_host.so": get_host_library_path, "libpoolgrad_ep.so": get_library_path}
ARM_COMPILER = "aarch64-linux-gnu-g++"
ARM_EMULATOR = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"]  # where Debian keeps Arm's C library


@functools.cache
def compiler() -> str:
    found = shutil.which("g++") or shutil.which("c++")
    if found is None:
        pytest.skip("there is no C++ compiler")
    return found


def build(program: str, folder: Path, with_compiler: str) -> Path:
    _, sources = PROGRAMS[program]
    built = folder / program
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-I", ROOT / "runtime" / "src"]
    subprocess.run([with_compiler, *flags, "-o", built, *(SOURCES / name for name in sources), "-ldl"], check=True)
    return built


def results(command: list[str], library: str, output: Path) -> bytes:
    done = subprocess.run([*command, library, str(CASES), output], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return output.read_bytes()


def native_results(program: str, folder: Path) -> bytes:
    library, _ = PROGRAMS[program]
    return results([str(build(program, folder, compiler()))], INSTALLED[library](), folder / "native.bin")


@pytest.mark.parametrize("program", PROGRAMS)
def test_on_this_machine(program: str, tmp_path: Path) -> None:
    assert native_results(program, tmp_path)


@pytest.mark.aarch64
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_wheel_for_arm_computes_the_same_bits(program: str, tmp_path: Path) -> None:
    [wheel] = (ROOT / "build" / "wheels" / "aarch64").glob("*_aarch64.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    library, _ = PROGRAMS[program]
    arm = tmp_path / "arm"
    arm.mkdir()
    command = [*ARM_EMULATOR, str(build(program, arm, ARM_COMPILER))]
    emulated = results(command, str(tmp_path / "poolgrad_lowering" / "runtime" / library), arm / "arm.bin")
    assert emulated == native_results(program, tmp_path)
