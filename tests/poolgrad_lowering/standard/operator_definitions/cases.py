# SPDX-License-Identifier: Apache-2.0

"""Operands, and the comparison of a node with its result by a definition in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx

from tests.oracles import assert_same_bits, run_ort
from tests.poolgrad_lowering.standard.standard_models import Array, assert_close, assert_derived, one_node, standardised

F16, F32, F64 = np.float16, np.float32, np.float64
KERNELS = False
"""Whether operators stay in the models, whose results are then those of onnxruntime-training's kernels (`conftest`)."""
SIZES = {"shape", "a", "a3", "axes", "b", "dims", "split", "unflatten_dims"}
"""Operands from which sizes of results follow: where a caller gives them, the sizes are not known before."""


def normal(*shape: int, dtype: Any = F32, seed: int = 0) -> Array:
    return np.asarray(np.random.default_rng([seed, *shape]).standard_normal(shape), dtype)


def positive(*shape: int, dtype: Any = F32, seed: int = 1) -> Array:
    return np.asarray(np.abs(normal(*shape, seed=seed)) + 0.5, dtype)


def integers(low: int, high: int, *shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).integers(low, high, shape)


def ints(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def prepared(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model that runs: in standard ONNX, or for the kernels as it is."""
    return model if KERNELS else standardised(model)


def check(
    op_type: str,
    feeds: Mapping[str, Array | None],
    expected: Mapping[str, Array],
    *,
    dtype: Any = F32,
    tolerance: float | None = None,
    run: Callable[..., dict[str, Array]] = run_ort,
    **model: Any,
) -> None:
    """Compare a node's definition with `expected`, by output: floats in float64 are of `dtype` in the model, within its
    tolerance; others are equal in all bits. onnxruntime's CPU computes many operators of float16 in float32, onnx's
    evaluator, which `run` may be, does not."""
    outputs = {name: array.astype(dtype) if array.dtype == F64 else array for name, array in expected.items()}
    original = one_node(op_type, feeds, outputs, **model)
    lowered = prepared(original)
    inputs = {value.name for value in lowered.graph.input}
    found = run(lowered, {name: array for name, array in feeds.items() if name in inputs and array is not None})
    assert list(found) == list(expected)
    if not KERNELS and op_type != "InPlaceAccumulatorV2":  # its first output is a flag, the definition's is the buffer
        computed = SIZES.intersection(value.name for value in original.graph.input)
        assert_derived(original, found, unknown=bool(computed) or "shapes" in model)
    for name, array in expected.items():
        if array.dtype == F64:
            assert_close(found[name], array, dtype, tolerance)
        else:
            assert_same_bits(found[name], array)
