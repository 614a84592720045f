"""Verification of models in files, and as the condition for writing one."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from onnx import ModelProto

from poolgrad_lowering.diagnostics.errors import VerificationError
from poolgrad_lowering.gate.gate import Gate
from poolgrad_lowering.io.atomic_write import PathLike
from poolgrad_lowering.io.external_data import ExternalData
from poolgrad_lowering.io.external_files import data_warnings
from poolgrad_lowering.io.model_file import naming, parse_model, read_bytes
from poolgrad_lowering.ir.external import ModelFolder
from poolgrad_lowering.verification.result import Verification
from poolgrad_lowering.verification.stored import Source, with_comparable_data
from poolgrad_lowering.verification.text import failure_text
from poolgrad_lowering.verification.verifier import verify

logger = logging.getLogger(__name__)


def verify_files(original: PathLike, lowered: PathLike, **options: Any) -> Verification:
    """`verify` of two files; takes its options but `folder`. Raises as it does, `FileError` and `InvalidModelError`.

    External data is looked for beside each of the files. Where it is the same in both, it may lie in other files and at
    other offsets.
    """
    sources = [_read(Path(path)) for path in (original, lowered)]
    before, after = with_comparable_data(*sources)
    return verify(before, after, folder=Path(original).parent, **options)


def require_verified(original: ModelProto, lowered: ModelProto, file: Path) -> None:
    """Raise `VerificationError` unless every site is proven and nothing else differs.

    Both models have their external data beside `file`, the original's.
    """
    data = ExternalData(ModelFolder.of_file(file))
    before, after = with_comparable_data(Source(original, data), Source(lowered, data))
    found = verify(before, after, folder=file.parent)
    if not found.proven:
        raise VerificationError(
            f"the lowered model is not proven to compute what the original does: {failure_text(found)}"
        )


def _read(path: Path) -> Source:
    model = parse_model(read_bytes(path), path)
    folder = ModelFolder.of_file(path)
    gate = Gate(folder=folder)
    with naming(path):
        gate.index(model)
    for warning in data_warnings(gate.external, folder):
        logger.warning("%s: %s: %s", path, warning.tensor, warning.reason)
    return Source(model, ExternalData(folder))
