# SPDX-License-Identifier: Apache-2.0

"""The errors of this room, and the import of torch with an error that says how to install it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from poolgrad_lowering.model.diagnostics.errors import PoolgradError

INSTALL = "pip install 'poolgrad-lowering[torch]'"


class TorchMissingError(PoolgradError, ImportError):
    """PyTorch or onnxscript, which its exporter needs, is not installed."""


class TorchExportError(PoolgradError, RuntimeError):
    """PyTorch cannot export a training step of the model. The message names the operator or the cause."""


class StepMismatchError(PoolgradError, ArithmeticError):
    """A training step does not compute what eager PyTorch computes."""


class NumbersDecideError(RuntimeError):
    """A size or the way of a computation depends on the numbers in a tensor, which a function of torch reads."""

    def __init__(self, function: str, place: str) -> None:
        """Keep the name of the function, which is the message, and the place in the model that calls it."""
        super().__init__(function)
        self.place = place


@contextmanager
def torch_needed() -> Iterator[None]:
    """Convert an `ImportError` of torch or onnxscript into a `TorchMissingError` with the line that installs them."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("torch", "onnxscript"):
            raise
        raise TorchMissingError(
            f"{error.name} is not installed, which poolgrad_lowering.torch needs: {INSTALL}"
        ) from error
