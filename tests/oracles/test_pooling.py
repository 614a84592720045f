# SPDX-License-Identifier: Apache-2.0

"""The pooling oracles against sources they do not share code with, and in the corners of their definitions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest

from tests.heads import head
from tests.oracles import (
    adaptive_windows,
    ascend_pool,
    assert_same_bits,
    max_pool,
    max_pool_indices,
    pool_gradient,
    pool_windows,
    run_ort,
    run_reference,
)
from tests.oracles.backend_cases import max_pool_cases


def test_onnx_backend_cases() -> None:
    cases = max_pool_cases()
    assert len(cases) > 15
    for case in cases:
        assert case.model is not None
        assert case.data_sets is not None
        for inputs, outputs in case.data_sets:
            names = [value.name for value in case.model.graph.input]
            found = run_reference(case.model, dict(zip(names, inputs, strict=True)))
            for actual, expected in zip(found.values(), outputs, strict=True):
                assert_same_bits(actual, expected)


def random_pool(random: np.random.Generator) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
    """Draw an input full of ties and the attributes of a pool over it, every window with an element inside."""
    rank = int(random.integers(1, 4))
    kernel = random.integers(1, 4, rank)
    dilations = random.integers(1, 3, rank)
    extent = (kernel - 1) * dilations + 1
    spatial = random.integers(extent, extent + 6)
    attributes = {
        "kernel_shape": kernel.tolist(),
        "strides": random.integers(1, 4, rank).tolist(),
        "pads": random.integers(0, np.tile((kernel + 1) // 2, 2)).tolist(),
        "dilations": dilations.tolist(),
        "ceil_mode": bool(random.integers(0, 2)),
    }
    x = random.integers(-3, 4, (2, 2, *spatial)).astype(np.float32)
    return x, attributes


def pool_model(shape: tuple[int, ...], attributes: dict[str, Any]) -> onnx.ModelProto:
    node = onnx.helper.make_node("MaxPool", ["x"], ["y", "i"], **attributes)
    rank = [None] * len(shape)
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [
            onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, rank),
            onnx.helper.make_tensor_value_info("i", onnx.TensorProto.INT64, rank),
        ],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 12)], ir_version=8)


@pytest.mark.parametrize("seed", range(150))
def test_onnxruntime(seed: int) -> None:
    random = np.random.default_rng(seed)
    x, attributes = random_pool(random)
    special = random.random(x.shape) < 0.1
    x[special] = random.choice([np.nan, -np.inf, np.inf, -0.0], int(special.sum()))
    pytest.importorskip("onnxruntime")
    expected = run_ort(pool_model(x.shape, attributes), {"x": x})
    y, indices = max_pool(x, **attributes)
    assert_same_bits(indices, expected["i"])
    assert_same_bits(y, expected["y"])


@pytest.mark.parametrize("seed", range(60))
def test_torch(seed: int) -> None:
    torch = pytest.importorskip("torch")
    x, attributes = random_pool(np.random.default_rng(1000 + seed))
    rank = x.ndim - 2
    pads = attributes["pads"] = attributes["pads"][:rank] * 2
    pool = getattr(torch.nn.functional, f"max_pool{rank}d")
    y, plane_local = pool(
        torch.from_numpy(x),
        attributes["kernel_shape"],
        attributes["strides"],
        pads[:rank],
        attributes["dilations"],
        attributes["ceil_mode"],
        return_indices=True,
    )
    indices = max_pool_indices(x, **attributes)
    assert_same_bits(indices % np.prod(x.shape[2:]), plane_local.numpy())
    assert_same_bits(x.reshape(-1)[indices], y.numpy())


def test_storage_order_numbers_columns_first() -> None:
    x = np.zeros((1, 2, 2, 3), np.float32)
    x[0, 1, 0, 2] = 1
    _, indices = max_pool(x, [2, 3], storage_order=1)
    assert indices.reshape(-1).tolist() == [0, 6 + 2 * 2]


def test_window_without_element() -> None:
    with pytest.raises(ValueError, match="padding"):
        max_pool_indices(np.zeros((1, 1, 3), np.float32), [1], [1], [1, 0])


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_gradients_are_those_of_torch(rank: int) -> None:
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(rank)
    x = random.permutation(2 * 3 * 7**rank).reshape(2, 3, *[7] * rank).astype(np.float32)
    indices = max_pool_indices(x, [3] * rank, [1] * rank, [1] * 2 * rank)
    # Small integers: sums are exact, whatever the order in which torch adds.
    dy = random.integers(-8, 9, indices.shape).astype(np.float32)
    leaf = torch.from_numpy(x).requires_grad_()
    getattr(torch.nn.functional, f"max_pool{rank}d")(leaf, 3, 1, 1).backward(torch.from_numpy(dy))
    assert_same_bits(pool_gradient(x.shape, dy, indices), leaf.grad.numpy())


def test_sums_in_row_major_order() -> None:
    dy = np.array([[[1e8, 1, -1e8]]], np.float32)
    found = pool_gradient((1, 1, 2), dy, np.zeros((1, 1, 3), np.int64))
    assert found.tolist() == [[[0, 0]]]


def test_half_precision_accumulates_in_float32() -> None:
    dy = np.array([[[2048, 1, 1]]], np.float16)
    found = pool_gradient((1, 1, 1), dy, np.zeros((1, 1, 3), np.int64))
    assert_same_bits(found, np.array([[[2050]]], np.float16))


def test_negative_zero_becomes_zero() -> None:
    found = pool_gradient((1, 1, 2), np.array([[[-0.0]]], np.float32), np.array([[[1]]]))
    assert_same_bits(found, np.zeros((1, 1, 2), np.float32))


@pytest.mark.parametrize("index", [-1, 4])
def test_index_outside(index: int) -> None:
    with pytest.raises(IndexError, match="x has 4 elements"):
        pool_gradient((1, 1, 4), np.ones((1, 1, 1), np.float32), np.array([[[index]]]))


def test_other_shape() -> None:
    with pytest.raises(ValueError, match=r"dy has shape \(1, 1, 2\), the indices \(1, 2, 1\)"):
        pool_gradient((1, 1, 4), np.ones((1, 1, 2), np.float32), np.zeros((1, 2, 1), np.int64))


MAX_POOL_GRAD = (
    head(17)
    + """
    g (float[n,1,4] x, float[n,1,2] dy) => ({dx}) {{
        y, i = MaxPool <kernel_shape=[2], strides=[2]> (x)
        dx = MaxPoolGrad ({operands})
    }}"""
)
FEEDS = {
    "x": np.array([[[1, 2, 4, 3]], [[2, 1, 3, 4]]], np.float32),
    "dy": np.array([[[5, 6]], [[7, 8]]], np.float32),
}


def test_reference_takes_the_shape_of_x_where_none_is_declared() -> None:
    model = onnx.parser.parse_model(MAX_POOL_GRAD.format(dx="float[n,1,4] dx", operands="dy, i"))
    assert run_reference(model, FEEDS)["dx"].tolist() == [[[0, 5, 6, 0]], [[7, 0, 0, 8]]]


def test_reference_takes_the_declared_shape() -> None:
    model = onnx.parser.parse_model(MAX_POOL_GRAD.format(dx="float[8] dx", operands="dy, i"))
    assert run_reference(model, FEEDS)["dx"].tolist() == [0, 5, 6, 0, 7, 0, 0, 8]


def test_reference_asks_for_a_shape() -> None:
    text = MAX_POOL_GRAD.format(dx="float[n,1,4] dx", operands="dy, j").replace("y, i", "j = Abs (k)\ny, i")
    model = onnx.parser.parse_model(text.replace("dy)", "dy, int64[n,1,2] k)", 1))
    with pytest.raises(ValueError, match="declare its output's shape"):
        run_reference(model, FEEDS)


def test_reference_inside_a_branch() -> None:
    model = onnx.parser.parse_model(
        head(17)
        + """
        g (bool c, float[n,1,4] x, float[n,1,2] dy) => (float[n,1,4] dx) {
            y, i = MaxPool <kernel_shape=[2], strides=[2]> (x)
            dx = If (c) <
                then_branch = t () => (float[n,1,4] a) { a = MaxPoolGrad (dy, i) },
                else_branch = e () => (float[n,1,4] b) { b = Neg (x) }>
        }"""
    )
    found = run_reference(model, {**FEEDS, "c": np.array(True)})["dx"]
    assert found.tolist() == [[[0, 5, 6, 0]], [[7, 0, 0, 8]]]


def test_windows_written_out() -> None:
    assert pool_windows(5, 3, 2, 1, 1, ceil_mode=False) == [[0, 1], [1, 2, 3], [3, 4]]
    assert pool_windows(6, 3, 2, 1, 1, ceil_mode=False) == [[0, 1], [1, 2, 3], [3, 4, 5]]
    assert pool_windows(6, 3, 2, 1, 1, ceil_mode=True) == [[0, 1], [1, 2, 3], [3, 4, 5], [5]]
    assert pool_windows(5, 2, 3, 1, 1, ceil_mode=True) == [[0], [2, 3]]  # a third would start in the right padding
    assert pool_windows(5, 2, 2, 1, 3, ceil_mode=False) == [[2], [1, 4]]
    assert pool_windows(2, 3, 1, 0, 1, ceil_mode=False) == []
    assert adaptive_windows(5, 3) == [[0, 1], [1, 2, 3], [3, 4]]
    assert adaptive_windows(2, 3) == [[0], [0, 1], [1]]


@pytest.mark.parametrize("ceil_mode", [False, True])
def test_agrees_with_onnx(ceil_mode: bool) -> None:
    rng = np.random.default_rng(0)
    for kernel, stride, dilation, size in itertools.product((1, 2, 3), (1, 2, 3), (1, 2), (5, 6, 9)):
        pad = kernel // 2
        x = rng.integers(-2, 3, (2, 1, size, 7)).astype(np.float32)
        windows = [
            pool_windows(size, kernel, stride, pad, dilation, ceil_mode=ceil_mode),
            pool_windows(7, 2, 2, 0, 1, ceil_mode=ceil_mode),
        ]
        y, argmax = ascend_pool(x, windows)
        lists = ([kernel, 2], [stride, 2], [pad, 0, pad, 0], [dilation, 1])
        expected, indices = max_pool(x, *lists, ceil_mode=ceil_mode)
        assert_same_bits(y, expected)
        assert_same_bits(argmax, indices % (size * 7))


@pytest.mark.parametrize("out", [(2, 3), (5, 7), (1, 4)])
def test_agrees_with_torch_on_nan_and_ties(out: tuple[int, int]) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    x = rng.choice(np.array([1, 2, np.nan, -np.inf], np.float32), (3, 2, 5, 7))
    y, argmax = ascend_pool(x, [adaptive_windows(size, count) for size, count in zip((5, 7), out, strict=True)])
    expected, indices = torch.nn.functional.adaptive_max_pool2d(torch.from_numpy(x), out, return_indices=True)
    assert_same_bits(y, expected.numpy())
    # torch starts below -inf and so gives a window of -inf its first position, as CANN does.
    assert_same_bits(argmax, indices.numpy())
