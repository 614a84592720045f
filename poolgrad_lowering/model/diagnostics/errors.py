# SPDX-License-Identifier: Apache-2.0

"""The exceptions that this package raises: one hierarchy; each message says what is wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from poolgrad_lowering.model.diagnostics.faults import Fault


class PoolgradError(Exception):
    """Base class of every error that poolgrad_lowering raises on purpose."""


class UnknownTargetError(PoolgradError, ValueError):
    """The target name is neither a product nor a SoC name."""


class InvalidModelError(PoolgradError, ValueError):
    """The input is not a valid ONNX model, or exceeds a limit.

    `fault` is the violated condition (`docs/security.md` lists them), `where` the place (file, scope, node or tensor),
    `what` a sentence.
    """

    def __init__(self, fault: Fault, where: str, what: str) -> None:
        super().__init__(fault, where, what)
        self.fault = fault
        self.where = where
        self.what = what

    def within(self, outer: str) -> InvalidModelError:
        """Return the same error with `outer` put before its place."""
        return InvalidModelError(self.fault, f"{outer}: {self.where}" if self.where else outer, self.what)

    def __str__(self) -> str:
        return f"{self.where}: {self.what} ({self.fault.value}). {self.fault.advice}"


class UsageError(PoolgradError, ValueError):
    """The command's arguments cannot be used together, or need a package that is not installed."""


class PlanError(PoolgradError, ValueError):
    """A plan does not fit the model or the target, or a plan file is malformed.

    `where` is the place: `plan.json: sites[3].operator` for a file, empty for a plan made in Python. `what` is a
    sentence.
    """

    def __init__(self, where: str, what: str) -> None:
        super().__init__(where, what)
        self.where = where
        self.what = what

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


class FileError(PoolgradError, OSError):
    """A file cannot be read or written."""


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Convert an `OSError` into a `FileError` whose message begins with `what`, e.g. "cannot write 'model.onnx'"."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"{what}: {error.strerror or error}") from error


class VerificationError(PoolgradError):
    """The lowered model is not proven to compute the same as its original."""


class LibraryMissingError(PoolgradError, FileNotFoundError):
    """A shared library of this package is not installed."""


class OnnxRuntimeMissingError(PoolgradError, ImportError):
    """No onnxruntime is installed, or one that is too old for plugin execution providers."""


class SessionError(PoolgradError, RuntimeError):
    """The provider cannot be registered, or a session cannot be created on it."""
