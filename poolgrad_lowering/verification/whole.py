"""Both models from end to end in onnxruntime, where it is installed and runs the original."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, ValueInfoProto

from poolgrad_lowering.verification.compare import compare
from poolgrad_lowering.verification.evaluator import first_line
from poolgrad_lowering.verification.result import WholeModel

Array = npt.NDArray[Any]

_SYMBOL = 2
_LARGEST = 1 << 28
"""Bytes of a model above which it is not run."""


def compare_whole(original: ModelProto, lowered: ModelProto, seed: int) -> WholeModel:
    """Run both models on one set of inputs: integers 0 or 1, floats of a normal distribution, symbols as 2.

    Both run without graph optimisations, so that what is the same node is the same kernel.
    """
    try:
        import onnxruntime  # noqa: F401, PLC0415 - optional
    except ImportError:
        return WholeModel("skipped", "onnxruntime is not installed")
    if original.ByteSize() > _LARGEST:
        return WholeModel("skipped", "the model is large")
    try:
        feeds = _feeds(original, np.random.default_rng(seed))
        expected = _run(original, feeds)
    except Exception as error:  # onnxruntime raises many kinds
        return WholeModel("skipped", f"onnxruntime does not run the original: {first_line(error)}")
    try:
        found = _run(lowered, feeds)
    except Exception as error:  # as above
        return WholeModel("differs", f"onnxruntime runs the original, but not the lowered model: {first_line(error)}")
    for name, value in expected.items():
        if mismatch := compare(value, found[name], run=0, output=name):
            return WholeModel("differs", f"output '{name}': {mismatch.what}")
    return WholeModel("same")


def _run(model: ModelProto, feeds: dict[str, Array]) -> dict[str, Array]:
    import onnxruntime  # noqa: PLC0415 - optional

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


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
