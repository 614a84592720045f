# SPDX-License-Identifier: Apache-2.0

"""Builds the stand-ins of GE's libraries with the driver, and plugins, for this machine or for 64-bit Arm.

A build is kept in `build/ge`, in a folder that is named after a hash of everything that went into it.
"""

from __future__ import annotations

import fcntl
import hashlib
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SOURCES = Path(__file__).resolve().parent / "cpp"
FLAGS = ("-std=c++17", "-O0", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fPIC")
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
OLD_STRINGS = ("-D_GLIBCXX_USE_CXX11_ABI=0",)
"""As CANN's own libraries are compiled."""


@dataclass(frozen=True)
class Machine:
    """A machine to build for: its compiler, and the command that runs its programs here."""

    name: str
    compiler: str
    runner: tuple[str, ...] = ()


NATIVE = Machine(platform.machine(), shutil.which("g++") or shutil.which("c++") or "")
ARM = Machine("aarch64", "aarch64-linux-gnu-g++", ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"))


def standin(machine: Machine = NATIVE, *extra: str) -> Path:
    """Return a folder with `libgraph.so`, `libregister.so` and `driver`, compiled with `extra` flags."""

    def build(folder: Path) -> None:
        compiler = (machine.compiler, *FLAGS, *extra)
        link = ("-Wl,-rpath,$ORIGIN", f"-L{folder}")
        libraries = {"libgraph.so": ["graph.cpp"], "libregister.so": ["register.cpp", "-lgraph"]}
        for library, inputs in libraries.items():
            _run(*compiler, "-shared", f"-Wl,-soname,{library}", "-o", folder / library, *inputs, *link)
        _run(*compiler, "-o", folder / "driver", "driver.cpp", "json.cpp", *link, "-lregister", "-lgraph", "-ldl")

    return kept("standin", SOURCES.glob("*"), (machine.compiler, *extra), build)


def plugin(sources: Iterable[Path], machine: Machine = NATIVE, *extra: str) -> Path:
    """Return a plugin that is compiled from sources, with CANN's libraries left to the process that opens it."""
    sources = sorted(sources)
    compiled = [source for source in sources if source.suffix == ".cpp"]

    def build(folder: Path) -> None:
        library = folder / "plugin.so"
        _run(machine.compiler, *FLAGS, "-shared", "-fvisibility=hidden", "-o", library, *compiled, *extra)

    return kept("plugin", [*sources, *SOURCES.glob("*.h")], (machine.compiler, *extra), build) / "plugin.so"


def _run(*command: str | Path) -> None:
    subprocess.run(command, cwd=SOURCES, check=True)


def kept(name: str, inputs: Iterable[Path], flags: Iterable[str], build: Callable[[Path], None]) -> Path:
    """Return the folder of a build, which is made if it is not there, by one process at a time."""
    digest = hashlib.sha256(repr([FLAGS, *flags]).encode())
    for path in sorted(inputs):
        digest.update(path.name.encode() + path.read_bytes())
    kept = ROOT / "build" / "ge" / f"{name}-{digest.hexdigest()[:16]}"
    if kept.is_dir():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.is_dir():
            with tempfile.TemporaryDirectory(dir=kept.parent) as scratch:
                made = Path(scratch) / name
                made.mkdir()
                build(made)
                made.rename(kept)
    return kept
