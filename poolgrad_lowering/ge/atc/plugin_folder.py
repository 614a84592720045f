# SPDX-License-Identifier: Apache-2.0

"""Writes the parser plugin for ATC into a folder that ATC searches: the library of this installation, and the sources
with a script that compiles them against an installed toolkit."""

from __future__ import annotations

import os
import shlex
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

from poolgrad_lowering.model.diagnostics.errors import FileError, UsageError, explained
from poolgrad_lowering.model.diagnostics.version import __version__
from poolgrad_lowering.model.io.atomic_write import make_folder, write_files

MACHINES = {62: "x86_64", 183: "aarch64"}
"""The machines that CANN has: numbers of ELF (`e_machine`), and the names that `uname -m` prints."""

LIBRARY = "libpoolgrad_atc_plugin.so"
_INSTALLED = f"framework/onnx/{LIBRARY}"  # ATC loads every *.so below framework/
_SOURCES = "source"
_MARKER = "poolgrad-atc-plugin.txt"
_FIRST_LINE = "Written by `poolgrad export-atc --plugin`."


@dataclass(frozen=True)
class AtcPlugin:
    """A folder with the parser plugin.

    `library` is the path of the compiled plugin, and `machine` its processor, as `uname -m` names it; both are None if
    this installation has no library, and `build` has to be run. `build` is the command that compiles the plugin
    against a toolkit, on the machine of the toolkit. After `setting`, a line for a shell, ATC finds the plugin.
    """

    folder: Path
    library: Path | None
    machine: str | None
    build: str
    setting: str


def write_atc_plugin(folder: str | os.PathLike[str], *, machine: str | None = None) -> AtcPlugin:
    """Write the parser plugin for ATC into `folder`, which is made if it does not exist; other files in it stay.

    What an earlier call has written is replaced. `machine`, x86_64 or aarch64, demands a library for this processor;
    if None, the library that this installation has is written, or none.

    Raises `UsageError` if there is no library for `machine`, or if ATC cannot be given the folder's path. Raises
    `FileError` if the folder has other files of the same names, or cannot be written.
    """
    target = Path(os.path.realpath(folder))
    if os.pathsep in str(target):
        raise UsageError(f"'{target}' has a '{os.pathsep}', which separates folders for ATC; give another folder")
    found = next((path for folder in _package_folders() if (path := folder / LIBRARY).is_file()), None)
    found_machine = None if found is None else _machine(found)
    if machine not in (None, found_machine):
        raise UsageError(_no_library(str(machine), found_machine))
    sources = {target / _SOURCES / path.name: path for path in _sources()}
    libraries = {} if found is None else {target / _INSTALLED: found}
    _check_owner(target, [*sources, target / _INSTALLED])
    for name in (_SOURCES, "framework/onnx"):
        make_folder(target / name)
    plugin = AtcPlugin(
        folder=target,
        library=next(iter(libraries), None),
        machine=found_machine,
        build=f"sh {shlex.quote(str(target / _SOURCES / 'build.sh'))}",
        setting=f"export ASCEND_CUSTOM_OPP_PATH={shlex.quote(str(target))}"
        "${ASCEND_CUSTOM_OPP_PATH:+:$ASCEND_CUSTOM_OPP_PATH}",
    )
    # The marker first: what is written after it is replaced by the next call.
    write_files({target / _MARKER: _marker(plugin).encode(), **sources, **libraries})
    return plugin


def _marker(plugin: AtcPlugin) -> str:
    return (
        f"{_FIRST_LINE}\n\n"
        f"The parser plugin of poolgrad-lowering {__version__} for ATC. ATC finds it after\n\n    {plugin.setting}\n\n"
        f"and `{plugin.build}` compiles it against an installed CANN toolkit.\n"
    )


def _check_owner(folder: Path, paths: list[Path]) -> None:
    """Raise `FileError` if one of these files exists in a folder without this module's marker."""
    marker = folder / _MARKER
    with explained(f"cannot read '{marker}'"):
        if marker.is_file() and marker.read_text(encoding="utf-8", errors="replace").startswith(_FIRST_LINE):
            return
    for path in (marker, *paths):
        if path.exists() or path.is_symlink():
            raise FileError(
                f"cannot write '{path}': it exists and is not of `poolgrad export-atc --plugin`; give another folder"
            )


def _package_folders() -> list[Path]:
    # An editable install has the sources in one folder of the package and the built libraries in another.
    return [Path(folder) for folder in sys.modules[__name__.rpartition(".")[0]].__path__]


def _sources() -> list[Path]:
    suffixes = {".cpp", ".h", ".map", ".sh"}
    return sorted(path for folder in _package_folders() for path in folder.glob("plugin/*") if path.suffix in suffixes)


def _machine(library: Path) -> str:
    with library.open("rb") as file:
        [number] = struct.unpack_from("<H", file.read(20), 18)
    return MACHINES.get(number, f"ELF machine {number}")


def _no_library(machine: str, found: str | None) -> str:
    has = "no library" if found is None else f"only the library for {found}"
    return (
        f"this installation has {has} of the plugin; install poolgrad-lowering on a machine of {machine} with glibc "
        f"2.34 or newer, or leave out --machine and run source/build.sh where the toolkit is"
    )
