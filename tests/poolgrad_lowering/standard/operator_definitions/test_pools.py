# SPDX-License-Identifier: Apache-2.0

"""Gradients of pools that no operator of the dialect takes, and of maxima."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from tests.oracles import max_pool, pool_gradient, run_ort
from tests.oracles import training_operators as oracle
from tests.poolgrad_lowering.standard.operator_definitions.cases import F32, F64, check, ints, normal
from tests.poolgrad_lowering.standard.standard_models import Array, assert_close, one_node, standardised

pytestmark = pytest.mark.without_kernel

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


def average_gradient(dy: Array, x_shape: tuple[int, ...], row: Mapping[str, Any], **options: Any) -> Array:
    """The gradient of x by the definition."""
    _, strides, begins, ends = pool_counts(row)
    windows = {"kernel": row["kernel_shape"], "strides": strides, "begins": begins, "ends": ends}
    return oracle.average_pool_grad(dy, x_shape, **windows, **options)


@pytest.mark.parametrize("counts_padding", [0, 1])
@pytest.mark.parametrize("row", POOLS.values(), ids=POOLS)
def test_average_pool_grad(row: dict[str, Any], counts_padding: int) -> None:
    """The forward pool gives the sizes; its result is not compared."""
    counts, *_ = pool_counts(row)
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
        expected = average_gradient(dy, x.shape, row, counts_padding=bool(counts_padding))
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
    counts, strides, begins, _ = pool_counts(row)
    x, dy = normal(2, 3, *row["sizes"]), normal(2, 3, *counts, seed=1)
    arguments = (ints(*row["kernel_shape"]), ints(*strides), ints(*begins), ceil, padded)
    expected = average_gradient(dy, x.shape, row, counts_padding=padded, divisor=divisor)
    last = () if divisor is None else (np.array(divisor),)
    check("ATen", expected={"r0": expected}, **aten(f"avg_pool{rank}d_backward", dy, x, *arguments, *last))
    if divisor is None:
        # The pool is linear, so that its gradient for a unit dY is its row.
        y = np.empty((2, 3, *counts))
        for place in np.ndindex(*counts):
            unit = np.zeros((1, 1, *counts))
            unit[oracle.place_of(0, 0, *place)] = 1
            weights = average_gradient(unit, (1, 1, *row["sizes"]), row, counts_padding=padded)
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
