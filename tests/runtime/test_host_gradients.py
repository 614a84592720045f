# SPDX-License-Identifier: Apache-2.0

"""libaclnn_host phase 2: gradients against the definition and against torch, bit for bit."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.oracles import adaptive_windows, ascend_pool, assert_same_bits, pool_gradient
from tests.runtime.aclnn_ctypes import (
    ADAPTIVE_2D,
    ADAPTIVE_3D,
    NHWC,
    POOL_2D,
    POOL_3D,
    Aclnn,
    Backward,
    Tensor,
    bfloat16,
)
from tests.runtime.strict_device import StrictDevice

Array = npt.NDArray[Any]
AXES = {POOL_3D: 3, POOL_2D: 2, ADAPTIVE_2D: 2, ADAPTIVE_3D: 3}
VALUES = [np.dtype(np.float32), np.dtype(np.float16), bfloat16]
INDICES = [np.dtype(np.int32), np.dtype(np.int64)]


Either = Aclnn | StrictDevice


def expected_gradient(x_shape: Sequence[int], axes: int, grad: Array, indices: Array) -> Array:
    """Apply the definition, which uses positions in the whole tensor, to plane-local indices."""
    plane = int(np.prod(x_shape[-axes:], dtype=np.int64))
    planes = np.arange(int(np.prod(x_shape[:-axes], dtype=np.int64))).reshape(*x_shape[:-axes], *[1] * axes)
    expected: Array = pool_gradient(x_shape, np.ascontiguousarray(grad), planes * plane + indices)
    return expected


def gradient(aclnn: Either, api: str, x: Array, grad: Array, indices: Array, **windows: Any) -> Array:
    """Run both phases on a gradInput full of a value that must not survive."""
    result = np.full_like(x, 7, order="C")
    call = Backward.of(grad, x, indices, result, **windows)
    assert aclnn.run(api, call) == 0, aclnn.message()
    return result


def special_values(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return values of many magnitudes, with zeros of both signs, infinities, NaN and subnormals among them."""
    values = rng.standard_normal(shape) * 2.0 ** rng.integers(-30, 15, shape)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 6e-8, 65504.0, 2.0**-14])
    return np.where(rng.random(shape) < 0.1, rng.choice(special, shape), values).astype(dtype)


@pytest.mark.parametrize("index_type", INDICES, ids=str)
@pytest.mark.parametrize("value_type", VALUES, ids=str)
@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("api", AXES)
def test_definition(
    aclnn: Aclnn, api: str, batched: bool, value_type: np.dtype[Any], index_type: np.dtype[Any]
) -> None:
    axes = AXES[api]
    rng = np.random.default_rng(len(api) + batched)
    lead = (2, 3) if batched else (3,)
    x_shape, y_shape = lead + (7, 9, 5)[-axes:], lead + (3, 4, 2)[-axes:]
    plane = int(np.prod(x_shape[-axes:]))
    for most in (plane, 3):  # all over the plane; many gradients to few elements
        indices = rng.integers(0, most, y_shape).astype(index_type)
        grad = special_values(rng, y_shape, value_type)
        with np.errstate(over="ignore", invalid="ignore"):
            expected = expected_gradient(x_shape, axes, grad, indices)
        windows = {} if "Adaptive" in api else {"kernel_size": [2], "stride": [2]}
        assert_same_bits(gradient(aclnn, api, np.zeros(x_shape, value_type), grad, indices, **windows), expected)


@pytest.mark.parametrize("value_type", VALUES, ids=str)
@pytest.mark.parametrize(("x_size", "y_size"), [((2, 3, 5), (5, 7, 5)), ((1, 1, 1), (3, 1, 4)), ((4, 6, 2), (2, 9, 3))])
@pytest.mark.parametrize("api", [ADAPTIVE_2D, ADAPTIVE_3D])
def test_adaptive_output_larger_than_the_input(
    either: Either, api: str, x_size: Sequence[int], y_size: Sequence[int], value_type: np.dtype[Any]
) -> None:
    """Windows share elements then. The gradients are small integers."""
    axes, rng = AXES[api], np.random.default_rng(6)
    x = rng.integers(-3, 4, (2, 3, *x_size[-axes:])).astype(value_type)
    windows = [adaptive_windows(*axis) for axis in zip(x_size[-axes:], y_size[-axes:], strict=True)]
    _, argmax = ascend_pool(x, windows)
    grad = rng.integers(-8, 9, argmax.shape).astype(value_type)
    expected = expected_gradient(x.shape, axes, grad, argmax)
    assert_same_bits(gradient(either, api, x, grad, argmax.astype(np.int32)), expected)


def test_sums_are_float_and_in_order(aclnn: Aclnn) -> None:
    """float16 sums of 2048 and ones would stick at 2048; float sums of 2^24, one and minus 2^24 depend on the order."""
    x = np.zeros((1, 1, 1, 4), np.float16)
    indices = np.zeros((1, 1, 1, 4), np.int32)
    grad = np.array([[[[2048, 1, 1, 1]]]], np.float16)
    assert gradient(aclnn, ADAPTIVE_2D, x, grad, indices)[0, 0, 0, 0] == 2052  # 2051, ties to even
    x32 = x.astype(np.float32)
    forward = np.array([[[[2**24, 1, 1, -(2**24)]]]], np.float32)
    assert gradient(aclnn, ADAPTIVE_2D, x32, forward, indices)[0, 0, 0, 0] == 0
    assert gradient(aclnn, ADAPTIVE_2D, x32, np.roll(forward, 1, -1), indices)[0, 0, 0, 0] == 2


def test_negative_zero_becomes_zero(aclnn: Aclnn) -> None:
    grad = np.full((1, 1, 1, 2), -0.0, np.float32)
    result = gradient(aclnn, ADAPTIVE_2D, np.zeros((1, 1, 1, 2), np.float32), grad, np.array([[[[0, 1]]]], np.int32))
    assert_same_bits(result, np.zeros((1, 1, 1, 2), np.float32))


@pytest.mark.parametrize("value_type", VALUES, ids=str)
def test_views(aclnn: Aclnn, value_type: np.dtype[Any]) -> None:
    """Channels-last memory, an offset with gaps, reversed axes, one gradient expanded over all positions."""
    rng = np.random.default_rng(1)
    n, c, h, w = 2, 3, 6, 8
    canvas = np.full((n, h + 2, w + 3, c + 1), 7, value_type)
    result = canvas[:, 1:-1, 2:-1, :c].transpose(0, 3, 1, 2)
    indices = rng.integers(0, h * w, (n, h // 2, w // 2, 2 * c)).astype(np.int32)[..., ::2].transpose(0, 3, 1, 2)
    indices = indices[:, :, ::-1, ::-1]
    one = rng.standard_normal((n, c, 1, 1)).astype(value_type)
    expanded = dataclasses.replace(Tensor.of(one), dims=indices.shape, strides=(c, 1, 0, 0))
    x = Tensor(result.shape, value_type)
    call = Backward(expanded, x, Tensor.of(indices), Tensor.of(result), kernel_size=[2])
    assert aclnn.run(POOL_2D, call) == 0, aclnn.message()
    grad = np.broadcast_to(one, indices.shape)
    assert_same_bits(np.ascontiguousarray(result), expected_gradient(result.shape, 2, grad, indices))
    mask = np.ones(canvas.shape, bool)
    mask[:, 1:-1, 2:-1, :c] = False
    assert (canvas[mask] == 7).all()


def test_channels_last_format(aclnn: Aclnn) -> None:
    """On Ascend950 an NHWC tensor has its channels last; indices number the same plane."""
    rng = np.random.default_rng(2)
    grad, indices = rng.standard_normal((2, 3, 4, 5), np.float32), rng.integers(0, 8 * 10, (2, 3, 4, 5), np.int32)
    result = np.full((2, 8, 10, 3), 7, np.float32)
    given = [np.ascontiguousarray(array.transpose(0, 2, 3, 1)) for array in (grad, indices)]
    call = Backward.of(given[0], result, given[1], result, format=NHWC, kernel_size=[2])
    assert aclnn.run(POOL_2D, call) == 0, aclnn.message()
    assert_same_bits(
        np.ascontiguousarray(result.transpose(0, 3, 1, 2)), expected_gradient((2, 3, 8, 10), 2, grad, indices)
    )


@pytest.mark.parametrize("value_type", VALUES, ids=str)
def test_all_cores(aclnn: Aclnn, value_type: np.dtype[Any]) -> None:
    rng = np.random.default_rng(3)
    x = np.zeros((5, 7, 128, 128), value_type)
    grad = rng.standard_normal((5, 7, 64, 64), np.float32).astype(value_type)
    indices = rng.integers(0, 128 * 128, grad.shape, np.int32)
    assert_same_bits(
        gradient(aclnn, POOL_2D, x, grad, indices, kernel_size=[2]), expected_gradient(x.shape, 2, grad, indices)
    )


@pytest.mark.parametrize(
    ("api", "x_shape", "y_shape"),
    [
        (POOL_3D, (0, 2, 4, 4, 4), (0, 2, 2, 2, 2)),
        (POOL_3D, (1, 2, 4, 4, 4), (1, 2, 0, 2, 2)),
        (POOL_2D, (0, 2, 4, 4), (0, 2, 2, 2)),
        (ADAPTIVE_2D, (2, 2, 4, 4), (2, 2, 0, 0)),
        (ADAPTIVE_3D, (2, 0, 4, 4, 4), (2, 0, 1, 1, 1)),
    ],
)
def test_empty_leaves_grad_input_as_it_is(
    either: Either, api: str, x_shape: tuple[int, ...], y_shape: tuple[int, ...]
) -> None:
    grad, indices = np.zeros(y_shape, np.float32), np.zeros(y_shape, np.int32)
    result = gradient(either, api, np.zeros(x_shape, np.float32), grad, indices, kernel_size=[2], stride=[2])
    assert (result == 7).all()


@pytest.mark.parametrize("axes", [2, 3])
def test_torch_sums_in_the_order_of_deterministic_calls(either: Either, axes: int) -> None:
    torch = pytest.importorskip("torch")
    forward = {2: torch.nn.functional.max_pool2d, 3: torch.nn.functional.max_pool3d}[axes]
    x = torch.randn((2, 3, 9, 9, 9)[: axes + 2], generator=torch.Generator().manual_seed(1)).requires_grad_(True)
    y, indices = forward(x, 3, 1, return_indices=True)
    grad = torch.randn(y.shape, generator=torch.Generator().manual_seed(2))
    y.backward(grad)
    api = {2: POOL_2D, 3: POOL_3D}[axes]
    assert either.c.aclrtCtxSetSysParamOpt(0, 1) == 0
    actual = gradient(either, api, x.detach().numpy(), grad.numpy(), indices.numpy(), kernel_size=[3], stride=[1])
    assert x.grad is not None
    assert_same_bits(actual, x.grad.numpy())
