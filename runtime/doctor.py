"""What of this machine the runtime can use, and why not the rest: the facts behind `poolgrad doctor`.

Everything that could take the process down with it is asked of other processes (`probe`). This module knows neither
models nor sessions, and imports no onnxruntime.
"""

from __future__ import annotations

import json
import platform
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import poolgrad_lowering
from poolgrad_lowering.runtime import probe
from poolgrad_lowering.runtime.errors import LibraryMissingError
from poolgrad_lowering.runtime.library import get_host_library_path, get_library_path
from poolgrad_lowering.runtime.registration import OLDEST_ONNXRUNTIME, is_new_enough

BACKENDS = ("cann", "host")
_TIMEOUT = 120  # seconds: a device's first answer may take many


@dataclass(frozen=True)
class Part:
    """A thing that the runtime is made of: where or which it is, and what is wrong with it, if anything."""

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
    """A function of aclnn and the library that gives it; None if no library does."""

    name: str
    library: str | None


@dataclass(frozen=True)
class Operator:
    """An operator of the dialect: the aclnn functions that run it on the product, and which of them are missing."""

    name: str
    functions: list[str]
    missing: list[str]


@dataclass(frozen=True)
class Backend:
    """A backend; `problem` is None if sessions can run on it."""

    backend: str
    problem: str | None
    libraries: list[Library] = field(default_factory=list)
    packages: list[Package] = field(default_factory=list)
    missing_symbols: list[str] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    devices: int | None = None
    soc: str | None = None
    product: str | None = None
    operators: list[Operator] = field(default_factory=list)


@dataclass(frozen=True)
class Choice:
    """The backend that `auto` takes, None if there is none, and why."""

    backend: str | None
    reason: str


@dataclass(frozen=True)
class Diagnosis:
    """The state of the runtime on this machine."""

    python: str
    package: str
    onnxruntime: Part
    provider: Part
    host_library: Part
    backends: list[Backend]
    auto: Choice

    @property
    def works(self) -> bool:
        """Whether there is a backend to run on."""
        return any(backend.problem is None for backend in self.backends)

    def to_json(self) -> str:
        """Return the diagnosis as JSON, with the fields' names as keys and `works` beside them."""
        return json.dumps({"works": self.works, **asdict(self)}, indent=2) + "\n"


class _ProbeError(Exception):
    """A probe did not answer; the message says why."""


def diagnose() -> Diagnosis:
    """Look at the runtime of this machine. It takes a second or a few, and does not raise."""
    provider = _library(get_library_path)
    return Diagnosis(
        python=f"{platform.python_version()} ({sys.executable})",
        package=poolgrad_lowering.__version__,
        onnxruntime=_onnxruntime(),
        provider=provider,
        host_library=_library(get_host_library_path),
        backends=[_backend(provider, name) for name in BACKENDS],
        auto=_choice(provider),
    )


def _onnxruntime() -> Part:
    try:
        version = _ask("onnxruntime")
    except _ProbeError as error:
        return Part(None, f"cannot be imported: {error}; pip install 'onnxruntime>={OLDEST_ONNXRUNTIME}'")
    if not is_new_enough(version):
        return Part(version, f"too old for the provider; pip install 'onnxruntime>={OLDEST_ONNXRUNTIME}'")
    return Part(version)


def _library(find: Callable[[], str]) -> Part:
    try:
        path = find()
    except LibraryMissingError as error:
        return Part(None, str(error))
    try:
        _ask("load", path)
    except _ProbeError as error:
        return Part(path, f"does not load: {error}")
    return Part(path)


def _backend(provider: Part, name: str) -> Backend:
    try:
        described = _describe(provider, name)
    except _ProbeError as error:
        return Backend(name, str(error))
    rows = {"libraries": Library, "packages": Package, "functions": Function, "operators": Operator}
    lists = {key: [row(**fields) for fields in described[key]] for key, row in rows.items()}
    return Backend(**(described | lists))


def _choice(provider: Part) -> Choice:
    try:
        return Choice(**_describe(provider, "auto"))
    except _ProbeError as error:
        return Choice(None, str(error))


def _describe(provider: Part, request: str) -> dict[str, Any]:
    if provider.found is None or provider.problem is not None:
        raise _ProbeError("the provider's library cannot be used")
    described: dict[str, Any] = _ask("describe", provider.found, request)
    if described.keys() == {"problem"}:
        raise _ProbeError(described["problem"])
    return described


def _ask(*question: str) -> Any:
    """Return the answer of `probe`. Raises `_ProbeError` if it gives none."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [sys.executable, probe.__file__, str(answer), *question]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT, check=False)
        except subprocess.TimeoutExpired as error:
            raise _ProbeError(f"no answer within {_TIMEOUT} s") from error
        try:
            return json.loads(answer.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:  # the process ended before it had answered
            raise _ProbeError(_cause(done)) from error


def _cause(done: subprocess.CompletedProcess[bytes]) -> str:
    if done.returncode < 0:
        number = -done.returncode
        return f"its process was ended by signal {number} ({signal.strsignal(number)})"
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"its process ended with code {done.returncode}"
