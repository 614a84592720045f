# SPDX-License-Identifier: Apache-2.0

"""Every operator of a training runtime in standard ONNX, in plain onnxruntime, against its definition in float64."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import poolgrad_lowering
from models.training_operators import OPERATORS, example
from tests.oracles import assert_same_bits, max_pool, pool_gradient, recurrent, run_ort, run_reference
from tests.oracles import training_operators as oracle
from tests.poolgrad_lowering.standard.standard_models import (
    TOLERANCES,
    Array,
    assert_close,
    assert_derived,
    one_node,
    standardised,
)

F16, F32, F64 = np.float16, np.float32, np.float64
BATCH = 2
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
    lowered = standardised(original)
    inputs = {value.name for value in lowered.graph.input}
    found = run(lowered, {name: array for name, array in feeds.items() if name in inputs and array is not None})
    assert list(found) == list(expected)
    if op_type != "InPlaceAccumulatorV2":  # its first output is a flag, the definition's is the buffer
        computed = SIZES.intersection(value.name for value in original.graph.input)
        assert_derived(original, found, unknown=bool(computed) or "shapes" in model)
    for name, array in expected.items():
        if array.dtype == F64:
            assert_close(found[name], array, dtype, tolerance)
        else:
            assert_same_bits(found[name], array)


# -- the examples of `models.training_operators`


def _tf_conv_grad(x: Array, dy: Array, w: Array) -> tuple[Array, Array]:
    """dX and dW in TensorFlow's layouts, for NHWC, stride 2 and SAME, which pads the 5 elements by 1 at both ends."""
    dx, dw, _ = oracle.conv_grad(
        dy.transpose(0, 3, 1, 2),
        x.transpose(0, 3, 1, 2),
        w.transpose(3, 2, 0, 1),
        strides=[2, 2],
        begins=[1, 1],
        dilations=[1, 1],
    )
    return dx.transpose(0, 2, 3, 1), dw.transpose(2, 3, 1, 0)


_CLIPPED = [range(2), range(1, 4), range(3, 5)]
"""The windows of 3 elements with stride 2 over 5 elements, padded by one."""
_ONE_AXIS = {"strides": [2], "begins": [1], "dilations": [1]}


def _doubles(operands: Sequence[Array]) -> list[Array]:
    return [operand.astype(F64) for operand in operands]


EXAMPLES: dict[str, Callable[..., Any]] = {
    "ATen": lambda x, dY: oracle.average_pool_grad(
        dY, x.shape, kernel=[2, 2], strides=[2, 2], begins=[0, 0], ends=[0, 0], counts_padding=True
    ),
    "AveragePoolGrad": lambda X, dY: (
        oracle.average_windows_grad(dY, X.shape, [_CLIPPED, _CLIPPED]),
        oracle.average_pool(X, [_CLIPPED, _CLIPPED]),
    ),
    "BatchNormInternal": lambda X, scale, B, mean, var: oracle.batch_norm(
        X, scale, B, mean, var, epsilon=1e-5, momentum=0.9
    ),
    "BatchNormalizationGrad": oracle.batch_norm_grad,
    "BiasFastGeluGrad_dX": lambda dY, X, B: oracle.fast_gelu_grad(dY, X + B),
    "BiasGelu": lambda X, B: oracle.gelu(X + B),
    "BiasGeluGrad_dX": lambda dY, X, B: oracle.gelu_grad(dY, X + B),
    "BroadcastGradientArgs": lambda A, B: oracle.broadcast_axes(A.shape, B.shape),
    "ConcatTraining": lambda A, B: (np.hstack([A, B]), ints(2, 3)),
    "Conv2DBackpropFilter": lambda x, dY: _tf_conv_grad(x, dY, np.zeros((3, 3, 2, 4)))[1],
    "Conv2DBackpropInput": lambda filter, dY: _tf_conv_grad(np.zeros((2, 5, 5, 2)), dY, filter)[0],  # noqa: A006
    "ConvGrad": lambda dY, X, W: oracle.conv_grad(dY, X, W, **_ONE_AXIS),
    "ConvTransposeGrad": lambda dY, X, W: oracle.conv_transpose_grad(dY, X, W, **_ONE_AXIS),
    "DivGrad": oracle.div_grad,
    "DropoutGrad": lambda dY, mask: np.where(mask, dY.astype(F64) / 0.75, 0),
    "FakeQuantGrad": lambda dY, mask: np.where(mask, dY, F32(0)),
    "FastGelu": oracle.fast_gelu,
    "FastGeluGrad": oracle.fast_gelu_grad,
    "FlattenAndUnpad": lambda X, indices: (X.reshape(6, 4)[indices], ints(2, 3)),
    "FusedConv": lambda X, W, B: np.maximum(
        oracle.conv(X, W, strides=[1], begins=[0], counts=[3]) + B.reshape(1, 4, 1), 0
    ),
    "FusedGemm": lambda A, B, C: np.maximum(A.astype(F64) @ B.T + C, 0),
    "FusedMatMul": lambda A, B: 0.5 * A.astype(F64).transpose(0, 2, 1) @ B,
    "GatherElementsGrad": lambda dY, shape, indices: oracle.gather_elements_grad(dY, shape, indices, 1),
    "GatherGrad": lambda shape, indices, dY: oracle.gather_grad(shape, indices, dY, 0),
    "GatherNDGrad": oracle.gather_nd_grad,
    "Gelu": oracle.gelu,
    "GeluGrad": oracle.gelu_grad,
    "GRUGrad": lambda X, W, R, B, H0, dHAll, dHFinal: recurrent.gradients(
        partial(recurrent.gru, reset_after=True), (X, W, R, B, H0), {"HAll": dHAll, "HFinal": dHFinal}
    ),
    "GRUTraining": lambda *operands: tuple(recurrent.gru(*_doubles(operands), reset_after=True).values()),
    "InPlaceAccumulatorV2": lambda buffer, value, reset: np.where(reset, value, buffer + value),
    "InvertibleLayerNormalizationGrad": lambda dY, Y, scale, B, inv_std: oracle.layer_norm_grad(
        dY, (Y.astype(F64) - B) / scale / inv_std, scale, np.zeros(inv_std.shape), inv_std, axis=1
    ),
    "LayerNormalization": lambda X, scale, B: oracle.layer_norm(X, scale, B, axis=1, epsilon=1e-5),
    "LayerNormalizationGrad": lambda *operands: oracle.layer_norm_grad(*operands, axis=1),
    "LeakyReluGrad": lambda dY, Y: np.where(Y > 0, dY, dY * F32(0.1)),
    "LogSoftmaxGrad": lambda dY, Y: oracle.log_softmax_grad(dY, Y, (1,)),
    "LogSoftmaxGrad_13": lambda dY, Y: oracle.log_softmax_grad(dY, Y, (1,)),
    "LSTMGrad": lambda X, W, R, B, H0, C0, dHAll, dHFinal, dCFinal: recurrent.gradients(
        recurrent.lstm, (X, W, R, B, H0, C0), {"HAll": dHAll, "HFinal": dHFinal, "CFinal": dCFinal}
    ),
    "LSTMTraining": lambda *operands: tuple(recurrent.lstm(*_doubles(operands)).values()),
    "MaxPoolGrad": lambda X, dY: (
        np.where(np.repeat(X.reshape(len(X), 2, 2, 2).max(3), 2, 2) == X, np.repeat(dY, 2, 2), 0),
        X.reshape(len(X), 2, 2, 2).max(3),
    ),
    "PadAndUnflatten": oracle.pad_and_unflatten,
    "QuickGelu": lambda X: oracle.quick_gelu(X, 1.702),
    "QuickGeluGrad": lambda dY, X: oracle.quick_gelu_grad(dY, X, 1.702),
    "ReduceAllL2": oracle.reduce_all_l2,
    "ReduceSumTraining": lambda X: X.astype(F64).sum(1),
    "ReluGrad": lambda dY, Y: np.where(Y > 0, dY, F32(0)),
    "ResizeGrad": lambda dY, X: oracle.resize_grad(dY, X.shape[2:], [2.0], mode="linear"),
    "Scale": lambda X, scale: X.astype(F64) / scale,
    "ScaledSum": lambda A, B: 0.5 * A.astype(F64) + 2 * B,
    "ShrunkenGather": lambda X, indices: X[indices],
    "SigmoidGrad": lambda dY, Y: dY.astype(F64) * Y * (1 - Y.astype(F64)),
    "SimplifiedLayerNormalization": lambda X, scale: oracle.layer_norm(
        X, scale, None, axis=1, epsilon=1e-5, centred=False
    )[::2],
    "SimplifiedLayerNormalizationGrad": lambda dY, X, scale, inv_std: oracle.layer_norm_grad(
        dY, X, scale, None, inv_std, axis=1
    )[:2],
    "SliceGrad": lambda dY, X: oracle.slice_grad(dY, X.shape, {1: slice(1, 5, 2)}),
    "SoftmaxCrossEntropyLoss": lambda X, label, weight: oracle.loss(X, label, weight, 1),
    "SoftmaxCrossEntropyLossGrad": lambda dY, log_prob, label, weight: oracle.loss_grad(dY, log_prob, label, weight, 1),
    "SoftmaxCrossEntropyLossInternal": lambda X, label, weight, ignored: oracle.loss(X, label, weight, int(ignored)),
    "SoftmaxCrossEntropyLossInternalGrad": lambda dY, log_prob, label, weight, ignored: oracle.loss_grad(
        dY, log_prob, label, weight, int(ignored), "sum"
    ),
    "SoftmaxGrad": lambda dY, Y: oracle.softmax_grad(dY, Y, (1,)),
    "SoftmaxGrad_13": lambda dY, Y: oracle.softmax_grad(dY, Y, (1,)),
    "SplitTraining": lambda X: (X[:, :2], X[:, 2:]),
    "TanhGrad": lambda dY, Y: dY * (1 - Y.astype(F64) ** 2),
    "Trilu": np.tril,
}
"""The results of the example of each operator; those that are not float64 are exact."""

OPERANDS: dict[str, dict[str, Array]] = {
    "FlattenAndUnpad": {"indices": ints(0, 2, 3, 4, 5)},
    "GatherElementsGrad": {"shape": ints(2, 4), "indices": np.array([[3, 0, 3], [1, -1, 2]])},
    "GatherGrad": {"shape": ints(5, 4), "indices": np.array([[0, 4, 4], [-1, 2, 0]])},
    "GatherNDGrad": {"shape": ints(5, 4), "indices": np.array([[0], [4], [-1]])},
    "PadAndUnflatten": {"indices": ints(5, 0, 2, 3, 1), "dims": ints(2, 3)},
    "ShrunkenGather": {"indices": ints(4, 0, 4)},
}
OLDEST = {"GatherElementsGrad": 16, "GatherNDGrad": 16, "MaxPoolGrad": 16, "Trilu": 14}
"""The opset from which on an operator has a definition, if that is not 11."""


SINCE = {"LayerNormalization": 17, "SoftmaxCrossEntropyLoss": 12}
"""The first opset with these operators of ONNX, whose further results have no rule before."""


def operands(operator: str, model: Any, batch: int = BATCH) -> dict[str, Array]:
    """Random operands for an example: positive ones where a division or a root is by them, labels below 3."""
    kinds = {TensorProto.FLOAT: F32, TensorProto.DOUBLE: F64}
    feeds = {}
    for number, value in enumerate(model.graph.input):
        shape = [batch if dim.dim_param else dim.dim_value for dim in value.type.tensor_type.shape.dim]
        kind = value.type.tensor_type.elem_type
        if value.name in OPERANDS.get(operator, {}):
            feeds[value.name] = OPERANDS[operator][value.name]
        elif kind == TensorProto.BOOL:
            feeds[value.name] = integers(0, 2, *shape).astype(np.bool_)
        elif kind == TensorProto.INT64:
            feeds[value.name] = np.asarray(integers(0, 3, *shape, seed=5)) if shape else np.array(1)
        elif value.name in ("var", "inv_std", "scale", "weight") or (operator, value.name) == ("DivGrad", "B"):
            feeds[value.name] = positive(*shape, dtype=kinds[kind])
        else:
            feeds[value.name] = normal(*shape, dtype=kinds[kind], seed=number)
    return feeds


def test_every_operator_has_an_expected_result() -> None:
    missing = sorted(set(OPERATORS) - set(EXAMPLES))
    assert not missing, f"add to EXAMPLES how numpy computes the results of the example of {', '.join(missing)}"
    assert list(EXAMPLES) == list(OPERATORS)


@pytest.mark.parametrize("opset", [11, 12, 13, 15, 18, 21])
@pytest.mark.parametrize("operator", EXAMPLES)
def test_examples(operator: str, opset: int) -> None:
    model = example(operator, opset)
    if opset < OLDEST.get(operator, 11):
        report = poolgrad_lowering.lower(model, standard=True).report.standard
        assert report is not None
        assert [node.code for node in report.left] == ["old-opset"]
        return
    feeds = operands(operator, model)
    found = run_ort(standardised(model), feeds)
    if operator != "InPlaceAccumulatorV2" and opset >= SINCE.get(operator, 0):
        assert_derived(model, found, unknown=True)
    expected = oracle.as_given(EXAMPLES[operator](*feeds.values()))
    for result, array in zip(found.values(), expected, strict=True):
        if array.dtype == F64 and result.dtype != F64:
            assert_close(result, array, F32)
        else:
            assert_same_bits(result, array)


WITH_BATCH = [
    name
    for name in EXAMPLES
    if any(dim.dim_param == "N" for value in example(name).graph.input for dim in value.type.tensor_type.shape.dim)
]


@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("operator", WITH_BATCH)
def test_examples_without_or_with_one_element_in_the_batch(operator: str, batch: int) -> None:
    """A mean of no elements is open."""
    model = example(operator)
    feeds = operands(operator, model, batch)
    found = run_ort(standardised(model), feeds)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = oracle.as_given(EXAMPLES[operator](*feeds.values()))
    for result, array in zip(found.values(), expected, strict=True):
        assert result.shape == array.shape
        known = np.isfinite(array.astype(F64))
        assert_close(result[known], array[known], result.dtype, TOLERANCES[np.dtype(F32)])


# -- convolutions

CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "1-D": {"x": (2, 3, 7), "w": (4, 3, 3)},
    "2-D": {"x": (2, 3, 6, 7), "w": (4, 3, 3, 2)},
    "3-D": {"x": (1, 2, 4, 5, 4), "w": (3, 2, 2, 3, 1)},
    "a window of one": {"x": (2, 3, 4, 4), "w": (5, 3, 1, 1), "strides": [2, 2]},
    "many channels": {"x": (2, 16, 6, 6), "w": (3, 16, 3, 3), "strides": [2, 1], "pads": [1, 0, 1, 2]},
    "many channels, 3-D": {"x": (1, 17, 4, 3, 4), "w": (2, 17, 2, 2, 2), "strides": [1, 2, 3], "dilations": [2, 1, 1]},
    "many channels in groups": {"x": (2, 32, 5), "w": (4, 16, 3), "group": 2},
    "just below many": {"x": (2, 15, 5), "w": (2, 15, 3)},
    "groups": {"x": (2, 4, 6, 5), "w": (6, 2, 3, 3), "group": 2, "pads": [1, 1, 1, 1]},
    "depthwise": {"x": (2, 5, 6, 6), "w": (5, 1, 3, 3), "group": 5, "strides": [2, 2], "pads": [1, 1, 0, 0]},
    "depthwise with a multiplier": {"x": (1, 3, 7), "w": (6, 1, 2), "group": 3, "dilations": [3]},
    "dilations": {"x": (2, 2, 9, 8), "w": (3, 2, 3, 2), "dilations": [2, 3], "pads": [2, 0, 1, 1]},
    "rows left over": {"x": (2, 2, 8, 9), "w": (3, 2, 3, 2), "strides": [3, 4]},
    "rows left over in the padding": {"x": (2, 2, 7), "w": (3, 2, 2), "strides": [3], "pads": [1, 2]},
    "gaps": {"x": (2, 2, 11), "w": (3, 2, 2), "strides": [4]},
    "unequal pads": {"x": (2, 2, 5, 6), "w": (3, 2, 3, 3), "pads": [0, 2, 1, 0], "strides": [2, 2]},
    "one window": {"x": (2, 2, 3, 3), "w": (3, 2, 3, 3)},
}


def conv_shapes(x: tuple[int, ...], w: tuple[int, ...], row: Mapping[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """The attributes of a convolution, and its numbers of windows."""
    rank = len(x) - 2
    whole = {"strides": [1] * rank, "dilations": [1] * rank, "pads": [0] * 2 * rank, "group": 1, **row}
    counts = [
        (size + whole["pads"][axis] + whole["pads"][rank + axis] - whole["dilations"][axis] * (w[2 + axis] - 1) - 1)
        // whole["strides"][axis]
        + 1
        for axis, size in enumerate(x[2:])
    ]
    return whole, counts


def conv_case(row: Mapping[str, Any], dtype: Any = F32) -> tuple[dict[str, Array], dict[str, Array], dict[str, Any]]:
    """Operands, results and attributes of a ConvGrad."""
    row = dict(row)
    x, w = row.pop("x"), row.pop("w")
    attributes, counts = conv_shapes(x, w, row)
    feeds = {
        "dY": normal(x[0], w[0], *counts, dtype=dtype),
        "X": normal(*x, dtype=dtype),
        "W": normal(*w, dtype=dtype, seed=1),
    }
    results = oracle.conv_grad(
        *feeds.values(),
        strides=attributes["strides"],
        begins=attributes["pads"][: len(x) - 2],
        dilations=attributes["dilations"],
        group=attributes["group"],
    )
    return feeds, dict(zip(("dX", "dW", "dB"), results, strict=True)), {"kernel_shape": list(w[2:]), **attributes}


@pytest.mark.parametrize("opset", [11, 18])
@pytest.mark.parametrize("row", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_conv_grad(row: dict[str, Any], opset: int) -> None:
    feeds, expected, attributes = conv_case(row)
    check("ConvGrad", feeds, expected, opset=opset, **attributes)


@pytest.mark.parametrize("row", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_conv_grad_with_a_symbolic_batch(row: dict[str, Any]) -> None:
    feeds, expected, attributes = conv_case(row)
    shapes = {"X": ["N", *row["x"][1:]], "dX": ["N", *row["x"][1:]], "dY": ["N", *feeds["dY"].shape[1:]]}
    check("ConvGrad", feeds, expected, shapes=shapes, **attributes)


@pytest.mark.parametrize("row", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_conv_grad_with_symbolic_sizes(row: dict[str, Any]) -> None:
    feeds, expected, attributes = conv_case(row)
    if attributes["group"] > 1:
        del expected["dW"], expected["dB"]
    rank = len(row["x"]) - 2
    shapes = {
        "X": ["N", row["x"][1], *"HWD"[:rank]],
        "dX": ["N", row["x"][1], *"HWD"[:rank]],
        "dY": ["N", row["w"][0], *"hwd"[:rank]],
    }
    check("ConvGrad", feeds, expected, shapes=shapes, **attributes)


@pytest.mark.parametrize("wanted", [["dX"], ["dW"], ["dB"], ["dX", "dB"], ["dW", "dB"]], ids="-".join)
def test_conv_grad_in_part(wanted: list[str]) -> None:
    """Outputs that nothing asks for are the empty name, or not there."""
    feeds, expected, attributes = conv_case(CONVOLUTIONS["2-D"])
    model = one_node("ConvGrad", feeds, {name: expected[name].astype(F32) for name in wanted}, **attributes)
    last = max(["dX", "dW", "dB"].index(name) for name in wanted) + 1
    del model.graph.node[0].output[:]
    model.graph.node[0].output.extend(name if name in wanted else "" for name in ["dX", "dW", "dB"][:last])
    found = run_ort(standardised(model), feeds)
    for name in wanted:
        assert_close(found[name], expected[name], F32)


def test_conv_grad_without_attributes() -> None:
    """The kernel is that of the weight."""
    feeds, expected, _ = conv_case(CONVOLUTIONS["2-D"])
    check("ConvGrad", feeds, expected)


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("strides", [[1, 1], [2, 3]], ids=str)
def test_conv_grad_with_auto_pad(auto_pad: str, strides: list[int]) -> None:
    x, w = normal(2, 2, 7, 8), normal(3, 2, 4, 3, seed=1)
    same = [-(-size // stride) for size, stride in zip((7, 8), strides, strict=True)]
    valid = [(size - kernel) // stride + 1 for size, kernel, stride in zip((7, 8), (4, 3), strides, strict=True)]
    dy = normal(2, 3, *(valid if auto_pad == "VALID" else same))
    begins = oracle.conv_begins((7, 8), (4, 3), strides, auto_pad)
    expected = oracle.conv_grad(dy, x, w, strides=strides, begins=begins, dilations=[1, 1])
    check(
        "ConvGrad",
        {"dY": dy, "X": x, "W": w},
        dict(zip(("dX", "dW", "dB"), expected, strict=True)),
        auto_pad=auto_pad,
        strides=strides,
        kernel_shape=[4, 3],
    )


SPELLINGS: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "few channels": ({"x": (2, 15, 5, 5), "w": (8, 15, 3, 3)}, {"MatMul": 1, "ConvTranspose": 1}),
    "many channels": ({"x": (2, 16, 5, 5), "w": (9, 16, 3, 3)}, {"MatMul": 9, "ConvTranspose": 1}),
    "twice as many as results": ({"x": (2, 16, 5, 5), "w": (8, 16, 3, 3)}, {"MatMul": 9, "Conv": 1}),
    "a large kernel": ({"x": (2, 3, 9, 9), "w": (4, 3, 4, 3)}, {"Conv": 1, "ConvTranspose": 1}),
    "strides": ({"x": (2, 3, 9, 9), "w": (4, 3, 3, 3), "strides": [2, 2]}, {"Conv": 1, "ConvTranspose": 1}),
    "strides of one position": (
        {"x": (2, 3, 9, 9), "w": (4, 3, 1, 1), "strides": [2, 2]},
        {"MatMul": 1, "ConvTranspose": 1},
    ),
    "depthwise": ({"x": (2, 3, 5, 5), "w": (3, 1, 3, 3), "group": 3}, {"Mul": 9, "ConvTranspose": 1}),
    "depthwise with strides": (
        {"x": (2, 3, 8, 6), "w": (3, 1, 3, 3), "group": 3, "strides": [2, 3], "pads": [1, 0, 1, 2]},
        {"Conv": 1, "ConvTranspose": 1},
    ),
    "groups with strides": (
        {"x": (2, 4, 8, 6), "w": (6, 2, 3, 3), "group": 2, "strides": [2, 3]},
        {"Conv": 1, "ConvTranspose": 1},
    ),
    "groups of many channels": (
        {"x": (2, 32, 5, 4), "w": (6, 16, 3, 2), "group": 2},
        {"MatMul": 6, "ConvTranspose": 1},
    ),
    "a large result": ({"x": (1, 1, 260, 5), "w": (2, 1, 4, 3)}, {"MatMul": 1, "ConvTranspose": 1}),
}
"""What the two gradients of a convolution are written with, by its sizes."""


@pytest.mark.parametrize("name", SPELLINGS)
def test_the_ways_to_write_the_gradients_of_a_convolution(name: str) -> None:
    row, written = SPELLINGS[name]
    feeds, expected, attributes = conv_case(row)
    check("ConvGrad", feeds, expected, **attributes)
    model = standardised(one_node("ConvGrad", feeds, {n: a.astype(F32) for n, a in expected.items()}, **attributes))
    operators = Counter(node.op_type for node in model.graph.node)
    assert {kind: operators[kind] for kind in ("MatMul", "Mul", "Conv", "ConvTranspose") if operators[kind]} == written


def test_conv_grad_of_float16() -> None:
    feeds, expected, attributes = conv_case(CONVOLUTIONS["groups"], F16)
    check("ConvGrad", feeds, expected, dtype=F16, **attributes)


TRANSPOSED: dict[str, dict[str, Any]] = {
    "1-D": {"x": (2, 3, 4), "w": (3, 2, 3)},
    "2-D": {"x": (2, 3, 4, 3), "w": (3, 2, 3, 2), "strides": [2, 3], "pads": [1, 0, 0, 1]},
    "3-D": {"x": (1, 2, 3, 2, 3), "w": (2, 3, 2, 3, 1), "strides": [2, 1, 2]},
    "rows that are left over": {"x": (2, 2, 4), "w": (2, 3, 3), "strides": [3], "output_padding": [2]},
    "groups": {"x": (2, 4, 3, 3), "w": (4, 2, 2, 2), "group": 2, "strides": [2, 2]},
    "depthwise": {"x": (2, 4, 5), "w": (4, 1, 3), "group": 4, "dilations": [2]},
    "many channels": {"x": (2, 3, 5, 4), "w": (3, 16, 3, 3), "strides": [2, 1], "pads": [1, 1, 1, 1]},
    "dilations": {"x": (2, 2, 4, 5), "w": (2, 3, 2, 3), "dilations": [3, 2], "pads": [0, 1, 1, 0]},
}


@pytest.mark.parametrize("batch", [None, "N"])
@pytest.mark.parametrize("row", TRANSPOSED.values(), ids=TRANSPOSED)
def test_conv_transpose_grad(row: dict[str, Any], batch: str | None) -> None:
    row = dict(row)
    x, w = row.pop("x"), row.pop("w")
    rank = len(x) - 2
    whole = {"strides": [1] * rank, "dilations": [1] * rank, "pads": [0] * 2 * rank, "group": 1, **row}
    extra = whole.get("output_padding", [0] * rank)
    sizes = [
        (x[2 + axis] - 1) * whole["strides"][axis]
        + whole["dilations"][axis] * (w[2 + axis] - 1)
        + 1
        - whole["pads"][axis]
        - whole["pads"][rank + axis]
        + extra[axis]
        for axis in range(rank)
    ]
    results = w[1] * whole["group"]
    feeds = {"dY": normal(x[0], results, *sizes), "X": normal(*x), "W": normal(*w, seed=1)}
    expected = oracle.conv_transpose_grad(
        *feeds.values(),
        strides=whole["strides"],
        begins=whole["pads"][:rank],
        dilations=whole["dilations"],
        group=whole["group"],
    )
    shapes = {"X": [batch, *x[1:]], "dX": [batch, *x[1:]], "dY": [batch, results, *sizes]} if batch else {}
    check(
        "ConvTransposeGrad",
        feeds,
        dict(zip(("dX", "dW", "dB"), expected, strict=True)),
        shapes=shapes,
        kernel_shape=list(w[2:]),
        **whole,
    )


@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize("strides", [[1, 1], [2, 3]], ids=str)
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_convolutions_of_tensorflow(layout: str, padding: str, strides: list[int], group: int) -> None:
    sizes, kernel = (7, 8), (3, 2)
    if padding == "SAME":
        counts = [-(-size // stride) for size, stride in zip(sizes, strides, strict=True)]
    else:
        counts = [(size - k) // stride + 1 for size, k, stride in zip(sizes, kernel, strides, strict=True)]
    begins = oracle.conv_begins(sizes, kernel, strides, "VALID" if padding == "VALID" else "SAME_UPPER")
    x, w, dy = normal(2, 4, *sizes), normal(8, 4 // group, *kernel, seed=1), normal(2, 8, *counts)
    dx, dw, _ = oracle.conv_grad(dy, x, w, strides=strides, begins=begins, dilations=[1, 1], group=group)
    w, dw = w.transpose(2, 3, 1, 0), dw.transpose(2, 3, 1, 0)
    steps = [1, 1, *strides]
    if layout == "NHWC":
        x, dx, dy = (array.transpose(0, 2, 3, 1) for array in (x, dx, dy))
        steps = [1, *strides, 1]
    options: dict[str, Any] = {"data_format": layout, "padding": padding, "strides": steps, "domain": ""}
    feeds = {"x": x, "sizes": np.array(w.shape, np.int32), "dY": dy}
    check("Conv2DBackpropFilter", feeds, {"dW": dw}, constants=["sizes"], **options)
    feeds = {"sizes": np.array(x.shape, np.int32), "filter": w, "dY": dy}
    check("Conv2DBackpropInput", feeds, {"dX": dx}, constants=["sizes"], **options)


@pytest.mark.parametrize("operator", ["Conv2DBackpropFilter", "Conv2DBackpropInput"])
def test_dilated_convolutions_of_tensorflow(operator: str) -> None:
    """SAME pads by the extent of the dilated kernel: 2 · (3 − 1) on 7 elements."""
    x, w, dy = normal(2, 3, 7, 7), normal(4, 3, 3, 3, seed=1), normal(2, 4, 7, 7)
    dx, dw, _ = oracle.conv_grad(dy, x, w, strides=[1, 1], begins=[2, 2], dilations=[2, 2])
    options: dict[str, Any] = {"data_format": "NCHW", "padding": "SAME", "strides": [1] * 4, "dilations": [1, 1, 2, 2]}
    options |= {"domain": "", "constants": ["sizes"]}
    if operator == "Conv2DBackpropFilter":
        feeds = {"x": x, "sizes": np.array([3, 3, 3, 4], np.int32), "dY": dy}
        check(operator, feeds, {"dW": dw.transpose(2, 3, 1, 0)}, **options)
    else:
        feeds = {"sizes": np.array(x.shape, np.int32), "filter": w.transpose(2, 3, 1, 0), "dY": dy}
        check(operator, feeds, {"dX": dx}, **options)


# -- activations and arithmetic

UNARY: dict[str, Callable[[Array, Array], Array]] = {
    "BiasFastGeluGrad_dX": oracle.fast_gelu_grad,
    "BiasGeluGrad_dX": oracle.gelu_grad,
    "FastGeluGrad": oracle.fast_gelu_grad,
    "GeluGrad": oracle.gelu_grad,
    "LeakyReluGrad": lambda dy, y: np.where(y > 0, dy, 0.01 * dy.astype(F64)),
    "LogSoftmaxGrad_13": lambda dy, y: oracle.log_softmax_grad(dy, y, (-1,)),
    "QuickGeluGrad": lambda dy, x: oracle.quick_gelu_grad(dy, x, 1.702),
    "ReluGrad": lambda dy, y: np.where(y > 0, dy, 0).astype(F64),
    "SigmoidGrad": lambda dy, y: dy.astype(F64) * y * (1 - y.astype(F64)),
    "SoftmaxGrad_13": lambda dy, y: oracle.softmax_grad(dy, y, (-1,)),
    "TanhGrad": lambda dy, y: dy * (1 - y.astype(F64) ** 2),
}
"""The gradients of functions of one operand, with their attributes left out."""
CONSTANTS_OF_FLOAT32 = {"LeakyReluGrad": 1e-7, "QuickGeluGrad": 1e-7}
"""An attribute of float32 has 24 bits, whatever the operands have."""


NO_KERNEL = "onnxruntime's CPU provider has no Erf for doubles"


@pytest.mark.parametrize("dtype", [F16, F32, F64])
@pytest.mark.parametrize("operator", UNARY)
def test_gradients_of_functions_of_one_operand(operator: str, dtype: Any) -> None:
    if dtype == F64 and operator in ("BiasGeluGrad_dX", "GeluGrad"):
        pytest.skip(NO_KERNEL)
    dy, x = normal(3, 2, 5, dtype=dtype), normal(3, 2, 5, dtype=dtype, seed=1)
    feeds = {"dY": dy, "X": x}
    if operator.startswith("Bias"):
        feeds["B"] = np.zeros(5, dtype)
    tolerance = CONSTANTS_OF_FLOAT32.get(operator) if dtype == F64 else None
    check(operator, feeds, {"dX": UNARY[operator](dy, x)}, dtype=dtype, tolerance=tolerance)


FORWARD: dict[str, Callable[[Array], Array]] = {
    "BiasGelu": oracle.gelu,
    "FastGelu": oracle.fast_gelu,
    "Gelu": oracle.gelu,
    "QuickGelu": lambda x: oracle.quick_gelu(x, 1.702),
}


@pytest.mark.parametrize("dtype", [F16, F32, F64])
@pytest.mark.parametrize("operator", FORWARD)
def test_functions_of_one_operand(operator: str, dtype: Any) -> None:
    if dtype == F64 and operator in ("BiasGelu", "Gelu"):
        pytest.skip(NO_KERNEL)
    x = normal(3, 2, 5, dtype=dtype)
    feeds = {"X": x, "B": np.zeros(5, dtype)} if operator == "BiasGelu" else {"X": x}
    tolerance = 1e-7 if operator == "QuickGelu" and dtype == F64 else None
    check(operator, feeds, {"Y": FORWARD[operator](x.astype(F64))}, dtype=dtype, tolerance=tolerance)


def test_fast_gelu_with_a_bias() -> None:
    x, b = normal(3, 4), normal(4)
    check("FastGelu", {"X": x, "B": b}, {"Y": oracle.fast_gelu(x + b)})


@pytest.mark.parametrize("y", [0.0, -0.0, np.nan, np.inf])
def test_masks_at_the_edges(y: float) -> None:
    """Zero and NaN are not above zero."""
    dy = np.array([1, -2, np.inf], F32)
    expected = np.where(y > 0, dy, F32(0))
    for domain in ("", "com.microsoft"):
        check("ReluGrad", {"dY": dy, "Y": np.full(3, y, F32)}, {"dX": expected}, domain=domain)


@pytest.mark.parametrize("operator", ["SoftmaxGrad", "LogSoftmaxGrad", "SoftmaxGrad_13", "LogSoftmaxGrad_13"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3, None])
def test_gradients_of_softmax(operator: str, axis: int | None) -> None:
    """Before opset 13 a softmax was over all axes from one on, and by default from the second."""
    dy, y = normal(2, 3, 4), np.log(positive(2, 3, 4))
    whole = axis if axis is not None else -1 if operator.endswith("_13") else 1
    axes = (whole,) if operator.endswith("_13") else tuple(range(whole % 3, 3))
    function = oracle.log_softmax_grad if operator.startswith("Log") else oracle.softmax_grad
    check(operator, {"dY": dy, "Y": y}, {"dX": function(dy, y, axes)}, **({} if axis is None else {"axis": axis}))


def test_gradient_of_softmax_in_float16_sums_in_float32() -> None:
    """4096 terms of 1: in float16 the sum would stop at 2048."""
    dy, y = np.ones((1, 4096), F16), np.full((1, 4096), 2**-12, F16)
    check(
        "SoftmaxGrad_13", {"dY": dy, "Y": y}, {"dX": np.zeros((1, 4096))}, dtype=F16, run=run_reference, tolerance=1e-6
    )


DIVISIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "equal": ((3, 4), (3, 4)),
    "B lacks an axis": ((2, 3, 4), (3, 4)),
    "A lacks axes": ((4,), (2, 3, 4)),
    "B is a scalar": ((2, 3), ()),
    "A is a scalar": ((), (2, 3)),
    "ones in B": ((2, 3, 4), (2, 1, 4)),
    "ones in A": ((1, 3, 1), (2, 3, 4)),
    "both ways": ((2, 1, 4), (3, 1)),
    "all ones": ((1, 1), (1, 1)),
}


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("shapes", DIVISIONS.values(), ids=DIVISIONS)
def test_div_grad(shapes: tuple[tuple[int, ...], tuple[int, ...]], dtype: Any) -> None:
    a, b = normal(*shapes[0], dtype=dtype), positive(*shapes[1], dtype=dtype)
    dy = normal(*np.broadcast_shapes(*shapes), dtype=dtype, seed=2)
    da, db = oracle.div_grad(dy, a, b)
    check("DivGrad", {"dY": dy, "A": a, "B": b}, {"dA": da, "dB": db}, dtype=dtype)


def test_div_grad_with_a_symbolic_batch() -> None:
    a, b, dy = normal(2, 4), positive(4), normal(2, 4, seed=2)
    da, db = oracle.div_grad(dy, a, b)
    shapes = {name: ["N", 4] for name in ("dY", "A", "dA")}
    check("DivGrad", {"dY": dy, "A": a, "B": b}, {"dA": da, "dB": db}, shapes=shapes)


@pytest.mark.parametrize("dtype", [F16, F32])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("training", [None, True, False])
@pytest.mark.parametrize("ratio", [None, 0.0, 0.3])
def test_dropout_grad(ratio: float | None, training: bool | None, constant: bool, dtype: Any) -> None:
    """Without a ratio it is 0.5; outside of training nothing is dropped."""
    mask = np.ones((3, 4), np.bool_) if training is False else integers(0, 2, 3, 4).astype(np.bool_)
    feeds = {
        "dY": normal(3, 4, dtype=dtype),
        "mask": mask,
        "ratio": None if ratio is None else np.array(ratio, F32),
        "training_mode": None if training is None else np.array(training),
    }
    dropped = 0.0 if training is False else 0.5 if ratio is None else ratio
    expected = np.where(mask, feeds["dY"].astype(F64) / (1 - dropped), 0)  # type: ignore[union-attr]
    constants = ["ratio", "training_mode"] if constant else []
    check("DropoutGrad", feeds, {"dX": expected}, dtype=dtype, constants=constants)


@pytest.mark.parametrize("down", [0, 1])
@pytest.mark.parametrize("scale", [np.array(3, np.int64), np.array(3, F32), np.array(3, F16)], ids=lambda s: s.dtype)
@pytest.mark.parametrize("dtype", [F16, F32, F64])
def test_scale(dtype: Any, scale: Array, down: int) -> None:
    x = normal(3, 4, dtype=dtype)
    expected = x.astype(F64) / 3 if down else x.astype(F64) * 3
    check("Scale", {"X": x, "scale": scale}, {"Y": expected}, dtype=dtype, scale_down=down)


@pytest.mark.parametrize("count", [2, 3])
def test_scaled_sum(count: int) -> None:
    feeds = {name: normal(3, 4, seed=number) for number, name in enumerate("ABC"[:count])}
    scales = {f"scale_{number}": 0.25 * (number + 1) for number in range(count)}
    expected = sum(scale * array.astype(F64) for scale, array in zip(scales.values(), feeds.values(), strict=True))
    check("ScaledSum", feeds, {"Y": np.asarray(expected)}, **scales)


MATRICES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any], str]] = {
    "plain": ((3, 4), (4, 5), {}, "ik,kj->ij"),
    "transA": ((4, 3), (4, 5), {"transA": 1}, "ki,kj->ij"),
    "transB": ((3, 4), (5, 4), {"transB": 1}, "ik,jk->ij"),
    "both": ((2, 4, 3), (2, 5, 4), {"transA": 1, "transB": 1, "alpha": 0.5}, "bki,bjk->bij"),
    "transBatchA": ((3, 2, 4), (2, 4, 5), {"transBatchA": 1}, "ibk,bkj->bij"),
    "transBatchB": ((2, 3, 4), (4, 2, 5), {"transBatchB": 1}, "bik,kbj->bij"),
    "transBatchA and transA": ((4, 2, 3), (2, 4, 5), {"transBatchA": 1, "transA": 1}, "kbi,bkj->bij"),
    "all": (
        (4, 2, 3),
        (5, 2, 4),
        {"transBatchA": 1, "transA": 1, "transBatchB": 1, "transB": 1},
        "kbi,jbk->bij",
    ),
    "broadcast": ((2, 1, 3, 4), (1, 6, 5, 4), {"transB": 1}, "aoik,pcjk->acij"),
    "a vector": ((4,), (4, 5), {"transA": 1}, "k,kj->j"),
}


@pytest.mark.parametrize("row", MATRICES.values(), ids=MATRICES)
def test_fused_mat_mul(row: tuple[tuple[int, ...], tuple[int, ...], dict[str, Any], str]) -> None:
    a, b = normal(*row[0]), normal(*row[1], seed=1)
    expected = np.einsum(row[3], a, b, dtype=F64)
    check("FusedMatMul", {"A": a, "B": b}, {"Y": expected * row[2].get("alpha", 1)}, **row[2])


ACTIVATIONS: dict[str, tuple[dict[str, Any], Callable[[Array], Array]]] = {
    "Relu": ({}, lambda x: np.maximum(x, 0)),
    "Sigmoid": ({}, lambda x: 1 / (1 + np.exp(-x))),
    "Tanh": ({}, np.tanh),
    "LeakyRelu": ({"alpha": 0.2}, lambda x: np.where(x < 0, 0.2 * x, x)),
    "HardSigmoid": ({"alpha": 0.3, "beta": 0.4}, lambda x: np.clip(0.3 * x + 0.4, 0, 1)),
    "Clip": ({"min": -0.5, "max": 0.75}, lambda x: np.clip(x, -0.5, 0.75)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_fused_conv(name: str) -> None:
    parameters, function = ACTIVATIONS[name]
    x, w, b = normal(2, 4, 6, 5), normal(6, 2, 3, 2, seed=1), normal(6, seed=2)
    linear = oracle.conv(x, w, strides=[2, 1], begins=[1, 0], counts=[3, 4], group=2) + b.reshape(1, 6, 1, 1)
    given = {"activation_params": list(parameters.values())} if parameters else {}
    for added in (None, normal(*linear.shape, seed=3)):
        check(
            "FusedConv",
            {"X": x, "W": w, "B": b, "Z": added},
            {"Y": function(linear if added is None else linear + added)},
            activation=name,
            group=2,
            strides=[2, 1],
            pads=[1, 0, 1, 0],
            **given,
        )


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", [name for name in ACTIVATIONS if name != "Clip"])
def test_fused_gemm(name: str, bias: bool) -> None:
    parameters, function = ACTIVATIONS[name]
    a, b, c = normal(3, 2), normal(4, 3, seed=1), normal(4, seed=2)
    linear = 0.5 * a.astype(F64).T @ b.T + (2 * c if bias else 0)
    check(
        "FusedGemm",
        {"A": a, "B": b, "C": c if bias else None},
        {"Y": function(linear)},
        activation=name,
        alpha=0.5,
        beta=2.0,
        transA=1,
        transB=1,
        **{f"activation_{parameter}": value for parameter, value in parameters.items()},
    )


@pytest.mark.parametrize("dtype", [F16, F32])
@pytest.mark.parametrize("count", [1, 3])
def test_reduce_all_l2(count: int, dtype: Any) -> None:
    feeds = {name: normal(2, 3 + number, dtype=dtype) for number, name in enumerate("ABC"[:count])}
    check("ReduceAllL2", feeds, {"Y": oracle.reduce_all_l2(*feeds.values())})


def test_accumulator_without_a_flag() -> None:
    buffer, value = normal(4), normal(4, seed=1)
    check("InPlaceAccumulatorV2", {"buffer": buffer, "value": value}, {"new": buffer + value})


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_accumulator(shape: tuple[int, ...], flag: bool) -> None:
    """A parameter may be a scalar, the flag is a vector of one element; the gradient may be of fewer bits."""
    buffer, value = normal(*shape), normal(*shape, dtype=F16, seed=1)
    expected = value.astype(F32) if flag else buffer + value.astype(F32)
    check("InPlaceAccumulatorV2", {"buffer": buffer, "value": value, "reset": np.array([flag])}, {"new": expected})


# -- losses


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 2), (2, 3, 2, 2)], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignored", [None, 1, -100])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none", None])
def test_losses(reduction: str | None, ignored: int | None, weighted: bool, shape: tuple[int, ...]) -> None:
    """The loss and its gradient, with the label that is left out as an attribute and as an operand."""
    of_attribute: dict[str, Any] = {} if reduction is None else {"reduction": reduction}
    reduction = reduction or "mean"
    x, weight = normal(*shape), positive(3) if weighted else None
    label = integers(0, 3, shape[0], *shape[2:], seed=5)
    if ignored is not None and ignored < 0:
        label.reshape(-1)[1:3] = ignored
    expected, log_prob = oracle.loss(x, label, weight, ignored, reduction)
    given = None if ignored is None else np.array(ignored)
    feeds = {"X": x, "label": label, "weight": weight, "ignore_index": given}
    check("SoftmaxCrossEntropyLossInternal", feeds, {"Y": expected, "log_prob": log_prob}, **of_attribute)
    dy = normal(*expected.shape, seed=7)
    gradient = oracle.loss_grad(dy, log_prob, label, weight, ignored, reduction)
    feeds = {"dY": dy, "log_prob": log_prob.astype(F32), "label": label, "weight": weight}
    number = {} if ignored is None else {"ignore_index": ignored}
    check("SoftmaxCrossEntropyLossGrad", feeds, {"dX": gradient}, **number, **of_attribute)
    feeds["ignore_index"] = given
    check("SoftmaxCrossEntropyLossInternalGrad", feeds, {"dX": gradient}, **of_attribute)


SCORES = {
    "no label counts": (normal(4, 3), [-1, -1, -1, -1], None),
    "weights of zeros": (normal(4, 3), [0, -1, 2, 1], [0.0, 0.0, 0.0]),
    "a class without weight": (normal(4, 3), [1, -1, 1, 1], [np.nan, 1.0, 2.0]),
    "-inf for another class": (np.array([[1, -np.inf, 2], [0, 1, -np.inf]], F32), [0, 1], None),
    "-inf for the class": (np.array([[1, -np.inf, 2], [0, 1, -np.inf]], F32), [1, 0], None),
    "NaN beside a label that does not count": (np.array([[1, np.nan, 2], [0, 1, 3]], F32), [-1, 1], None),
}


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("row", SCORES.values(), ids=SCORES)
def test_losses_at_the_edges(row: tuple[Array, list[int], list[float] | None], reduction: str, named: bool) -> None:
    """Label -1 does not count, whether a node says so or nothing."""
    x, label, weight = row[0], np.array(row[1]), None if row[2] is None else np.array(row[2], F32)
    with np.errstate(all="ignore"):
        expected, log_prob = oracle.loss(x, label, weight, -1, reduction)
        dy = normal(*expected.shape, seed=7)
        gradient = oracle.loss_grad(dy, log_prob, label, weight, -1, reduction)
    options: dict[str, Any] = {"reduction": reduction, **({"ignore_index": -1} if named else {})}
    feeds = {"X": x, "label": label, "weight": weight}
    outputs = {"Y": expected.astype(F32), "log_prob": x}
    model = one_node("SoftmaxCrossEntropyLoss", feeds, outputs, domain="", **options)
    found = run_ort(standardised(model), {name: array for name, array in feeds.items() if array is not None})
    np.testing.assert_allclose(found["Y"], expected, rtol=2e-5)  # sums in another order than float64
    np.testing.assert_allclose(found["log_prob"], log_prob, rtol=2e-5)
    feeds = {"dY": dy, "log_prob": log_prob.astype(F32), "label": label, "weight": weight}
    model = one_node("SoftmaxCrossEntropyLossGrad", feeds, {"dX": x}, **options)
    found = run_ort(standardised(model), {name: array for name, array in feeds.items() if array is not None})
    np.testing.assert_allclose(found["dX"], gradient, rtol=2e-5, atol=1e-7)  # differences of numbers near 1


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("operator", ["DropoutGrad", "FakeQuantGrad"])
def test_what_a_mask_drops_is_a_product_with_zero(operator: str, value: float) -> None:
    """As in onnxruntime's kernels: a gradient that is not finite stays visible."""
    feeds = {"dY": np.array([value, 1, 2], F32), "mask": np.array([False, True, False])}
    check(operator, feeds, {"dX": np.array([np.nan, 2 if operator == "DropoutGrad" else 1, 0], F32)})


@pytest.mark.parametrize("scale", [np.array(2, F32), np.array([2], F32), np.array([2])], ids=["scalar", "one", "long"])
@pytest.mark.parametrize("shape", [(), (3,), (0, 2)], ids=str)
def test_scale_by_one_element(shape: tuple[int, ...], scale: Array) -> None:
    """A scalar stays one."""
    x = normal(*shape)
    check("Scale", {"X": x, "scale": scale}, {"Y": 2 * x})


EMPTY_GATHERS = {
    "an empty row": ((5, 0), 0, (2, 3)),
    "an empty row, a vector of indices": ((5, 0), 0, (3,)),
    "no index": ((5, 4), 0, (2, 0)),
    "no batch": ((0, 5, 4), 1, (2, 3)),
    "no batch, one index": ((0, 5, 4), 1, ()),
    "no batch and no row": ((0, 5, 0), 1, (2, 2)),
    "a second axis of no element": ((2, 0, 5, 2), 2, (2, 1)),
    "no place": ((3, 0, 2), 1, (0, 2)),
}


@pytest.mark.parametrize("opset", [11, 14, 15, 16, 18])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("row", EMPTY_GATHERS.values(), ids=EMPTY_GATHERS)
def test_gather_grad_of_no_element(row: tuple[tuple[int, ...], int, tuple[int, ...]], known: bool, opset: int) -> None:
    """Below opset 14 a Reshape takes no size of 0, unless the sizes are known."""
    shape, axis, places = row
    if opset < 14 and not known:
        return
    dy = normal(*shape[:axis], *places, *shape[axis + 1 :])
    feeds = {"shape": ints(*shape), "indices": np.zeros(places, np.int64), "dY": dy}
    options = {"axis": axis, "opset": opset, "constants": ["shape"] if known else []}
    check("GatherGrad", feeds, {"dX": np.zeros(shape, F32)}, **options)


@pytest.mark.parametrize("operator", ["SoftmaxCrossEntropyLossGrad", "SoftmaxCrossEntropyLossInternalGrad"])
def test_gradient_of_a_loss_with_a_bias(operator: str) -> None:
    log_prob, label, dy, bias = oracle.log_softmax(normal(4, 3)), integers(0, 3, 4), normal(), normal(4, 3, seed=2)
    feeds = {"dY": dy, "log_prob": log_prob.astype(F32), "label": label, "weight": None, "bias": bias}
    if operator.endswith("InternalGrad"):
        feeds = {**{name: feeds[name] for name in list(feeds)[:4]}, "ignore_index": None, "bias": bias}
    check(operator, feeds, {"dX": oracle.loss_grad(dy, log_prob, label) + bias})


def test_labels_of_int32() -> None:
    x, label = normal(4, 3), np.array([0, 2, 1, 1], np.int32)
    expected, log_prob = oracle.loss(x, label, None, 1)
    feeds = {"X": x, "label": label, "weight": None, "ignore_index": np.array(1)}
    check("SoftmaxCrossEntropyLossInternal", feeds, {"Y": expected, "log_prob": log_prob})
    dy = normal()
    feeds = {"dY": dy, "log_prob": log_prob.astype(F32), "label": label}
    check("SoftmaxCrossEntropyLossGrad", feeds, {"dX": oracle.loss_grad(dy, log_prob, label, None, 1)}, ignore_index=1)


def test_losses_in_float16_count_in_float32() -> None:
    """In float16 a count of labels would end at 65504, and a sum of ones at 2048."""
    shape = (1, 2, 70000)
    x, label = np.zeros(shape, F16), np.zeros((1, 70000), np.int64)
    label[:, ::2] = 1
    log_prob = np.full(shape, math.log(0.5), F16)
    # −log ½ is rounded to float16 once.
    check(
        "SoftmaxCrossEntropyLossInternal",
        {"X": x, "label": label},
        {"Y": np.array(math.log(2)), "log_prob": log_prob.astype(F64)},
        dtype=F16,
        run=run_reference,
        tolerance=2**-11,
    )
    dy = np.array(2.0**14, F16)
    difference = np.where(label[:, None] == np.array([0, 1]).reshape(1, 2, 1), -0.5, 0.5)
    feeds = {"dY": dy, "log_prob": log_prob, "label": label}
    expected = {"dX": difference * 2.0**14 / 70000}
    check("SoftmaxCrossEntropyLossGrad", feeds, expected, dtype=F16, run=run_reference, tolerance=2**-11)


@pytest.mark.parametrize("types", [(F16, F32), (F32, F16)], ids=lambda pair: pair[0].__name__)
def test_losses_with_another_type_of_results(types: tuple[Any, Any]) -> None:
    x, label, dy = normal(4, 3, dtype=types[0]), integers(0, 3, 4), normal(dtype=types[0])
    kind = {F16: TensorProto.FLOAT16, F32: TensorProto.FLOAT}[types[1]]
    expected, log_prob = oracle.loss(x, label)
    check(
        "SoftmaxCrossEntropyLossInternal",
        {"X": x, "label": label},
        {"Y": expected, "log_prob": log_prob},
        dtype=types[1],
        tolerance=6e-3,  # half of the model is float16
        output_type=kind,
    )
    check(
        "SoftmaxCrossEntropyLossInternalGrad",
        {"dY": dy, "log_prob": log_prob.astype(types[0]), "label": label},
        {"dX": oracle.loss_grad(dy, log_prob, label)},
        dtype=types[1],
        tolerance=6e-3,
        output_type=kind,
    )


# -- normalizations


def statistics(channels: int, dtype: Any) -> dict[str, Array]:
    return {
        "scale": positive(channels, dtype=dtype),
        "B": normal(channels, dtype=dtype, seed=2),
        "mean": normal(channels, dtype=dtype, seed=3),
        "var": positive(channels, dtype=dtype, seed=4),
    }


@pytest.mark.parametrize("dtype", [F16, F32, F64])
@pytest.mark.parametrize("shape", [(5, 3), (4, 3, 2), (2, 3, 4, 2), (2, 3, 2, 2, 3)], ids=str)
def test_batch_norm(shape: tuple[int, ...], dtype: Any) -> None:
    feeds = {"X": normal(*shape, dtype=dtype), **statistics(3, dtype)}
    options = {"epsilon": 0.01, "momentum": 0.7}
    results = oracle.batch_norm(*feeds.values(), **options)
    names = ("Y", "running_mean", "running_var", "saved_mean", "saved_inv_std")
    expected = dict(zip(names, results, strict=True))
    # Attributes are of float32, also where the operands are of float64.
    tolerance = 1e-6 if dtype == F64 else None
    check("BatchNormInternal", feeds, expected, dtype=dtype, tolerance=tolerance, training_mode=1, **options)


@pytest.mark.parametrize("dtype", [F16, F32, F64])
@pytest.mark.parametrize("shape", [(5, 3), (4, 3, 2), (2, 3, 4, 2), (2, 3, 2, 2, 3)], ids=str)
def test_batch_norm_grad(shape: tuple[int, ...], dtype: Any) -> None:
    x, dy = normal(*shape, dtype=dtype), normal(*shape, dtype=dtype, seed=1)
    around = tuple(axis for axis in range(len(shape)) if axis != 1)
    feeds = {
        "dY": dy,
        "X": x,
        "scale": positive(3, dtype=dtype),
        "mean": x.astype(F64).mean(around).astype(dtype),
        "inv_std": (1 / x.astype(F64).std(around)).astype(dtype),
    }
    expected = dict(zip(("dX", "dscale", "dB"), oracle.batch_norm_grad(*feeds.values()), strict=True))
    check("BatchNormalizationGrad", feeds, expected, dtype=dtype, epsilon=1e-5)


def check_mixed(operator: str, feeds: dict[str, Array], expected: dict[str, tuple[Array, Any]], **options: Any) -> None:
    """As `check`, with a type for each result."""
    outputs = {name: array.astype(dtype) for name, (array, dtype) in expected.items()}
    found = run_ort(standardised(one_node(operator, feeds, outputs, **options)), feeds)
    for name, (array, dtype) in expected.items():
        assert_close(found[name], array, dtype, 6e-3)  # as results of float16, which a part of the operands is


def test_normalizations_with_two_types() -> None:
    """Under mixed precision X is of float16, and the parameters and the statistics are of float32."""
    x, dy = normal(4, 3, 5, dtype=F16), normal(4, 3, 5, dtype=F16, seed=1)
    feeds = {"X": x, **statistics(3, F32)}
    results = oracle.batch_norm(*feeds.values(), epsilon=1e-5, momentum=0.9)
    names = ("Y", "running_mean", "running_var", "saved_mean", "saved_inv_std")
    types = (F16, F32, F32, F32, F32)
    expected = dict(zip(names, zip(results, types, strict=True), strict=True))
    check_mixed("BatchNormInternal", feeds, expected, epsilon=1e-5, momentum=0.9, training_mode=1)
    feeds = {"dY": dy, "X": x, "scale": positive(3), "mean": normal(3), "inv_std": positive(3)}
    grads = zip(oracle.batch_norm_grad(*feeds.values()), (F16, F32, F32), strict=True)
    expected = dict(zip(("dX", "dscale", "dB"), grads, strict=True))
    check_mixed("BatchNormalizationGrad", feeds, expected, epsilon=1e-5)


LAYERS = [((4, 5), -1), ((4, 5), 0), ((2, 3, 4), 1), ((2, 3, 4), -1), ((2, 3, 2, 3), 2), ((2, 3, 2, 3), -3)]


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("dtype", [F16, F32, F64])
@pytest.mark.parametrize(("shape", "axis"), LAYERS, ids=str)
def test_layer_norm(shape: tuple[int, ...], axis: int, dtype: Any, biased: bool) -> None:
    """The statistics are of float32 whatever the operands are."""
    x, scale = normal(*shape, dtype=dtype), positive(*shape[axis % len(shape) :], dtype=dtype)
    b = normal(*scale.shape, dtype=dtype, seed=2) if biased else None
    y, mean, inv_std = oracle.layer_norm(x, scale, b, axis=axis % len(shape), epsilon=0.01)
    feeds = {"X": x, "scale": scale} | ({} if b is None else {"B": b})
    expected = {"Y": (y, dtype), "mean": (mean, F32), "inv_std": (inv_std, F32)}
    check_mixed("LayerNormalization", feeds, expected, axis=axis, epsilon=0.01, domain="")
    y, _, inv_std = oracle.layer_norm(x, scale, None, axis=axis % len(shape), epsilon=0.01, centred=False)
    expected = {"Y": (y, dtype), "inv_std": (inv_std, F32)}
    check_mixed("SimplifiedLayerNormalization", {"X": x, "scale": scale}, expected, axis=axis, epsilon=0.01, domain="")


@pytest.mark.parametrize("dtype", [F16, F32, F64])
@pytest.mark.parametrize(("shape", "axis"), LAYERS, ids=str)
def test_layer_norm_grad(shape: tuple[int, ...], axis: int, dtype: Any) -> None:
    at = axis % len(shape)
    x, dy, scale = (
        normal(*shape, dtype=dtype),
        normal(*shape, dtype=dtype, seed=1),
        positive(*shape[at:], dtype=dtype),
    )
    b = normal(*scale.shape, dtype=dtype, seed=2)
    lead = (*shape[:at], *[1] * (len(shape) - at))
    mean, inv_std = normal(*lead, seed=3) * F32(0.1), positive(*lead)
    names = ("dX", "dscale", "dB")
    expected = dict(zip(names, oracle.layer_norm_grad(dy, x, scale, mean, inv_std, axis=at), strict=True))
    feeds = {"dY": dy, "X": x, "scale": scale, "mean": mean, "inv_std": inv_std}
    check("LayerNormalizationGrad", feeds, expected, dtype=dtype, axis=axis)
    expected = dict(zip(names[:2], oracle.layer_norm_grad(dy, x, scale, None, inv_std, axis=at)[:2], strict=True))
    del feeds["mean"]
    check("SimplifiedLayerNormalizationGrad", feeds, expected, dtype=dtype, axis=axis)
    normal_x = (x.astype(F64) - b) / scale / inv_std
    results = oracle.layer_norm_grad(dy, normal_x, scale, np.zeros(lead), inv_std, axis=at)
    feeds = {"dY": dy, "Y": x, "scale": scale, "B": b, "inv_std": inv_std}
    check("InvertibleLayerNormalizationGrad", feeds, dict(zip(names, results, strict=True)), dtype=dtype, axis=axis)


def test_normalization_in_float16_sums_in_float32() -> None:
    """The mean of 4096 times 100, and the squares of 300, are beyond float16."""
    x = np.where(np.arange(4096) % 2, 300, -100).astype(F16).reshape(1, -1)
    scale = np.ones(4096, F16)
    y, _, _ = oracle.layer_norm(x, scale, None, axis=1, epsilon=1e-5)
    feeds = {"X": x, "scale": scale}
    check("LayerNormalization", feeds, {"Y": y}, dtype=F16, run=run_reference, tolerance=2**-10, axis=-1, domain="")


# -- what moves elements


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 4), (4,)),
        ((4,), (3, 4)),
        ((3, 1), (1, 4)),
        ((1,), (2, 1, 3)),
        ((2, 3), (2, 3)),
        ((1, 1), (1, 1)),
        ((), (2,)),
    ],
)
def test_broadcast_axes(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """Summing over the axes brings a gradient of the common shape back to each operand."""
    expected = oracle.broadcast_axes(a, b)
    feeds = {"a": np.array(a, np.int64), "b": np.array(b, np.int64)}
    check("BroadcastGradientArgs", feeds, dict(zip(("axes_a", "axes_b"), expected, strict=True)))
    common = np.ones(np.broadcast_shapes(a, b))
    for shape, axes in zip((a, b), expected, strict=True):
        assert common.sum(tuple(axes)).size == int(np.prod(shape))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat_and_split(axis: int, known: bool) -> None:
    parts = {name: normal(*[3 if a == axis % 2 else 4 for a in range(2)], seed=a) for a, name in enumerate("AB")}
    parts["C"] = normal(*[1 if a == axis % 2 else 4 for a in range(2)], seed=5)
    whole = np.concatenate([*parts.values()], axis)
    shapes = {} if known else {**{name: ["N", "M"] for name in parts}, "Y": ["P", "Q"]}
    expected = {"Y": whole, "lengths": ints(3, 3, 1)}
    check("ConcatTraining", parts, expected, shapes=shapes, axis=axis)
    check("ConcatTraining", parts, {"Y": whole}, shapes=shapes, axis=axis)
    feeds = {"X": whole, "split": ints(3, 3, 1)}
    check("SplitTraining", feeds, parts, constants=["split"] if known else [], axis=axis)


@pytest.mark.parametrize("opset", [11, 13, 18])
def test_equal_split(opset: int) -> None:
    x = normal(2, 6)
    check("SplitTraining", {"X": x}, {"A": x[:, :3], "B": x[:, 3:]}, axis=1, opset=opset)


GATHERS: dict[str, tuple[tuple[int, ...], Array, int]] = {
    "rows": ((5, 4), ints(0, 4, 2), 0),
    "duplicates": ((5, 4), ints(1, 1, 1, 3), 0),
    "negative": ((5, 4), ints(-1, 4, -5), 0),
    "last axis": ((2, 3, 5), ints(4, 0, 4), -1),
    "two axes of indices": ((4, 3), np.array([[0, 3], [3, -1]]), 0),
    "three axes of indices": ((2, 4, 3), integers(-4, 4, 2, 2, 2), 1),
    "a scalar": ((4, 3), np.array(2), 0),
    "a scalar on the last axis": ((4, 3), np.array(-1), 1),
    "a vector": ((6,), np.array([[0, 5], [5, 5]]), 0),
    "none": ((4, 3), np.zeros(0, np.int64), 0),
}


@pytest.mark.parametrize(("dtype", "opset"), [(F16, 15), (F16, 18), (F32, 11), (F32, 15), (F32, 18), (F64, 18)])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("shape", "indices", "axis"), GATHERS.values(), ids=GATHERS)
def test_gather_grad(  # noqa: PLR0917 - what is varied
    shape: tuple[int, ...], indices: Array, axis: int, known: bool, dtype: Any, opset: int
) -> None:
    at = axis % len(shape)
    dy = normal(*shape[:at], *indices.shape, *shape[at + 1 :], dtype=dtype)
    feeds = {"shape": ints(*shape), "indices": indices, "dY": dy}
    expected = {"dX": oracle.gather_grad(shape, indices, dy, at)}
    check("GatherGrad", feeds, expected, dtype=dtype, constants=["shape"] if known else [], axis=axis, opset=opset)


def test_gather_grad_of_int32_indices() -> None:
    dy = normal(3, 4)
    feeds = {"shape": ints(5, 4), "indices": np.array([4, 0, 4], np.int32), "dY": dy}
    check("GatherGrad", feeds, {"dX": oracle.gather_grad((5, 4), feeds["indices"], dy, 0)}, axis=0)


def test_gather_grad_in_float16_adds_in_float32() -> None:
    """4096 times 1 at one index: in float16 the sum would stop at 2048."""
    feeds = {"shape": ints(2), "indices": np.zeros(4096, np.int64), "dY": np.ones(4096, F16)}
    check("GatherGrad", feeds, {"dX": np.array([4096, 0], F16)}, run=run_reference, axis=0)


@pytest.mark.parametrize("dtype", [F16, F32, F64])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_elements_grad(axis: int, dtype: Any) -> None:
    shape = (4, 5, 3)
    taken = tuple(7 if number == axis % 3 else size - 1 for number, size in enumerate(shape))
    dy, indices = normal(*taken, dtype=dtype), integers(-3, 3, *taken)
    feeds = {"dY": dy, "shape": ints(*shape), "indices": indices}
    expected = oracle.gather_elements_grad(dy, shape, indices, axis)
    check("GatherElementsGrad", feeds, {"dX": expected}, dtype=dtype, axis=axis)


@pytest.mark.parametrize("dtype", [F16, F32, F64])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_gather_nd_grad(depth: int, dtype: Any) -> None:
    shape = (3, 4, 2)
    indices = integers(-2, 2, 5, 2, depth)
    dy = normal(5, 2, *shape[depth:], dtype=dtype)
    feeds = {"shape": ints(*shape), "indices": indices, "dY": dy}
    check("GatherNDGrad", feeds, {"dX": oracle.gather_nd_grad(shape, indices, dy)}, dtype=dtype)


LOWEST = -(2**63)
SLICES: dict[str, tuple[tuple[int, ...], dict[int, slice]]] = {
    "middle": ((6, 3), {0: slice(1, 4)}),
    "whole": ((6, 3), {0: slice(0, 6)}),
    "to the end": ((6, 3), {0: slice(2, 2**31)}),
    "from the end": ((6, 3), {0: slice(-4, -1)}),
    "before the start": ((6, 3), {0: slice(-100, 2)}),
    "nothing": ((6, 3), {0: slice(4, 4)}),
    "behind the end": ((6, 3), {0: slice(9, 12)}),
    "step": ((3, 7), {1: slice(1, 7, 2)}),
    "large step": ((3, 7), {1: slice(2, 7, 10)}),
    "backwards": ((3, 7), {1: slice(5, 1, -1)}),
    "all backwards": ((3, 7), {1: slice(-1, LOWEST, -1)}),
    "backwards in steps": ((3, 7), {1: slice(6, -8, -3)}),
    "two axes": ((5, 3, 6), {0: slice(1, 3), 2: slice(-5, -1)}),
    "two axes in steps": ((5, 4, 6), {0: slice(4, 0, -2), 2: slice(0, 6, 3), 1: slice(1, 3)}),
    "negative axes": ((5, 4, 6), {-1: slice(1, 3), -3: slice(0, 5, 2)}),
}


@pytest.mark.parametrize("dtype", [F16, F32])
@pytest.mark.parametrize("opset", [11, 18])
@pytest.mark.parametrize(("shape", "cuts"), SLICES.values(), ids=SLICES)
def test_slice_grad(shape: tuple[int, ...], cuts: dict[int, slice], opset: int, dtype: Any) -> None:
    cut = {axis % len(shape): bounds for axis, bounds in cuts.items()}
    read = tuple(cut.get(axis, slice(None)) for axis in range(len(shape)))
    dy = normal(*np.zeros(shape)[read].shape, dtype=dtype)
    feeds: dict[str, Array | None] = {
        "dY": dy,
        "shape": ints(*shape),
        "starts": ints(*(bounds.start for bounds in cuts.values())),
        "ends": ints(*(bounds.stop for bounds in cuts.values())),
        "axes": ints(*cuts),
        "steps": ints(*(bounds.step or 1 for bounds in cuts.values())),
    }
    if all(bounds.step is None for bounds in cuts.values()):
        feeds["steps"] = None
    if list(cuts) == [*range(len(cuts))]:
        feeds["axes"] = None
    constants = ["shape", "starts", "ends", "axes", "steps"]
    check("SliceGrad", feeds, {"dX": oracle.slice_grad(dy, shape, cut)}, constants=constants, opset=opset)


RESIZES: dict[str, tuple[tuple[int, ...], tuple[float, ...]]] = {
    "1-D, twice": ((5,), (2.0,)),
    "1-D, smaller": ((7,), (0.5,)),
    "1-D, uneven": ((5,), (1.7,)),
    "1-D, one element": ((1,), (3.0,)),
    "1-D, to one element": ((4,), (0.25,)),
    "2-D": ((4, 3), (2.0, 3.0)),
    "2-D, uneven": ((4, 5), (1.5, 0.62)),
    "2-D, one axis": ((4, 5), (1.0, 2.0)),
    "3-D": ((2, 3, 2), (2.0, 1.0, 1.5)),
}


COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
MODES: list[dict[str, Any]] = [
    {"mode": "linear"},
    *({"mode": "cubic", "cubic_coeff_a": a, "exclude_outside": int(a == -0.5)} for a in (-0.75, -0.5)),
    *({"mode": "nearest", "nearest_mode": f"round_prefer_{way}"} for way in ("floor", "ceil")),
    *({"mode": "nearest", "nearest_mode": way} for way in ("floor", "ceil")),
]


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: "-".join(map(str, mode.values())))
@pytest.mark.parametrize(("sizes", "scales"), RESIZES.values(), ids=RESIZES)
def test_resize_grad(sizes: tuple[int, ...], scales: tuple[float, ...], coordinates: str, mode: dict[str, Any]) -> None:
    if coordinates == "half_pixel_symmetric" and mode.get("nearest_mode") in ("floor", "ceil"):
        pytest.skip("the middle result is at the middle element: which one is beside it depends on a rounding")
    counts = [math.floor(size * scale) for size, scale in zip(sizes, scales, strict=True)]
    dy, x = normal(2, 3, *counts), normal(2, 3, *sizes)
    feeds = {"dY": dy, "X": x, "roi": None, "scales": np.array([1, 1, *scales], F32)}
    options = {**mode, "coordinate_transformation_mode": coordinates}
    expected = {"dX": oracle.resize_grad(dy, sizes, scales, **options)}
    shapes = {"dY": ["N", 3, *counts], "X": ["N", 3, *sizes], "dX": ["N", 3, *sizes]}
    check("ResizeGrad", feeds, expected, constants=["scales"], shapes=shapes, **options)


@pytest.mark.parametrize("dtype", [F16, F32, F64])
def test_resize_grad_without_scales(dtype: Any) -> None:
    """A Resize with sizes has no scales; they are those of the sizes."""
    dy, x = normal(2, 3, 10, dtype=dtype), normal(2, 3, 4, dtype=dtype)
    expected = {"dX": oracle.resize_grad(dy, [4], [2.5], mode="linear")}
    check("ResizeGrad", {"dY": dy, "X": x, "roi": None, "scales": None}, expected, dtype=dtype, mode="linear")


@pytest.mark.parametrize("dtype", [F16, F32, F64])
def test_rows_without_padding(dtype: Any) -> None:
    rows, indices = normal(6, 2, 3, dtype=dtype), ints(7, 0, 3, 4, 1, 6)
    padded = oracle.pad_and_unflatten(rows, indices, [2, 4])
    feeds = {"X": rows, "indices": indices, "dims": ints(2, 4)}
    check("PadAndUnflatten", feeds, {"Y": padded}, dtype=dtype)
    feeds = {"X": padded, "indices": indices}
    check("FlattenAndUnpad", feeds, {"Y": rows, "dims": ints(2, 4)}, dtype=dtype)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_shrunken_gather(axis: int) -> None:
    x, indices = normal(4, 3, 5), ints(2, 0, -1)
    check("ShrunkenGather", {"X": x, "indices": indices}, {"Y": np.take(x, indices, axis)}, axis=axis)


@pytest.mark.parametrize("upper", [0, 1, None])
@pytest.mark.parametrize("k", [-2, 0, 1, None])
def test_trilu(k: int | None, upper: int | None) -> None:
    x = normal(2, 4, 5)
    feeds = {"X": x, "k": None if k is None else np.array(k)}
    expected = np.tril(x, k or 0) if upper == 0 else np.triu(x, k or 0)
    check("Trilu", feeds, {"Y": expected}, **({} if upper is None else {"upper": upper}))


@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("noop", [0, 1])
@pytest.mark.parametrize("axes", [[0], [-1], [1, 2], []], ids=str)
def test_reduce_sum_training(axes: list[int], noop: int, keepdims: int, opset: int) -> None:
    x = normal(3, 2, 4)
    along = tuple(axes) if axes or noop else None
    expected = x.astype(F64).sum(along, keepdims=bool(keepdims)) if along != () else x.astype(F64)
    feeds = {"X": x, "axes": ints(*axes)}
    options = {"keepdims": keepdims, "noop_with_empty_axes": noop, "constants": ["axes"]}
    check("ReduceSumTraining", feeds, {"Y": expected}, opset=opset, **options)


# -- pools

POOLS: dict[str, dict[str, Any]] = {
    "1-D": {"sizes": (7,), "kernel_shape": [3], "strides": [2]},
    "2-D": {"sizes": (6, 5), "kernel_shape": [2, 3], "strides": [2, 1]},
    "3-D": {"sizes": (4, 3, 5), "kernel_shape": [2, 2, 3], "strides": [1, 1, 2]},
    "default strides": {"sizes": (5, 5), "kernel_shape": [2, 2]},
    "pads": {"sizes": (5, 5), "kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    "unequal pads": {"sizes": (5, 6), "kernel_shape": [3, 3], "strides": [2, 1], "pads": [0, 2, 1, 0]},
    "ceil mode": {"sizes": (6, 7), "kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1},
    "ceil mode with pads": {
        "sizes": (6, 7),
        "kernel_shape": [3, 3],
        "strides": [2, 3],
        "pads": [1, 0, 1, 1],
        "ceil_mode": 1,
    },
    "a last window behind the input": {
        "sizes": (5,),
        "kernel_shape": [2],
        "strides": [3],
        "pads": [1, 1],
        "ceil_mode": 1,
    },
    "gaps": {"sizes": (7,), "kernel_shape": [2], "strides": [3]},
}


def pool_counts(row: Mapping[str, Any]) -> tuple[list[int], list[int], list[int], list[int]]:
    """Numbers of windows, strides, and begins and ends of the padding: ceil_mode drops windows that start behind x."""
    kernel, rank = row["kernel_shape"], len(row["sizes"])
    strides, pads = row.get("strides", [1] * rank), row.get("pads", [0] * 2 * rank)
    counts = []
    for axis, size in enumerate(row["sizes"]):
        room = size + pads[axis] + pads[rank + axis] - kernel[axis]
        count = (math.ceil if row.get("ceil_mode") else math.floor)(room / strides[axis]) + 1
        counts.append(count - 1 if (count - 1) * strides[axis] >= size + pads[axis] else count)
    return counts, strides, pads[:rank], pads[rank:]


@pytest.mark.parametrize("counts_padding", [0, 1])
@pytest.mark.parametrize("row", POOLS.values(), ids=POOLS)
def test_average_pool_grad(row: dict[str, Any], counts_padding: int) -> None:
    """The forward pool gives the sizes; its result is not compared."""
    counts, strides, begins, ends = pool_counts(row)
    attributes = {name: value for name, value in row.items() if name != "sizes"}
    attributes["count_include_pad"] = counts_padding
    dy, x = normal(2, 3, *counts), normal(2, 3, *row["sizes"], seed=1)
    model = one_node("AveragePoolGrad", {"dY": dy, "X": x}, {"dX": x}, domain="", **attributes)
    gradient = model.graph.node[0]
    del gradient.input[1:]
    pool = onnx.helper.make_node("AveragePool", ["X"], ["Y"], **attributes)
    model.graph.node.insert(0, pool)
    model.graph.output.append(onnx.helper.make_tensor_value_info("Y", TensorProto.FLOAT, [None] * (2 + len(counts))))
    for batch in (None, "N"):
        if batch:
            for value in (*model.graph.input, model.graph.output[0]):
                value.type.tensor_type.shape.dim[0].dim_param = batch
        found = run_ort(standardised(model), {"dY": dy, "X": x})["dX"]
        expected = oracle.average_pool_grad(
            dy,
            x.shape,
            kernel=row["kernel_shape"],
            strides=strides,
            begins=begins,
            ends=ends,
            counts_padding=bool(counts_padding),
        )
        assert_close(found, expected, F32)


def aten(name: str, *operands: Any, overload: str = "") -> dict[str, Any]:
    """The arguments of `check` for a node of ATen, of which all operands but arrays of floats are constants."""
    feeds: dict[str, Array | None] = {}
    for number, operand in enumerate(operands):
        feeds[f"a{number}"] = None if operand is None else np.asarray(operand)
    constants = [key for key, array in feeds.items() if array is not None and array.dtype.kind != "f"]
    options = {"operator": name, **({"overload_name": overload} if overload else {})}
    return {"feeds": feeds, "constants": constants, "domain": "org.pytorch.aten", **options}


@pytest.mark.parametrize("divisor", [None, 5])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("rank", [2, 3])
def test_average_pools_of_aten(rank: int, ceil: bool, padded: bool, divisor: int | None) -> None:
    row = {
        "sizes": (6, 7, 5)[:rank],
        "kernel_shape": [3, 2, 2][:rank],
        "strides": [2, 2, 1][:rank],
        "pads": [1, 0, 1][:rank] * 2,
        "ceil_mode": ceil,
    }
    counts, strides, begins, ends = pool_counts(row)
    x, dy = normal(2, 3, *row["sizes"]), normal(2, 3, *counts, seed=1)
    arguments = (ints(*row["kernel_shape"]), ints(*strides), ints(*begins), ceil, padded)
    expected = oracle.average_pool_grad(
        dy,
        x.shape,
        kernel=row["kernel_shape"],
        strides=strides,
        begins=begins,
        ends=ends,
        counts_padding=padded,
        divisor=divisor,
    )
    last = () if divisor is None else (np.array(divisor),)
    check("ATen", expected={"r0": expected}, **aten(f"avg_pool{rank}d_backward", dy, x, *arguments, *last))
    if divisor is None:
        # The pool is linear, so that its gradient for a unit dY is its row.
        y = np.empty((2, 3, *counts))
        for place in np.ndindex(*counts):
            unit = np.zeros((1, 1, *counts))
            unit[oracle.place_of(0, 0, *place)] = 1
            weights = oracle.average_pool_grad(
                unit,
                (1, 1, *row["sizes"]),
                kernel=row["kernel_shape"],
                strides=strides,
                begins=begins,
                ends=ends,
                counts_padding=padded,
            )
            y[oracle.place_of(..., *place)] = (x * weights).sum(tuple(range(2, 2 + rank)))
        check("ATen", expected={"r0": y}, **aten(f"avg_pool{rank}d", x, *arguments))


def adaptive(size: int, count: int) -> list[range]:
    return [range(number * size // count, -(-(number + 1) * size // count)) for number in range(count)]


@pytest.mark.parametrize("counts", [(1, 1), (3, 2), (4, 7), (5, 3)], ids=str)
def test_adaptive_average_pools_of_aten(counts: tuple[int, int]) -> None:
    x, dy = normal(2, 3, 6, 7), normal(2, 3, *counts, seed=1)
    windows = [adaptive(size, count) for size, count in zip((6, 7), counts, strict=True)]
    arguments = aten("_adaptive_avg_pool2d", x, ints(*counts))
    check("ATen", expected={"r0": oracle.average_pool(x, windows)}, **arguments)
    model = one_node("ATen", outputs={"r0": dy}, **arguments)
    node = onnx.helper.make_node(
        "ATen", ["dY", "a0"], ["dX"], domain="org.pytorch.aten", operator="_adaptive_avg_pool2d_backward"
    )
    other = onnx.helper.make_node(
        "ATen",
        ["a0", "kernel", "kernel", "zeros", "no", "yes", ""],
        ["other"],
        domain="org.pytorch.aten",
        operator="avg_pool2d",
    )
    model.graph.node.insert(0, other)
    model.graph.node.append(node)
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(array), name)
        for name, array in {"kernel": ints(2, 2), "zeros": ints(0, 0), "no": False, "yes": True}.items()
    )
    model.graph.input.append(onnx.helper.make_tensor_value_info("dY", TensorProto.FLOAT, dy.shape))
    model.graph.output.append(onnx.helper.make_tensor_value_info("dX", TensorProto.FLOAT, x.shape))
    model.graph.output.append(onnx.helper.make_tensor_value_info("other", TensorProto.FLOAT, [2, 3, 3, 3]))
    found = run_ort(standardised(model), {"a0": x, "dY": dy})["dX"]
    assert_close(found, oracle.average_windows_grad(dy, x.shape, windows), F32)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_maximum_of_aten(axis: int, keep: bool) -> None:
    x = normal(3, 4, 5)
    values, positions = x.max(axis, keepdims=keep), x.argmax(axis, keepdims=keep)
    expected = {"r0": values, "r1": positions}
    check("ATen", expected=expected, **aten("max", x, np.array(axis), np.array(keep), overload="dim"))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gradient_of_a_maximum_of_aten(axis: int, keep: bool, known: bool) -> None:
    """No pool is before it, so that the lowering leaves it."""
    x = normal(3, 4, 5)
    positions = x.argmax(axis, keepdims=True)
    dy = normal(*positions.shape)
    expected = np.zeros_like(x)
    np.put_along_axis(expected, positions, dy, axis)
    if not keep:
        dy, positions = dy.squeeze(axis), positions.squeeze(axis)
    arguments = aten("value_selecting_reduction_backward", dy, np.array(axis), positions, ints(3, 4, 5), np.array(keep))
    arguments["constants"] = [name for name in arguments["constants"] if name != "a2" and (known or name != "a3")]
    check("ATen", expected={"r0": expected}, **arguments)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_max_pool_grad_of_doubles(rank: int) -> None:
    """Windows that overlap add up."""
    x = normal(2, 3, *(6, 5, 4)[:rank], dtype=F64)
    attributes: dict[str, Any] = {
        "kernel_shape": [3, 2, 2][:rank],
        "strides": [2, 1, 1][:rank],
        "pads": [1, 0, 0][:rank] * 2,
    }
    y, indices = max_pool(x, **attributes, ceil_mode=0, dilations=[1] * rank, storage_order=0)
    dy = normal(*y.shape, dtype=F64, seed=1)
    model = one_node("MaxPoolGrad", {"dY": dy, "X": x}, {"dX": x}, domain="", **attributes)
    model.graph.node[0].input[1] = "Indices"
    model.graph.node.insert(0, onnx.helper.make_node("MaxPool", ["X"], ["Y", "Indices"], **attributes))
    found = run_ort(standardised(model), {"dY": dy, "X": x})["dX"]
    assert_close(found, pool_gradient(x.shape, dy, indices), F64)
