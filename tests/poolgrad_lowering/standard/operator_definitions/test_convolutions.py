# SPDX-License-Identifier: Apache-2.0

"""Gradients of convolutions, of onnxruntime and of TensorFlow."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.oracles import run_ort
from tests.oracles import training_operators as oracle
from tests.poolgrad_lowering.standard.operator_definitions.cases import F16, F32, check, normal, prepared
from tests.poolgrad_lowering.standard.standard_models import Array, assert_close, one_node

CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "1-D": {"x": (2, 3, 7), "w": (4, 3, 3)},
    "2-D": {"x": (2, 3, 6, 7), "w": (4, 3, 3, 2)},
    "3-D": {"x": (1, 2, 4, 5, 4), "w": (3, 2, 2, 3, 1)},
    "a window of one": {"x": (2, 3, 4, 4), "w": (5, 3, 1, 1), "strides": [2, 2]},
    "many channels": {"x": (2, 16, 6, 6), "w": (3, 16, 3, 3), "strides": [2, 1], "pads": [1, 0, 1, 2]},
    "many channels, 3-D": {"x": (1, 17, 4, 3, 4), "w": (2, 17, 2, 2, 2), "strides": [1, 2, 3], "dilations": [2, 1, 1]},
    "many channels in groups": {"x": (2, 32, 5), "w": (4, 16, 3), "group": 2},
    "few rows in groups, 3-D": {"x": (1, 34, 3, 2, 2), "w": (32, 17, 2, 1, 2), "group": 2, "strides": [2, 1, 1]},
    "just below many": {"x": (2, 15, 5), "w": (2, 15, 3)},
    "groups": {"x": (2, 4, 6, 5), "w": (6, 2, 3, 3), "group": 2, "pads": [1, 1, 1, 1]},
    "depthwise": {"x": (2, 5, 6, 6), "w": (5, 1, 3, 3), "group": 5, "strides": [2, 2], "pads": [1, 1, 0, 0]},
    "depthwise with a multiplier": {"x": (1, 3, 7), "w": (6, 1, 2), "group": 3, "dilations": [3]},
    "dilations": {"x": (2, 2, 9, 8), "w": (3, 2, 3, 2), "dilations": [2, 3], "pads": [2, 0, 1, 1]},
    "rows left over": {"x": (2, 2, 8, 9), "w": (3, 2, 3, 2), "strides": [3, 4]},
    "rows left over in the padding": {"x": (2, 2, 7), "w": (3, 2, 2), "strides": [3], "pads": [1, 2]},
    "rows left over, 3-D": {
        "x": (1, 2, 6, 6, 5),
        "w": (3, 2, 3, 3, 2),
        "strides": [2, 2, 3],
        "pads": [0, 1, 0, 0, 2, 1],
    },
    "gaps": {"x": (2, 2, 11), "w": (3, 2, 2), "strides": [4]},
    "wide pads": {"x": (2, 2, 5), "w": (3, 2, 3), "pads": [300, 290]},
    "a kernel of many positions": {"x": (1, 4, 66, 66), "w": (4, 2, 65, 64), "group": 2},
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
@pytest.mark.parametrize("axes", [1, 3])
def test_conv_grad_with_symbolic_sizes(axes: int, row: dict[str, Any]) -> None:
    """Of the first axis, or of all."""
    feeds, expected, attributes = conv_case(row)
    x, dy = row["x"], feeds["dY"].shape
    symbolic = min(axes, len(x) - 2)
    of_x = ["N", x[1], *"HWD"[:symbolic], *x[2 + symbolic :]]
    shapes = {"X": of_x, "dX": of_x, "dY": ["N", dy[1], *"hwd"[:symbolic], *dy[2 + symbolic :]]}
    check("ConvGrad", feeds, expected, shapes=shapes, **attributes)


@pytest.mark.without_kernel
def test_volumes_have_no_more_output_padding_than_padding() -> None:
    """CANN refuses it."""
    row = CONVOLUTIONS["rows left over, 3-D"]
    feeds, expected, attributes = conv_case(row)
    results = {name: array.astype(F32) for name, array in expected.items()}
    for sizes in ([6, 6, 5], ["H", "W", "D"]):
        shapes = {"X": [1, 2, *sizes], "dX": [1, 2, *sizes]}
        nodes = prepared(one_node("ConvGrad", feeds, results, shapes=shapes, **attributes)).graph.node
        [node] = [node for node in nodes if node.op_type == "ConvTranspose"]
        held = {attribute.name: attribute.ints for attribute in node.attribute}
        assert all(map(operator.le, held["output_padding"], held["pads"][3:]))


@pytest.mark.parametrize("wanted", [["dX"], ["dW"], ["dB"], ["dX", "dB"], ["dW", "dB"]], ids="-".join)
def test_conv_grad_in_part(wanted: list[str]) -> None:
    """Outputs that nothing asks for are the empty name, or not there."""
    feeds, expected, attributes = conv_case(CONVOLUTIONS["2-D"])
    model = one_node("ConvGrad", feeds, {name: expected[name].astype(F32) for name in wanted}, **attributes)
    last = max(["dX", "dW", "dB"].index(name) for name in wanted) + 1
    del model.graph.node[0].output[:]
    model.graph.node[0].output.extend(name if name in wanted else "" for name in ["dX", "dW", "dB"][:last])
    found = run_ort(prepared(model), feeds)
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
    "as few rows as a quarter of the results": (
        {"x": (2, 16, 3, 3), "w": (32, 16, 2, 2)},
        {"MatMul": 1, "ConvTranspose": 1},
    ),
    "one row more": ({"x": (1, 16, 4, 4), "w": (32, 16, 2, 2)}, {"MatMul": 4, "ConvTranspose": 1}),
    "few rows and one position": (
        {"x": (2, 16, 2, 2), "w": (32, 16, 1, 1)},
        {"MatMul": 1, "ConvTranspose": 1},
    ),
    "few rows in groups": (
        {"x": (1, 34, 3, 2, 2), "w": (32, 17, 2, 1, 2), "group": 2, "strides": [2, 1, 1]},
        {"MatMul": 1, "ConvTranspose": 1},
    ),
    "a large result": ({"x": (1, 1, 260, 5), "w": (2, 1, 4, 3)}, {"MatMul": 1, "ConvTranspose": 1}),
}
"""What the two gradients of a convolution are written with, by its sizes."""


@pytest.mark.without_kernel
@pytest.mark.parametrize("name", SPELLINGS)
def test_the_ways_to_write_the_gradients_of_a_convolution(name: str) -> None:
    row, written = SPELLINGS[name]
    feeds, expected, attributes = conv_case(row)
    check("ConvGrad", feeds, expected, **attributes)
    model = prepared(one_node("ConvGrad", feeds, {n: a.astype(F32) for n, a in expected.items()}, **attributes))
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


@pytest.mark.without_kernel
@pytest.mark.parametrize("symbols", ["", "N", "NHWD"])
@pytest.mark.parametrize("row", TRANSPOSED.values(), ids=TRANSPOSED)
def test_conv_transpose_grad(row: dict[str, Any], symbols: str) -> None:
    """With numbers, with a symbolic batch, and with symbolic sizes of images too."""
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
    of_x, of_dy = symbols[1 : 1 + rank] or x[2:], symbols[1 : 1 + rank].lower() or sizes
    shapes = {"X": ["N", x[1], *of_x], "dX": ["N", x[1], *of_x], "dY": ["N", results, *of_dy]} if symbols else {}
    check(
        "ConvTransposeGrad",
        feeds,
        dict(zip(("dX", "dW", "dB"), expected, strict=True)),
        shapes=shapes,
        kernel_shape=list(w[2:]),
        **whole,
    )


@pytest.mark.without_kernel
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


@pytest.mark.without_kernel
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
