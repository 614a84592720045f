# SPDX-License-Identifier: Apache-2.0

"""Writes a failing case as files: the two sides of the site as models, and the inputs."""

from __future__ import annotations

import re
from copy import deepcopy
from pathlib import Path

import numpy as np
from onnx import ModelProto

from poolgrad_lowering.diagnostics.errors import explained
from poolgrad_lowering.verification.running.site import Failure


def write_reproducer(folder: Path, name: str, failure: Failure) -> Path:
    """Write `original.onnx`, `lowered.onnx` and `inputs.npz` into a subfolder of `folder`, and return the subfolder.

    The models have the sizes of the case. Types that numpy does not have are stored as their bits. Raises `FileError`.
    """
    place = folder / (re.sub(r"[^\w.-]+", "_", name).strip("_.") or "site")
    with explained(f"cannot write a reproducer into '{place}'"):
        place.mkdir(parents=True, exist_ok=True)
        for model, file in ((failure.original, "original.onnx"), (failure.lowered, "lowered.onnx")):
            (place / file).write_bytes(_with_sizes(model, failure).SerializeToString())
        np.savez(place / "inputs.npz", **{k: _plain(v) for k, v in failure.feeds.items()})  # type: ignore[arg-type]
    return place


def _plain(array: np.ndarray) -> np.ndarray:
    return array if array.dtype.kind in "biuf" else array.view(f"u{array.dtype.itemsize}")


def _with_sizes(model: ModelProto, failure: Failure) -> ModelProto:
    sized = deepcopy(model)
    for value in sized.graph.input:
        shape = value.type.tensor_type.shape
        del shape.dim[:]
        for size in failure.feeds[value.name].shape:
            shape.dim.add(dim_value=size)
    return sized
