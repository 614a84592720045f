# SPDX-License-Identifier: Apache-2.0

"""Runs both models from end to end in onnxruntime, if it is installed and can run the original."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, ValueInfoProto

from poolgrad_lowering.verification.compare import compare
from poolgrad_lowering.verification.evaluator import first_line
from poolgrad_lowering.verification.inputs import with_inputs_of
from poolgrad_lowering.verification.result import LevelResult, WholeModel

Array = npt.NDArray[Any]

DEFAULT = "default"
LEVELS = ("ORT_DISABLE_ALL", DEFAULT)
"""Optimisation levels: disabled, so that equal nodes run the same kernel, and the default of a session."""

_SYMBOL = 2
_LARGEST = 1 << 28
"""The size of a model in bytes above which it is not run."""


def compare_whole(original: ModelProto, lowered: ModelProto, seed: int) -> WholeModel:
    """Run both models on the same inputs: integers 0 or 1, floats of a normal distribution, symbolic sizes as 2.

    They run once at each of `LEVELS`. Optimisations can also change the bits of the original, so the outputs are
    compared with those of the original at the same level.
    """
    try:
        import onnxruntime  # noqa: F401, PLC0415 - optional
    except ImportError:
        return WholeModel("skipped", "onnxruntime is not installed")
    if original.ByteSize() > _LARGEST:
        return WholeModel("skipped", "the model is large")
    try:
        feeds = _feeds(original, np.random.default_rng(seed))
        original, weights = with_inputs_of(lowered, original)
        feeds |= {name: onnx.numpy_helper.to_array(tensor) for name, tensor in weights.items()}
    except Exception as error:  # numpy and onnx raise errors of many classes
        return WholeModel("skipped", f"no data can be generated for the inputs: {first_line(error)}")
    return WholeModel.of_levels(tuple(_compare_at(level, original, lowered, feeds) for level in LEVELS))


def _compare_at(level: str, original: ModelProto, lowered: ModelProto, feeds: dict[str, Array]) -> LevelResult:
    names = [value.name for value in original.graph.output]
    try:
        expected = _run(original, level, names, feeds)
    except Exception as error:  # onnxruntime raises errors of many classes
        return LevelResult(level, "skipped", f"onnxruntime does not run the original: {first_line(error)}")
    try:
        found = _run(lowered, level, names, feeds)
    except Exception as error:  # as above
        reason = f"onnxruntime runs the original, but not the lowered model: {first_line(error)}"
        return LevelResult(level, "differs", reason)
    for name, before, after in zip(names, expected, found, strict=True):
        if mismatch := compare(before, after, run=0, output=name):
            return LevelResult(level, "differs", f"output '{name}': {mismatch.what}")
    return LevelResult(level, "same")


def _run(model: ModelProto, level: str, names: list[str], feeds: dict[str, Array]) -> list[Array]:
    import onnxruntime  # noqa: PLC0415 - optional

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised as exceptions
    if level != DEFAULT:
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    outputs: list[Array] = session.run(names, feeds)
    return outputs


def _feeds(model: ModelProto, random: np.random.Generator) -> dict[str, Array]:
    stored = {tensor.name for tensor in model.graph.initializer}
    return {value.name: _draw(value, random) for value in model.graph.input if value.name not in stored}


def _draw(value: ValueInfoProto, random: np.random.Generator) -> Array:
    tensor = value.type.tensor_type
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    shape = [dim.dim_value if dim.HasField("dim_value") else _SYMBOL for dim in tensor.shape.dim]
    if dtype.kind in "biu":
        return np.asarray(random.integers(0, 2, shape)).astype(dtype)
    return random.standard_normal(shape).astype(dtype)
