# SPDX-License-Identifier: Apache-2.0

"""The data that sites are run on, the comparison of results, and what attributes promise of operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from poolgrad_lowering.verification.graph.flat import FlatNode
from poolgrad_lowering.verification.operators.pool import max_pool
from poolgrad_lowering.verification.running.compare import compare, relative_error
from poolgrad_lowering.verification.running.contract import check_gradient_contract, check_pool_contract
from poolgrad_lowering.verification.running.data import (
    GRADIENT,
    NO_INFINITE_POOLED,
    NO_NAN_POOLED,
    NO_NEGATIVE_ZERO,
    ONLY_WHOLE,
    POOLED,
    draw,
)
from poolgrad_lowering.verification.sites.cut import Role
from tests.oracles import adaptive_windows, pool_windows

FLOATS = [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE]


def drawn(role: Role, element: int = TensorProto.FLOAT, *not_drawn: str, shape: tuple[int, ...] = (3, 4, 6, 6)) -> Any:
    """All data of as many runs as there are kinds."""
    random = np.random.default_rng(0)
    runs = [
        draw(random, shape, element, role=role, run=run, not_drawn=not_drawn)
        for run in range(max(len(POOLED), len(GRADIENT)))
    ]
    return np.stack(runs).astype(np.float64)


@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("shape", [(3, 4, 6, 6), (1, 1, 5, 5), (64,), (2, 50), (1, 3, 40)])
def test_every_kind_is_drawn(element: int, shape: tuple[int, ...]) -> None:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(element)
    pooled, gradient = drawn(Role.POOLED, element, shape=shape), drawn(Role.GRADIENT, element, shape=shape)
    for data in (pooled, gradient):
        assert np.isnan(data).any()
        assert np.isinf(data).any()
        assert (np.signbit(data) & (data == 0)).any()
        smallest = {"float64": 5e-324, "float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133}[dtype.name]
        assert (np.abs(data[data != 0]) <= 6 * smallest).any()


def test_what_is_left_out() -> None:
    assert not np.isnan(drawn(Role.POOLED, TensorProto.FLOAT, NO_NAN_POOLED)).any()
    assert not np.isinf(drawn(Role.POOLED, TensorProto.FLOAT, NO_INFINITE_POOLED)).any()
    gradient = drawn(Role.GRADIENT, TensorProto.FLOAT, NO_NEGATIVE_ZERO)
    assert not (np.signbit(gradient) & (gradient == 0)).any()
    assert set(drawn(Role.GRADIENT, TensorProto.BFLOAT16, ONLY_WHOLE).reshape(-1)) == {-1.0, 0.0, 1.0}


def test_equal_bits() -> None:
    one = np.array([1.0, -0.0, np.nan], np.float32)
    assert compare(one, one.copy(), run=0, output="y") is None
    assert compare(one, np.array([1.0, -0.0, -np.nan], np.float32), run=0, output="y") is None


@pytest.mark.parametrize(
    ("found", "index", "ulp"),
    [
        ([1.0, 0.0, 2.0], (1,), 1),
        ([np.nextafter(np.float32(1), np.float32(2)), -0.0, 2.0], (0,), 1),
        ([1.0, -0.0, np.nan], (2,), None),
        ([1.0, -0.0, -2.0], (2,), 2 * int(np.float32(2).view(np.uint32)) + 1),
    ],
)
def test_other_bits(found: list[float], index: tuple[int, ...], ulp: int | None) -> None:
    mismatch = compare(np.array([1.0, -0.0, 2.0], np.float32), np.array(found, np.float32), run=4, output="y")
    assert mismatch is not None
    assert (mismatch.run, mismatch.output, mismatch.index, mismatch.max_ulp) == (4, "y", index, ulp)
    assert mismatch.what == "1 of 3 elements differ"


def test_other_type_or_shape() -> None:
    one = np.zeros(3, np.float32)
    for other, what in ((one.astype(np.float16), "the type is float16"), (one[:2], "the shape is (2,)")):
        mismatch = compare(one, other, run=0, output="y")
        assert mismatch is not None
        assert mismatch.what.startswith(what)


def gradient(op_type: str, **attributes: Any) -> FlatNode:
    node = onnx.helper.make_node(op_type, ["x", "g", "a"], ["y"], domain="npu", **attributes)
    return FlatNode(node, "main", b"", ("x", "g", "a"), (), ("y",))


@pytest.mark.parametrize("seed", range(60))
def test_a_promise_is_kept_where_the_definition_says_so(seed: int) -> None:
    """Each window's elements by the oracle; positions in it are taken, the next ones are not."""
    random = np.random.default_rng(seed)
    size, kernel, stride, dilation = (int(random.integers(*span)) for span in ((4, 12), (1, 4), (1, 4), (1, 3)))
    pad, ceil_mode = int(random.integers(0, kernel // 2 + 1)), bool(random.integers(0, 2))
    windows = pool_windows(size, kernel, stride, pad, dilation, ceil_mode=ceil_mode)
    if not windows or not all(windows):
        return
    node = gradient(
        "MaxPool3DGradWithArgmax",
        ksize=[1, 1, kernel],
        strides=[1, 1, stride],
        pads=[0, 0, pad],
        dilation=[1, 1, dilation],
        ceil_mode=int(ceil_mode),
    )
    x, grad = np.zeros((1, 1, size), np.float32), np.zeros((1, 1, len(windows)), np.float32)
    chosen = np.array([[[random.choice(window) for window in windows]]], np.int32)
    assert check_gradient_contract(node, [x, grad, chosen]) is None
    for place, window in enumerate(windows):
        for position in set(range(-1, size + 1)) - set(window):
            other = chosen.copy()
            other[0, 0, place] = position
            assert f"argmax at [0, 0, {place}] is {position}" in str(check_gradient_contract(node, [x, grad, other]))


def test_adaptive_promises() -> None:
    node = gradient("AdaptiveMaxPool3DGrad")
    windows = adaptive_windows(7, 3)
    x, grad = np.zeros((1, 1, 7), np.float32), np.zeros((1, 1, 3), np.float32)
    assert check_gradient_contract(node, [x, grad, np.array([[[window[-1] for window in windows]]])]) is None
    assert "outside" in str(check_gradient_contract(node, [x, grad, np.array([[[3, 2, 4]]])]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grad": np.zeros((1, 1, 2, 2), np.float32)}, "grad has shape"),
        ({"grad": np.zeros((1, 1, 3, 3), np.float16)}, "grad has type float16"),
        ({"argmax": np.zeros((1, 1, 3, 3), np.int64)}, "not Ascend's type number 3"),
        ({"ksize": [3, 3]}, "give (2, 2) windows"),
        ({"pads": [2, 0]}, "more than half of kernel"),
        ({"ksize": [9, 9]}, "do not fit x"),
        ({"strides": [0, 2]}, "do not fit x"),
        ({"ksize": [2]}, "do not fit x"),
    ],
)
def test_broken_promises(changes: dict[str, Any], message: str) -> None:
    x = np.zeros((1, 1, 6, 6), np.float32)
    _, argmax = max_pool(x, [2, 2], [2, 2], [1, 1], ([0, 0], [0, 0]))
    operands = {"x": x, "grad": np.zeros(argmax.shape, np.float32), "argmax": argmax.astype(np.int32)}
    attributes = {"ksize": [2, 2], "strides": [2, 2], "pads": [0, 0], "dilation": [1, 1], "ceil_mode": 0, "dtype": 3}
    good = gradient("MaxPoolGradWithArgmaxV3", **attributes)
    assert check_gradient_contract(good, list(operands.values())) is None
    operands.update((name, held) for name, held in changes.items() if name in operands)
    attributes.update((name, held) for name, held in changes.items() if name in attributes)
    wrong = check_gradient_contract(gradient("MaxPoolGradWithArgmaxV3", **attributes), list(operands.values()))
    assert message in str(wrong)


def test_an_axis_that_x_lacks() -> None:
    node = gradient("MaxPool3DGradWithArgmax", ksize=[1, 1, 2], strides=[1, 1, 2], pads=[0, 0, 0], dilation=[1, 1, 1])
    x, grad = np.zeros((1, 1, 4), np.float32), np.zeros((1, 1, 2), np.float32)
    assert check_gradient_contract(node, [x, grad, np.array([[[1, 2]]])]) is None
    assert "it has 2 inputs instead of x, grad and argmax" in str(check_gradient_contract(node, [x, grad]))


def test_a_pool_names_the_type_of_its_argmax() -> None:
    """Without it nothing says what Ascend's pool returns."""
    windows = {"ksize": [1, 1, 2], "strides": [1, 1, 2], "pads": [0, 0, 0], "dilation": [1, 1, 1]}
    x, argmax = np.zeros((1, 1, 4), np.float32), np.array([[[1, 2]]], np.int32)
    assert check_pool_contract(gradient("MaxPool3DWithArgmaxV2", **windows), x, argmax) == (
        "argmax has type int32, which is not Ascend's type number 0"
    )


def test_texts_are_compared() -> None:
    one = np.array(["a", "b"], object)
    assert compare(one, one.copy(), run=0, output="y") is None
    mismatch = compare(one, np.array(["a", "c"], object), run=0, output="y")
    assert mismatch is not None
    assert (mismatch.index, mismatch.expected, mismatch.found) == ((1,), "b", "c")
    assert [relative_error(one, other, one) for other in (one.copy(), one[::-1])] == [0.0, np.inf]
