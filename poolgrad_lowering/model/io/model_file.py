# SPDX-License-Identifier: Apache-2.0

"""Reads a model's file: at most `max_bytes` bytes, parsed as a model, with the file's path in every error."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from google.protobuf.message import DecodeError
from onnx import ModelProto

from poolgrad_lowering.model.diagnostics.errors import InvalidModelError, explained
from poolgrad_lowering.model.diagnostics.faults import Fault
from poolgrad_lowering.model.io.atomic_write import open_regular
from poolgrad_lowering.model.io.limits import DEFAULT_LIMITS, Limits


def read_bytes(path: Path, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """The file's bytes. Raises `FileError`, and `InvalidModelError` if there are more than `limits.max_bytes`."""
    with explained(f"cannot read '{path}'"), open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read() if size <= limits.max_bytes else b""
    if max(size, len(data)) > limits.max_bytes:
        what = f"it has {max(size, len(data))} bytes, more than {limits.max_bytes}"
        raise InvalidModelError(Fault.TOO_LARGE, f"'{path}'", what)
    return data


def require_model(model: object) -> None:
    """Raise `TypeError` unless the argument is a model; a path is the most likely mistake."""
    if not isinstance(model, ModelProto):
        raise TypeError(
            f"the model is of type {type(model).__name__}, not onnx.ModelProto: load a file with onnx.load(path), or "
            "call the function for files (lower_file, verify_files, export_atc_file)"
        )


def parse_model(data: bytes, path: Path) -> ModelProto:
    """The model parsed from the bytes of the file at `path`. Raises `InvalidModelError`."""
    if not data:
        raise InvalidModelError(Fault.NOT_ONNX, f"'{path}'", "it is empty")
    with errors_name(path):
        return ModelProto.FromString(data)


@contextmanager
def errors_name(path: Path) -> Iterator[None]:
    """Add the file's path to `InvalidModelError`, and raise `DecodeError` of protobuf as `InvalidModelError`."""
    try:
        yield
    except DecodeError as error:
        raise InvalidModelError(Fault.NOT_ONNX, f"'{path}'", "it does not parse as an ONNX model") from error
    except InvalidModelError as error:
        raise error.within(f"'{path}'") from error.__cause__


def model_sha256(data: bytes) -> str:
    """The SHA-256 of a model's file in hexadecimal, which identifies the model in a plan."""
    import hashlib  # noqa: PLC0415 - it loads OpenSSL, which a lowering without a plan does not need

    return hashlib.sha256(data).hexdigest()
