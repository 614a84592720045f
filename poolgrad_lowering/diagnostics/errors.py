"""The exceptions that leave this package: one family, each message saying what, where and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from poolgrad_lowering.diagnostics.faults import FAULTS, Fault, Flaw


class PoolgradError(Exception):
    """Base of every error that poolgrad_lowering raises on purpose."""


class UnknownTargetError(PoolgradError, ValueError):
    """The name is neither a product nor a SoC."""


class InvalidModelError(PoolgradError, ValueError):
    """The input is not an ONNX model that can be worked on.

    `fault` is the condition of `docs/security.md`, `where` the place (file, scope, node or tensor), `what` a sentence.
    """

    def __init__(self, fault: Fault, where: str, what: str) -> None:
        super().__init__(fault, where, what)
        self.fault = fault
        self.where = where
        self.what = what

    @classmethod
    def of(cls, flaw: Flaw, where: str) -> InvalidModelError:
        """The error that a flaw at some place is."""
        return cls(flaw.fault, where, flaw.what)

    def within(self, outer: str) -> InvalidModelError:
        """The same error with its place named from further out."""
        return InvalidModelError(self.fault, f"{outer}: {self.where}" if self.where else outer, self.what)

    def __str__(self) -> str:
        return f"{self.where}: {self.what} ({self.fault.value}). {FAULTS[self.fault].advice}"


class UsageError(PoolgradError, ValueError):
    """The command was asked for something that does not go, or that is not installed."""


class PlanError(PoolgradError, ValueError):
    """A plan that does not fit the model or the target, or a plan file that is none.

    `where` is the place, `plan.json: sites[3].operator` for a file, empty for a plan made in Python; `what` a sentence.
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
    """Turn an `OSError` into a `FileError` that begins with what could not be done: "cannot write 'model.onnx'"."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"{what}: {error.strerror or error}") from error


class VerificationError(PoolgradError):
    """A lowered model is not proven to compute what its original does."""
