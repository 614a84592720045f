# SPDX-License-Identifier: Apache-2.0

"""Creates the virtual environments of the Makefile's targets, and runs commands in them.

    python3 tools/environments.py NAME [COMMAND...]

An environment is updated when its inputs have changed: the arguments of pip, `pyproject.toml`, and the native sources
if it builds them. Changed Python sources need no update, because editable installations use them directly. The root of
the repository comes after the installed packages on `sys.path` in an environment, so that `tests`, `models` and
`benchmarks` can be imported, and an installed package takes precedence over its sources. An editable installation also
adds the folder above the clone. Needs only Python's standard library and pip.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SANITIZERS = {"asan": "address", "ubsan": "undefined", "tsan": "thread"}

PROJECT = ("pyproject.toml",)
PLUGIN = "poolgrad_lowering/ge/atc/plugin/**/*"
NATIVE = (*PROJECT, "CMakeLists.txt", "cmake/*", "runtime/**/CMakeLists.txt", "runtime/src/**/*", PLUGIN)
SOURCES = (
    *NATIVE,
    "LICENSE",
    "README.md",
    "tools/registry_page.py",
    "poolgrad_lowering/**/*",
    "patterns/**/*",
    "runtime/**/*",
)
PYTHONS = {"ort": (11, None), "cann": (11, 13), "torch-npu": (11, 11), "training": (10, 12)}
"""The Python 3.MINOR, from first to last, for which there are wheels of what extras and groups install."""
SECONDS_BETWEEN_LINES = 20
"""How often the progress of an installation is shown."""
WHEEL = f"build/wheels/{platform.machine()}/*.whl"  # built by `tools/wheels.py`


@dataclass(frozen=True)
class Environment:
    """A virtual environment: its folder, and the arguments of each `pip install`.

    An environment with a `base` installs into the folder of the base. `inputs` are the files that it depends on, as
    globs relative to the root. `imports_tree`: whether the root of the repository is on its `sys.path`.
    """

    folder: str
    installs: tuple[tuple[str, ...], ...]
    inputs: tuple[str, ...] = PROJECT
    base: str | None = None
    python: str = sys.executable
    imports_tree: bool = True


def groups(*names: str) -> tuple[str, ...]:
    """Return pip's arguments for dependency groups of `pyproject.toml`."""
    return tuple(argument for name in names for argument in ("--group", name))


def editable(package: str, *arguments: str) -> tuple[tuple[str, ...], ...]:
    """Return the arguments of an editable installation of this package."""
    return (("--editable", package, *arguments),)


def with_wheel(*arguments: str) -> tuple[tuple[str, ...], ...]:
    """Return the installations of `arguments` and of this machine's wheel, even if its version is installed already."""
    return (arguments, ("--force-reinstall", "--no-deps", WHEEL), (WHEEL,))


OLDEST = ("flatbuffers==23.5.26", "networkx==3.1", "numpy==1.26.0", "onnx==1.19.0", "shtab==1.13.0")
"""The oldest releases of the dependencies in `pyproject.toml`."""

ENVIRONMENTS = {
    "test": Environment(".venv", editable(".[ort]", *groups("test")), NATIVE),
    "check": Environment(".venv", (groups("check"),), base="test"),
    "browser": Environment(".venv", (groups("browser"),), base="test"),
    "torch": Environment(".venv", (("torch==2.13.0", "onnxscript"),), base="test"),
    "mutate": Environment(".venv", (groups("mutate", "check"),), base="test"),
    "oldest": Environment(".venv-oldest", editable(".[ort]", *groups("test"), *OLDEST), NATIVE),
    "torch-step": Environment(".venv-torch-step", editable(".[ort,torch]", *groups("test", "torch-step")), NATIVE),
    "training": Environment(".venv-training", editable(".", *groups("test", "training")), NATIVE),
    "plugs": Environment(".venv-plugs", editable(".[olive,ort]", *groups("test", "olive")), NATIVE),
    "cann": Environment(".venv-cann", with_wheel(*groups("test", "cann")), (*PROJECT, WHEEL)),
    "torch-npu": Environment(
        ".venv-torch-npu",
        (*editable(".[ort]", *groups("test", "torch-npu")), ("--no-deps", "torch_npu==2.13.0")),
        NATIVE,
    ),
    "tools": Environment(".venv-tools", editable(".[ort]", *groups("test", "tools")), NATIVE),
    "wheels": Environment(".venv-wheels", (groups("wheels"),)),
    "docs": Environment(".venv-docs", (groups("docs"),)),
    "fuzz": Environment(".venv-fuzz", (groups("fuzz"),)),
    "bench": Environment(
        ".venv-bench", ((".[ort]", "-r", "benchmarks/requirements.txt"),), (*SOURCES, "benchmarks/requirements.txt")
    ),
}


def describe(name: str) -> Environment:
    """Return the environment of this name: one of `ENVIRONMENTS`, a sanitizer, or KIND/VERSION.

    ort/VERSION has this machine's wheel and a release of onnxruntime, release/VERSION only numpy and a release of
    onnxruntime, python/VERSION another Python with the dependencies of the package, but without the package.
    """
    kind, _, version = name.partition("/")
    if kind in SANITIZERS:
        sanitize = f"cmake.define.POOLGRAD_SANITIZE={SANITIZERS[kind]}"
        settings = (f"build-dir=build/{kind}", "cmake.build-type=Debug", sanitize)
        options = [f"--config-settings={setting}" for setting in settings]
        return Environment(f".venv-{kind}", editable(".[ort]", *groups("test"), *options), NATIVE)
    if kind == "ort":
        arguments = (*groups("test"), "--upgrade", release("onnxruntime", version))
        return Environment(f".venv-matrix/{version}", with_wheel(*arguments), (*PROJECT, WHEEL))
    if kind == "release":
        package = "onnxruntime-cann" if version.startswith("cann-") else "onnxruntime"
        numpy = "numpy<2" if version.startswith(("1.18.", "cann-")) else "numpy"  # these releases are built for numpy 1
        arguments = ("--no-deps", "--upgrade", numpy, release(package, version.removeprefix("cann-")))
        return Environment(f".venv-releases/{version}", (arguments,), (), imports_tree=False)
    if kind == "python":
        arguments = ("numpy", "networkx", *versions_of_tests("onnx", "protobuf"))
        return Environment(f".venv-python{version}", (arguments,), python=f"python{version}", imports_tree=False)
    return ENVIRONMENTS[name]


def release(package: str, version: str) -> str:
    """Return pip's requirement for a version of a package; "newest" means any."""
    return package if version == "newest" else f"{package}=={version}"


def versions_of_tests(*packages: str) -> list[str]:
    """Return the requirements of packages with the versions of the environment `test`."""
    command = [make("test") / "bin" / "python", "-m", "pip", "freeze"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in listed if line.partition("==")[0] in packages]


def make(name: str) -> Path:
    """Create or update an environment, and return its folder."""
    environment = describe(name)
    if environment.base:
        make(environment.base)
    folder = ROOT / environment.folder
    state = f"{fingerprint(environment.inputs)} {environment.installs}"
    stamp = folder / f".made-{name.replace('/', '-')}"
    if stamp.is_file() and stamp.read_text() == state and not name.endswith("/newest"):
        return folder
    if not (folder / "bin" / "pip").exists():
        require_python(name, environment)
        create(folder, environment)
    for arguments in environment.installs:
        found = (str(next(ROOT.glob(WHEEL))) if argument == WHEEL else argument for argument in arguments)
        pip(folder, *found)
    stamp.write_text(state)
    return folder


def fingerprint(inputs: Iterable[str]) -> str:
    """Return a hash of the files that match globs relative to the root."""
    digest = hashlib.sha256()
    for path in sorted({path for pattern in inputs for path in ROOT.glob(pattern)}):
        if path.is_file() and path.parent.name != "__pycache__":
            digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()


def require_python(name: str, environment: Environment) -> None:
    """Exit if an environment needs a package that has no wheel for this Python."""
    words = set(re.findall(r"[\w-]+", str(environment.installs)))
    for first, last in (PYTHONS[word] for word in sorted(words & PYTHONS.keys())):
        if not first <= sys.version_info[1] <= (last or sys.version_info[1]):
            needed = {None: f"3.{first} or newer", first: f"3.{first}"}.get(last, f"3.{first} to 3.{last}")
            sys.exit(
                f"the environment {name} needs Python {needed}, for which its packages have wheels; this is Python "
                f"{platform.python_version()}. Choose another one, as in `make PYTHON=python3.{last or first} TARGET`"
            )


def create(folder: Path, environment: Environment) -> None:
    """Create an empty environment with pip. `--without-pip` is needed because Debian's python3 has no ensurepip."""
    python = folder / "bin" / "python"
    subprocess.run([environment.python, "-m", "venv", "--without-pip", folder], check=True)
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--upgrade", "pip"], check=True
    )
    if environment.imports_tree:
        code = "import sysconfig; print(sysconfig.get_path('purelib'))"
        packages = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        (Path(packages) / "root_of_the_repository.pth").write_text(f"{ROOT}\n")


def pip(folder: Path, *arguments: str) -> None:
    """Run `pip install` in an environment. Says on standard error what it does, and that it goes on."""
    builds = any(re.match(r"\.(\[|$)", argument) for argument in arguments)
    doing = "compiling the C++ libraries, about two minutes of CPU" if builds else "installing"
    say(f"{folder.name}: pip install {' '.join(arguments)}: {doing}")
    started = time.monotonic()
    command = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    with subprocess.Popen(command, cwd=ROOT) as running:
        while running.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                running.wait(SECONDS_BETWEEN_LINES)
                break
            say(f"{folder.name}: {doing}, {time.monotonic() - started:.0f} s")
    if running.returncode:
        raise subprocess.CalledProcessError(running.returncode, command)
    say(f"{folder.name}: installed in {time.monotonic() - started:.0f} s")


def say(text: str) -> None:
    """Write a line to standard error; standard output is that of the command."""
    sys.stderr.write(f"{text}\n")


def main(name: str, *command: str) -> None:
    """Create or update an environment under a file lock, and replace this process with the command in it."""
    folder = ROOT / describe(name).folder
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            make(name)
        except subprocess.CalledProcessError as error:
            sys.exit(f"cannot create the environment {name}: {error}")
    if command:
        path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        os.execvpe(command[0], command, os.environ | {"PATH": path, "VIRTUAL_ENV": str(folder)})


if __name__ == "__main__":
    main(*sys.argv[1:])
