# SPDX-License-Identifier: Apache-2.0

"""Finds which backends and which tools of CANN this machine has, and why not others: the data of `poolgrad doctor`.

Operations that can crash their process run in other processes (`probing`). This module uses neither models nor
sessions, and does not import onnxruntime.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import poolgrad_lowering
from poolgrad_lowering.model.diagnostics.errors import LibraryMissingError
from poolgrad_lowering.model.io.onnxruntime import advice, is_new_enough
from poolgrad_lowering.runtime.atc import find_atc, find_plugin
from poolgrad_lowering.runtime.library import get_host_library_path, get_library_path
from poolgrad_lowering.runtime.probing import ProbeError, ask

BACKENDS = ("cann", "host")


@dataclass(frozen=True)
class Part:
    """A component of the runtime: its path or version, and what is wrong with it, None if nothing is."""

    found: str | None  # a path or a version
    problem: str | None = None


@dataclass(frozen=True)
class Library:
    """A library of a backend; `problem` says why it is not used."""

    path: str
    problem: str | None


@dataclass(frozen=True)
class Package:
    """A package of CANN and its version."""

    name: str
    version: str


@dataclass(frozen=True)
class Function:
    """A function of aclnn and the library that has it; None if no library does."""

    name: str
    library: str | None


@dataclass(frozen=True)
class Operator:
    """An operator of the dialect: the aclnn functions that run it on the product, those that are missing, and those
    that this CANN refuses on it, with the reason for each element type.
    """

    name: str
    functions: list[str]
    missing: list[str]
    refused: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Backend:
    """A backend; `problem` is None if sessions can run on it. `element_types` are those for which it asks CANN."""

    backend: str
    problem: str | None
    libraries: list[Library] = field(default_factory=list)
    packages: list[Package] = field(default_factory=list)
    missing_symbols: list[str] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    devices: int | None = None
    soc: str | None = None
    product: str | None = None
    element_types: list[str] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)


@dataclass(frozen=True)
class Choice:
    """The backend that `auto` selects, None if there is none, and the reason."""

    backend: str | None
    reason: str


@dataclass(frozen=True)
class Diagnosis:
    """The state of the runtime on this machine, and of ATC, which is needed for offline conversion only."""

    python: str
    package: str
    onnxruntime: Part
    provider: Part
    host_library: Part
    backends: list[Backend]
    auto: Choice
    atc: Part
    atc_plugin: Part

    @property
    def works(self) -> bool:
        """Whether sessions can run on at least one backend."""
        return any(backend.problem is None for backend in self.backends)

    def to_json(self) -> str:
        """Return the diagnosis as JSON text, with the names of the fields as keys, and `works`."""
        return json.dumps({"works": self.works, **asdict(self)}, indent=2) + "\n"


def diagnose() -> Diagnosis:
    """Return the diagnosis of the runtime on this machine. Takes a few seconds and raises no errors."""
    provider = _library(get_library_path)
    return Diagnosis(
        python=f"{platform.python_version()} ({sys.executable})",
        package=poolgrad_lowering.__version__,
        onnxruntime=_onnxruntime(),
        provider=provider,
        host_library=_library(get_host_library_path),
        backends=[_backend(provider, name) for name in BACKENDS],
        auto=_choice(provider),
        atc=Part(*find_atc()),
        atc_plugin=Part(*find_plugin()),
    )


def routes(backend: str) -> list[dict[str, Any]]:
    """Return the aclnn functions of a backend, as records of operator, rank (of x), argmax (its type) and function.

    Raises `ProbeError` if the backend cannot be used.
    """
    found: list[dict[str, Any]] = _describe(_library(get_library_path), f"{backend} routes")
    return found


def _onnxruntime() -> Part:
    try:
        version = ask("onnxruntime")
    except ProbeError as error:
        return Part(None, f"cannot be imported: {error}; {advice()}")
    if not is_new_enough(version):
        return Part(version, f"too old for the provider; {advice()}")
    return Part(version)


def _library(find: Callable[[], str]) -> Part:
    try:
        path = find()
    except LibraryMissingError as error:
        return Part(None, str(error))
    try:
        ask("load", path)
    except ProbeError as error:
        return Part(path, f"does not load: {error}")
    return Part(path)


def _backend(provider: Part, name: str) -> Backend:
    try:
        described = _describe(provider, name)
    except ProbeError as error:
        return Backend(name, str(error))
    rows = {"libraries": Library, "packages": Package, "functions": Function, "operators": Operator}
    lists = {key: [row(**fields) for fields in described[key]] for key, row in rows.items()}
    return Backend(**(described | lists))


def _choice(provider: Part) -> Choice:
    try:
        return Choice(**_describe(provider, "auto"))
    except ProbeError as error:
        return Choice(None, str(error))


def _describe(provider: Part, request: str) -> Any:
    if provider.found is None or provider.problem is not None:
        raise ProbeError("the provider's library cannot be used")
    described = ask("describe", provider.found, request)
    if isinstance(described, dict) and described.keys() == {"problem"}:
        raise ProbeError(described["problem"])
    return described
