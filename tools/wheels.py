# SPDX-License-Identifier: Apache-2.0

"""Builds the wheels: `python tools/wheels.py TAG...`, in the environment `wheels`.

A tag is a processor, for Linux, or `any`, for a wheel without the native libraries, which pip chooses if no other wheel
fits. Every wheel is for any Python. The native libraries are statically linked with the C++ library, and the platform
tag names the oldest glibc that they work with. A wheel is built in build/wheels/TAG, again if its sources changed. The
same sources and compiler give the same bytes.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import sbom
from fingerprint import ROOT, SOURCES, fingerprint

ANY = "any"
EPOCH = "1767225600"
"""The time of every file in a wheel, in seconds since 1970: the beginning of 2026."""
GIVEN_BY_CANN = ("libgraph.so", "libregister.so")
"""The libraries that the plugin for ATC needs: those of the program that loads it."""


def make(tag: str) -> None:
    """Build the wheel of a tag unless it is up to date."""
    folder = ROOT / "build" / "wheels" / tag
    state, stamp = fingerprint(SOURCES), folder / ".made"
    if stamp.is_file() and stamp.read_text() == state:
        return
    for old in folder.glob("*.whl"):
        old.unlink()
    if tag == ANY:
        build(folder, "wheel.cmake=false", "wheel.platlib=false")
    else:
        build_native(folder, tag)
    [wheel] = folder.glob("*.whl")
    sbom.add(wheel, None if tag == ANY else compiler(tag))
    stamp.write_text(state)


def build(folder: Path, *settings: str) -> Path:
    """Build the wheel into a folder with these settings of scikit-build-core, and return its path."""
    options = [f"--config-settings={setting}" for setting in settings]
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, *options, ROOT)
    [wheel] = folder.glob("*.whl")
    return wheel


def build_native(folder: Path, machine: str) -> None:
    """Build the wheel for a processor, with Debian's cross-compiler if it is not this machine's."""
    settings = [f"build-dir={folder / 'cmake'}", "cmake.define.POOLGRAD_STATIC_CXX=ON"]
    if machine != platform.machine():
        toolchain = ROOT / "cmake" / f"{machine}-linux-gnu.cmake"
        settings.append(f"cmake.define.CMAKE_TOOLCHAIN_FILE={toolchain}")
    untagged = folder / "untagged"
    shutil.rmtree(untagged, ignore_errors=True)
    wheel = build(untagged, *settings)
    run(sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag", f"linux_{machine}", wheel)
    given = [f"--exclude={library}" for library in GIVEN_BY_CANN]
    run("auditwheel", "repair", "--only-plat", *given, "--wheel-dir", folder, *untagged.glob("*.whl"))
    shutil.rmtree(untagged)


def compiler(machine: str) -> str:
    """Return the C++ compiler for a processor."""
    return "g++" if machine == platform.machine() else f"{machine}-linux-gnu-g++"


def run(*command: str | Path) -> None:
    """Run a command. Raises `CalledProcessError` if it fails."""
    subprocess.run(command, check=True)


if __name__ == "__main__":
    os.environ.setdefault("SOURCE_DATE_EPOCH", EPOCH)
    for wanted in sys.argv[1:]:
        make(wanted)
