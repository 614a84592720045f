# SPDX-License-Identifier: Apache-2.0

"""The wheel without native libraries: where pip takes it, and what works in an environment that has it."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.wheels

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
MODEL = ROOT / "models" / "built" / "torch" / "lenet.onnx"


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of an environment that has the wheel, and what it needs, and no onnxruntime."""
    folder = tmp_path_factory.mktemp("any") / "venv"
    venv.create(folder)
    [wheel] = DIST.glob("*-py3-none-any.whl")
    pip(folder / "bin" / "python", "install", str(wheel))
    return folder / "bin"


def pip(python: Path | str, *arguments: str) -> None:
    """Run pip for an interpreter; an environment without a pip of its own will do."""
    command = [sys.executable, "-m", "pip", "--python", str(python), "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, *arguments], check=True)


def run(scripts: Path, *command: str, code: int = 0) -> str:
    """Return what a command of the environment prints, of both streams."""
    done = subprocess.run([scripts / command[0], *command[1:]], cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("platform", "taken"),
    [
        ("macosx_11_0_arm64", "any"),
        ("win_amd64", "any"),
        ("musllinux_1_2_x86_64", "any"),
        ("manylinux_2_28_x86_64", "any"),
        ("manylinux_2_34_x86_64", "manylinux_2_34_x86_64"),
        ("manylinux_2_34_aarch64", "manylinux_2_34_aarch64"),
    ],
)
def test_pip_takes_it_where_no_other_wheel_fits(tmp_path: Path, platform: str, taken: str) -> None:
    options = ["--only-binary=:all:", "--no-deps", "--no-index", "--find-links", str(DIST), "--dest", str(tmp_path)]
    pip(sys.executable, "download", "--platform", platform, *options, "poolgrad-lowering")
    [wheel] = tmp_path.iterdir()
    assert wheel.stem.rpartition("-")[2] == taken


def test_the_compiler_works(scripts: Path, tmp_path: Path) -> None:
    assert "2 lowered" in run(scripts, "poolgrad", "lower", str(MODEL), "-o", str(tmp_path / "lowered.onnx"))
    said = run(scripts, "poolgrad", "verify", str(MODEL), str(tmp_path / "lowered.onnx"), code=4)  # the sites alone
    assert "2 sites, 2 proven, 0 differences outside of sites, whole models not run" in said
    lower = "import sys, onnx, poolgrad_lowering; print(poolgrad_lowering.lower(onnx.load(sys.argv[1])).report.anchors)"
    assert "MaxPool3DGradWithArgmax" in run(scripts, "python", "-c", lower, str(MODEL))


@pytest.mark.parametrize("call", ["register()", "create_session('model.onnx')", "get_backend()", "get_library_path()"])
def test_the_runtime_says_what_is_missing(scripts: Path, call: str) -> None:
    said = run(scripts, "python", "-c", f"from poolgrad_lowering import runtime; runtime.{call}", code=1)
    assert "LibraryMissingError: libpoolgrad_ep.so is not in " in said
    assert "the compiler without the native libraries; `pip install --force-reinstall --no-deps poolgrad-low" in said


def test_doctor_says_what_is_missing(scripts: Path) -> None:
    said = run(scripts, "poolgrad", "doctor", code=1)
    assert "provider: PROBLEM: libpoolgrad_ep.so is not in " in said
    assert "host library: PROBLEM: libaclnn_host.so is not in " in said
