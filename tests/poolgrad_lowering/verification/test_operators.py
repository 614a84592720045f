# SPDX-License-Identifier: Apache-2.0

"""The operators of the verification's evaluator against onnx's own, against definitions, and against onnxruntime."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from poolgrad_lowering.verification.operators import OPERATORS, aten, pool, pooling
from poolgrad_lowering.verification.result import UnprovenError
from poolgrad_lowering.verification.running.evaluator import reference_runner
from tests.oracles import (
    ascend_pool,
    assert_same_bits,
    max_pool,
    pool_gradient,
    pool_windows,
    run_ort,
)
from tests.oracles import tensorflow as tensorflow_oracle
from tests.oracles.aten import OPERATORS as ATEN_ORACLES
from tests.pool_graphs import parse

Array = npt.NDArray[Any]
SEEDS = range(20)
OWN = {operator.__name__: operator for operator in OPERATORS if not operator.op_domain}


def random_pool(random: np.random.Generator) -> tuple[Array, dict[str, list[int]]]:
    """An input full of ties and special values, and the windows of a pool over it."""
    rank = int(random.integers(1, 4))
    kernel, dilations = random.integers(1, 4, rank), random.integers(1, 3, rank)
    extent = (kernel - 1) * dilations + 1
    x = random.integers(-3, 4, (2, 3, *random.integers(extent, extent + 6))).astype(np.float32)
    special = random.random(x.shape) < 0.15
    x[special] = random.choice([np.nan, -np.inf, np.inf, -0.0], int(special.sum()))
    windows = {
        "kernel_shape": kernel.tolist(),
        "strides": random.integers(1, 4, rank).tolist(),
        "pads": random.integers(0, np.tile((kernel + 1) // 2, 2)).tolist(),
        "dilations": dilations.tolist(),
    }
    return x, windows


def run_node(operator: type[OpRun], node: onnx.NodeProto, *inputs: Array, opset: int = 18) -> list[Array]:
    """The outputs of one node under our operator, or under onnx's own where it is OpRun itself."""
    names = list(node.input)
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names],
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in node.output],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    own = [] if operator is OpRun else [operator]
    found: Any = ReferenceEvaluator(model, new_ops=own).run(None, dict(zip(names, inputs, strict=True)))
    return list(found)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("ceil_mode", [False, True])
def test_max_pool_is_the_definition(seed: int, ceil_mode: bool) -> None:
    x, windows = random_pool(np.random.default_rng(seed))
    node = onnx.helper.make_node("MaxPool", ["x"], ["y", "i"], ceil_mode=int(ceil_mode), **windows)
    for found, expected in zip(
        run_node(OWN["MaxPool"], node, x), max_pool(x, **windows, ceil_mode=ceil_mode), strict=True
    ):
        assert_same_bits(found, expected)


def test_max_pool_in_columns() -> None:
    x, windows = random_pool(np.random.default_rng(3))
    node = onnx.helper.make_node("MaxPool", ["x"], ["y", "i"], storage_order=1, **windows)
    assert_same_bits(run_node(OWN["MaxPool"], node, x)[1], max_pool(x, **windows, storage_order=1)[1])


@pytest.mark.parametrize("seed", SEEDS)
def test_last_nan_is_ascends_maximum(seed: int) -> None:
    """PyTorch's rule for NaN is Ascend's, whose oracle is written from CANN's words."""
    x, windows = random_pool(np.random.default_rng(seed))
    rank = x.ndim - 2
    kernel, strides, dilations = (windows[name] for name in ("kernel_shape", "strides", "dilations"))
    pads = [min(pad, k // 2) for pad, k in zip(windows["pads"][:rank], kernel, strict=True)]
    axes = zip(x.shape[2:], kernel, strides, pads, dilations, strict=True)
    expected = ascend_pool(x, [pool_windows(*axis, ceil_mode=False) for axis in axes])
    for found, wanted in zip(aten.plane_pool(x, kernel, strides, pads, dilations, False), expected, strict=True):
        assert_same_bits(found, wanted)


def test_window_in_the_padding() -> None:
    with pytest.raises(ValueError, match="entirely in the padding"):
        pool.max_pool(np.zeros((1, 1, 3)), [1], [1], [1], ([1], [0]))


def test_axis_without_a_window() -> None:
    with pytest.raises(ValueError, match="no window of 5 fits an axis of 3"):
        pool.max_pool(np.zeros((1, 1, 3)), [5], [1], [1], ([0], [0]))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_gradient_is_the_definition(dtype: type[np.floating[Any]]) -> None:
    random = np.random.default_rng(0)
    dy = (random.standard_normal((2, 3, 5)) * 10.0 ** random.integers(-3, 4, (2, 3, 5))).astype(dtype)
    indices = random.integers(0, 2 * 3 * 8, dy.shape)
    assert_same_bits(pool.scatter_gradient((2, 3, 8), dy, indices), pool_gradient((2, 3, 8), dy, indices))


@pytest.mark.parametrize("index", [-1, 8])
def test_gradient_with_an_index_outside(index: int) -> None:
    with pytest.raises(IndexError, match="x has 8 elements"):
        pool.scatter_gradient((1, 1, 8), np.ones((1, 1, 1), np.float32), np.array([[[index]]]))


@pytest.mark.parametrize("name", ATEN_ORACLES)
def test_torch_operators(name: str) -> None:
    random = np.random.default_rng(0)
    x = random.integers(-3, 4, (2, 3, *[6] * (3 if "3d" in name else 2))).astype(np.float32)
    sizes = [3] * (x.ndim - 2)
    windows: tuple[Any, ...] = ([2], [], [1], [1], True)
    forward = (sizes,) if "adaptive" in name else windows
    if name == "max":
        arguments: tuple[Any, ...] = (x, np.array(2), np.array(False))
    elif name.startswith("value"):
        dim, keep = np.array(3), np.array(True)
        y, indices = ATEN_ORACLES["max"](x, dim, keep)
        arguments = (y, dim, indices, np.array(x.shape), keep)
    elif "backward" in name:
        y, indices = ATEN_ORACLES[name.removesuffix("_backward")](x, *forward)
        arguments = (y, x, *forward, indices) if "adaptive" not in name else (y, x, indices)
    else:
        arguments = (x, *forward)
    results, expected = aten._FUNCTIONS[name](*arguments), ATEN_ORACLES[name](*arguments)
    both = zip(results, expected, strict=True) if isinstance(expected, tuple) else [(results, expected)]
    for found, wanted in both:
        assert_same_bits(found, wanted)


def test_selected_gradient_of_another_shape() -> None:
    """numpy would repeat it; PyTorch refuses it."""
    operands = np.ones(1, np.float32), np.array(1), np.zeros(2, np.int64), np.array([2, 1]), np.array(False)
    with pytest.raises(ValueError, match=r"shape \(1,\), the indices \(2,\)"):
        aten._FUNCTIONS["value_selecting_reduction_backward"](*operands)


def test_gradient_of_another_type() -> None:
    """PyTorch and TensorFlow refuse it."""
    x, dy, positions = np.ones((1, 1, 1, 1)), np.ones((1, 1, 1, 1), np.float32), np.zeros((1, 1, 1, 1), np.int64)
    attributes = {"ksize": [1, 1, 1, 1], "strides": [1, 1, 1, 1], "padding": "VALID"}
    refused = pytest.raises(ValueError, match="x has type float64, the gradient float32")
    with refused:
        aten.plane_gradient(dy, x, positions)
    with refused:
        pooling.pool_gradient(x, dy, **attributes)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("padding", ["VALID", "SAME", "EXPLICIT"])
def test_tensorflow_gradient(layout: str, padding: str) -> None:
    random = np.random.default_rng(0)
    channel = layout.index("C")
    explicit = [0] * 8
    if padding == "EXPLICIT":
        explicit = [0, 0, 0, 0, 1, 0, 0, 1] if layout == "NCHW" else [0, 0, 1, 0, 0, 1, 0, 0]
    height, width = {"VALID": (3, 4), "SAME": (4, 4), "EXPLICIT": (4, 4)}[padding]
    x = np.moveaxis(random.integers(-3, 4, (2, 3, 7, 8)).astype(np.float32), 1, channel)
    dy = np.moveaxis(random.standard_normal((2, 3, height, width)).astype(np.float32), 1, channel)
    shape = [1, 1, 2, 2] if layout == "NCHW" else [1, 2, 2, 1]
    options = {"ksize": shape, "strides": shape, "padding": padding, "data_format": layout}
    if padding == "EXPLICIT":
        options["explicit_paddings"] = explicit
    assert_same_bits(
        np.ascontiguousarray(pooling.pool_gradient(x, dy, **options)),
        np.ascontiguousarray(tensorflow_oracle.max_pool_grad(x, dy, **options)),
    )


def scatter_cases() -> list[Any]:
    random = np.random.default_rng(0)
    data, updates = random.standard_normal((3, 4, 5)).astype(np.float32), random.standard_normal((3, 2, 5))
    cases = []
    for axis, reduction in ((0, "add"), (1, "add"), (-1, "none"), (1, "max"), (2, "min"), (1, "mul")):
        indices = random.integers(-2, 2, updates.shape)
        node = onnx.helper.make_node("ScatterElements", ["d", "i", "u"], ["y"], axis=axis, reduction=reduction)
        cases.append((OWN["ScatterElements"], node, (data, indices, updates.astype(np.float32))))
    tuples = random.integers(0, 3, (6, 2))
    for reduction in ("none", "add", "mul"):
        node = onnx.helper.make_node("ScatterND", ["d", "i", "u"], ["y"], reduction=reduction)
        cases.append((OWN["ScatterND"], node, (data, tuples, random.standard_normal((6, 5)).astype(np.float32))))
    node = onnx.helper.make_node("GatherElements", ["d", "i"], ["y"], axis=1)
    cases.append((OWN["GatherElements"], node, (data, random.integers(0, 4, (3, 7, 5)))))
    node = onnx.helper.make_node("GatherND", ["d", "i"], ["y"])
    cases.append((OWN["GatherND"], node, (data, tuples)))
    node = onnx.helper.make_node("GatherND", ["d", "i"], ["y"], batch_dims=1)
    cases.append((OWN["GatherND"], node, (data, random.integers(0, 4, (3, 6, 1)))))
    tied = random.integers(0, 3, (4, 9)).astype(np.float32)
    for largest in (0, 1):
        node = onnx.helper.make_node("TopK", ["d", "k"], ["v", "i"], axis=1, largest=largest)
        cases.append((OWN["TopK"], node, (tied, np.array([5]))))
    return [pytest.param(*case, id=f"{number}-{case[1].op_type}") for number, case in enumerate(cases)]


@pytest.mark.parametrize(("operator", "node", "inputs"), scatter_cases())
def test_moving_operators_are_those_of_onnx(
    operator: type[OpRun], node: onnx.NodeProto, inputs: tuple[Array, ...]
) -> None:
    for found, expected in zip(run_node(operator, node, *inputs), run_node(OpRun, node, *inputs), strict=True):
        assert_same_bits(np.asarray(found), np.asarray(expected))


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [None, [0], [-1], [1, 2], [2, 0], [0, 1, 2]], ids=str)
def test_the_first_of_both_zeros_is_the_maximum(axes: list[int] | None, keepdims: int) -> None:
    """numpy's maximum but for the sign of zero, which is that of the first element that equals it."""
    values = np.array([0.0, -0.0, -1.0, np.nan], np.float32)
    x = np.random.default_rng(0).choice(values, (2, 3, 4), p=[0.4, 0.4, 0.1, 0.1])
    found = pooling.reduce_max(x, axes, keepdims)
    along = tuple(range(3)) if axes is None else tuple(axes)
    np.testing.assert_array_equal(found, x.max(axis=along, keepdims=bool(keepdims)))
    kept = [axis for axis in range(3) if axis not in [number % 3 for number in along]]
    lines = x.transpose(kept + [axis for axis in range(3) if axis not in kept]).reshape(*(x.shape[a] for a in kept), -1)
    for place in np.ndindex(lines.shape[:-1]):
        value = np.asarray(found).reshape(lines.shape[:-1])[place]
        if value == 0:
            assert np.signbit(value) == np.signbit(next(zero for zero in lines[place] if zero == 0))


def test_a_maximum_over_no_axes() -> None:
    x = np.float32([[1, 2], [4, 3]])
    assert pooling.reduce_max(x, np.array([], np.int64), 1, 1).tolist() == x.tolist()
    assert pooling.reduce_max(x, np.array([], np.int64), 0, 0).tolist() == 4


def test_scatter_outside() -> None:
    node = onnx.helper.make_node("ScatterElements", ["d", "i", "u"], ["y"], axis=1)
    with pytest.raises(IndexError, match="the axis has 4 elements"):
        run_node(OWN["ScatterElements"], node, np.zeros((1, 4)), np.array([[4]]), np.ones((1, 1)))


def test_concat_of_training() -> None:
    model = parse(
        "g (float[2,3] a, float[1,3] b) => (c, n) { c, n = com.microsoft.ConcatTraining <axis=0> (a, b) }",
        imports='"com.microsoft": 1',
    )
    found = reference_runner(model)({"a": np.ones((2, 3), np.float32), "b": np.zeros((1, 3), np.float32)})
    assert found["c"].tolist() == [[1] * 3, [1] * 3, [0] * 3]
    assert found["n"].tolist() == [2, 1]


def test_unknown_operator_is_unproven() -> None:
    model = parse("g (float[2] a) => (c) { c = com.acme.Unheard (a) }", imports='"com.acme": 1')
    with pytest.raises(UnprovenError, match="Unheard"):
        reference_runner(model)


def test_gradient_of_unknown_shape_is_unproven() -> None:
    model = parse("g (float[1,1,2] dy, int64[1,1,2] i) => (dx) { dx = MaxPoolGrad (dy, i) }")
    with pytest.raises(UnprovenError, match="no MaxPool recorded the Indices"):
        reference_runner(model)


ROWS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((4, 1, 5), (1, 1, 3), {}),
    ((4, 1, 5), (1, 1, 3), {"strides": [2], "pads": [1, 0], "output_padding": [1]}),
    ((4, 1, 5, 4), (1, 1, 3, 2), {"strides": [2, 3], "pads": [1, 0, 0, 1], "output_padding": [1, 2]}),
    ((2, 3, 5, 4), (3, 1, 3, 2), {"strides": [2, 1], "group": 3}),
    ((2, 3, 5, 4), (3, 1, 3, 2), {"dilations": [2, 1], "group": 3}),
    ((2, 3, 5, 4), (3, 2, 3, 2), {}),
    ((2, 1, 3, 4, 3), (1, 1, 2, 2, 1), {"strides": [1, 2, 1]}),
]


@pytest.mark.parametrize(("x", "w", "attributes"), ROWS)
def test_conv_transpose(x: tuple[int, ...], w: tuple[int, ...], attributes: dict[str, Any]) -> None:
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], **attributes)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "w", "y")]
    graph = helper.make_graph([node], "g", values[:2], values[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    random = np.random.default_rng(0)
    feeds = {name: random.integers(-4, 5, shape).astype(np.float32) for name, shape in (("x", x), ("w", w))}
    [expected] = ReferenceEvaluator(model).run(None, feeds)
    [found] = ReferenceEvaluator(model, new_ops=list(OPERATORS)).run(None, feeds)
    assert np.asarray(found).dtype == np.float32
    np.testing.assert_array_equal(found, expected)


WAYS = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners")
ROUNDINGS = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")


def model(name: str, values: list[float], opset: int = 18, **attributes: str) -> onnx.ModelProto:
    """A Resize of x (1, 2, 3, 4) by scales or sizes."""
    operand = numpy_helper.from_array(np.array(values, np.int64 if name == "sizes" else np.float32), name)
    inputs = ["x", "scales"] if opset == 10 else ["x", "", *(["", "sizes"] if name == "sizes" else ["scales"])]
    node = helper.make_node("Resize", inputs, ["y"], mode="nearest", **attributes)
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 2, 3, 4])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", [x], [y], [operand])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.parametrize(("way", "rounding"), list(product(WAYS, ROUNDINGS)))
@pytest.mark.parametrize(("name", "values"), [("scales", [1, 1, 2, 3]), ("sizes", [1, 2, 6, 6])])
def test_nearest(way: str, rounding: str, name: str, values: list[float]) -> None:
    resize = model(name, values, coordinate_transformation_mode=way, nearest_mode=rounding)
    feeds = {"x": np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)}
    [found] = ReferenceEvaluator(resize, new_ops=list(OPERATORS)).run(None, feeds)
    [expected] = ReferenceEvaluator(resize).run(None, feeds)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found, run_ort(resize, feeds)["y"])
    feeds["x"][0, 0, 0, 0] = np.inf
    if way != "align_corners":
        [found] = ReferenceEvaluator(resize, new_ops=list(OPERATORS)).run(None, feeds)
        np.testing.assert_array_equal(found, run_ort(resize, feeds)["y"])


def test_the_first_opset() -> None:
    resize = model("scales", [1, 1, 2, 1.5], 10)
    feeds = {"x": np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)}
    [found] = ReferenceEvaluator(resize, new_ops=list(OPERATORS)).run(None, feeds)
    np.testing.assert_array_equal(found, run_ort(resize, feeds)["y"])
