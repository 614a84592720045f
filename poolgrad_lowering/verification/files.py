"""Verification of models in files, and as the condition for writing one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onnx import ModelProto

from poolgrad_lowering.errors import VerificationError
from poolgrad_lowering.gate.external import ModelFolder
from poolgrad_lowering.gate.gate import Gate
from poolgrad_lowering.model_file import naming, parse_model, read_bytes
from poolgrad_lowering.placing import PathLike
from poolgrad_lowering.verification.result import Verification
from poolgrad_lowering.verification.text import failure_text
from poolgrad_lowering.verification.verifier import verify


def verify_files(original: PathLike, lowered: PathLike, **options: Any) -> Verification:
    """`verify` of two files; takes its options but `folder`. Raises as it does, `FileError` and `InvalidModelError`."""
    before, after = (_read(Path(path)) for path in (original, lowered))
    return verify(before, after, folder=Path(original).parent, **options)


def require_verified(original: ModelProto, lowered: ModelProto, folder: Path) -> None:
    """Raise `VerificationError` unless every site is proven and nothing else differs."""
    found = verify(original, lowered, folder=folder)
    if not found.proven:
        raise VerificationError(
            f"the lowered model is not proven to compute what the original does: {failure_text(found)}"
        )


def _read(path: Path) -> ModelProto:
    model = parse_model(read_bytes(path), path)
    with naming(path):
        Gate(folder=ModelFolder.of_file(path)).index(model)
    return model
