# SPDX-License-Identifier: Apache-2.0

"""The gradient oracle against torch, and in the corners of its definition."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.heads import head
from tests.oracles import assert_same_bits, max_pool_indices, pool_gradient, run_reference


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_torch(rank: int) -> None:
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
