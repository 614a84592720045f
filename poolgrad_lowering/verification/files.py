# SPDX-License-Identifier: Apache-2.0

"""Verification of models in files, and of a lowered model before it is written."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from onnx import ModelProto

from poolgrad_lowering.model.diagnostics.errors import VerificationError
from poolgrad_lowering.model.gate.gate import Gate
from poolgrad_lowering.model.io.atomic_write import PathLike
from poolgrad_lowering.model.io.external_data import ExternalData
from poolgrad_lowering.model.io.external_files import data_warnings
from poolgrad_lowering.model.io.model_file import errors_name, parse_model, read_bytes
from poolgrad_lowering.model.ir.external import ModelFolder
from poolgrad_lowering.verification.outside.stored import Source, with_comparable_data
from poolgrad_lowering.verification.result import Verification
from poolgrad_lowering.verification.running.site import Settings
from poolgrad_lowering.verification.text import failure_text
from poolgrad_lowering.verification.verifier import verify

logger = logging.getLogger(__name__)


def verify_files(original: PathLike, lowered: PathLike, settings: Settings, **options: Any) -> Verification:
    """Call `verify` for two files, with its options except `folder`.

    The external data of each model is read from the folder of its file; equal data can be in different files and at
    different offsets. Raises the errors of `verify`, `FileError` and `InvalidModelError`.
    """
    before, after = with_comparable_data(_read(Path(original)), _read(Path(lowered)))
    return verify(before, after, settings, folder=Path(original).parent, **options)


def require_verified(original: ModelProto, lowered: ModelProto, file: Path) -> Verification:
    """Return the proof. Raises `VerificationError` unless every site is proven and nothing else differs.

    The external data of both models is in the folder of `file`, the original's file.
    """
    data = ExternalData(ModelFolder.of_file(file))
    before, after = with_comparable_data(Source(original, data), Source(lowered, data))
    found = verify(before, after, Settings(), folder=file.parent)
    if not found.proven:
        raise VerificationError(
            f"the lowered model is not proven to compute the same as the original: {failure_text(found)}"
        )
    return found


def _read(path: Path) -> Source:
    """Return the model of a file, which is checked. Logs warnings about its external data."""
    model = parse_model(read_bytes(path), path)
    folder = ModelFolder.of_file(path)
    gate = Gate(folder=folder)
    with errors_name(path):
        gate.index(model)
    for warning in data_warnings(gate.external, folder):
        logger.warning("%s: %s: %s", path, warning.tensor, warning.reason)
    return Source(model, ExternalData(folder))
