# SPDX-License-Identifier: Apache-2.0

"""What every function from files to files begins with: its options, and a model's file as it was read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from onnx import ModelProto

from poolgrad_lowering.compiler.lowering.options import Options
from poolgrad_lowering.model.gate.gate import Gate
from poolgrad_lowering.model.io.limits import DEFAULT_LIMITS, Limits
from poolgrad_lowering.model.io.model_file import parse_model, read_bytes
from poolgrad_lowering.model.ir.external import ModelFolder

if TYPE_CHECKING:
    from poolgrad_lowering.verification.result import Verification

OnProven = Callable[["Verification"], None]
"""Called with the proof of a model before it is written."""


@dataclass(frozen=True, kw_only=True)
class FileOptions(Options):
    """The parameters of `lower_file` of the same names, with their defaults."""

    limits: Limits = DEFAULT_LIMITS
    strict: bool = False
    verify: bool = False
    copy_external: bool = False
    standard: bool = False


class SourceFile:
    """The path and the bytes of a model's file. Raises `FileError` and `InvalidModelError`."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self.path, self.limits, self.data = path, limits, read_bytes(path, limits)

    def open(self, data: bytes | None = None) -> tuple[ModelProto, Gate]:
        """Return the model and a gate for it; of the file, or of other bytes that stand for it."""
        gate = Gate(self.limits, ModelFolder.of_file(self.path))
        return parse_model(self.data if data is None else data, self.path), gate

    def require_proven(self, lowered: bytes, on_proven: OnProven | None) -> None:
        """Call `on_proven` with the proof that the bytes of a model compute what the file does.

        Raises `VerificationError` if there is none.
        """
        from poolgrad_lowering.verification.verifier import require_verified  # noqa: PLC0415 - loads onnx's evaluator

        proof = require_verified(parse_model(self.data, self.path), parse_model(lowered, self.path), self.path)
        if on_proven is not None:
            on_proven(proof)
