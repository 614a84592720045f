# SPDX-License-Identifier: Apache-2.0

"""libaclnn_host phase 2 of the pools: values and indices against the definition and against torch, bit for bit."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.oracles import adaptive_windows, ascend_pool, assert_same_bits, pool_windows
from tests.runtime.aclnn_ctypes import (
    ADAPTIVE_FORWARD_2D,
    ADAPTIVE_FORWARD_3D,
    FORWARD_2D,
    FORWARD_3D,
    ND,
    NDHWC,
    NHWC,
    Aclnn,
    Forward,
    bfloat16,
)
from tests.runtime.strict_device import StrictDevice

Array = npt.NDArray[Any]
AXES = {FORWARD_3D: 3, FORWARD_2D: 2, ADAPTIVE_FORWARD_2D: 2, ADAPTIVE_FORWARD_3D: 3}
VALUES = [np.dtype(np.float32), np.dtype(np.float16), bfloat16]
INDICES = [np.dtype(np.int32), np.dtype(np.int64)]

# kernel, stride, padding and dilation along H and W, and ceil_mode
WINDOWS = [
    ([2, 2], [2, 2], [0, 0], [1, 1], False),
    ([3, 3], [2, 2], [1, 1], [1, 1], False),
    ([3, 2], [1, 2], [1, 0], [1, 1], False),
    ([5, 3], [2, 3], [2, 1], [1, 2], True),
    ([3, 3], [2, 2], [1, 1], [2, 3], True),
    ([2, 2], [3, 3], [1, 1], [1, 1], True),
    ([2, 5], [4, 1], [0, 2], [1, 1], True),
    ([1, 1], [1, 1], [0, 0], [1, 1], False),
]
SIZES = [(7, 7), (12, 11), (9, 14)]


Either = Aclnn | StrictDevice


def values_with_ties(shape: Sequence[int], dtype: np.dtype[Any], seed: int = 0) -> Array:
    """Few distinct values, zeros of both signs, infinities and NaN among them; some windows are all -inf."""
    rng = np.random.default_rng(seed)
    values = np.array([-1.5, -0.0, 0.0, 1.0, 2.0, np.inf, -np.inf, np.nan])
    drawn = rng.choice(values, shape, p=[0.2, 0.15, 0.15, 0.2, 0.1, 0.02, 0.15, 0.03])
    drawn[..., -3:] = -np.inf
    return drawn.astype(dtype)


def pooled(
    either: Either, api: str, x: Array, y_shape: Sequence[int], index_type: npt.DTypeLike, **lists: Any
) -> tuple[Array, Array]:
    """Run both phases on outputs full of a value that must not survive."""
    y, indices = np.full(y_shape, 7, x.dtype), np.full(y_shape, -7, index_type)
    assert either.run(api, Forward.of(x, y, indices, **lists)) == 0, either.message()
    return y, indices


@pytest.mark.parametrize("index_type", INDICES, ids=str)
@pytest.mark.parametrize("value_type", VALUES, ids=str)
@pytest.mark.parametrize("api", [FORWARD_2D, FORWARD_3D])
def test_windows(either: Either, api: str, value_type: np.dtype[Any], index_type: np.dtype[Any]) -> None:
    for number, ((*along_plane, ceil_mode), size) in enumerate(itertools.product(WINDOWS, SIZES)):
        spatial = size if api == FORWARD_2D else (8, *size)
        lists = along_plane if api == FORWARD_2D else [[values[1], *values] for values in along_plane]
        x = values_with_ties((2, 3, *spatial), value_type, number)
        windows = [pool_windows(*axis, ceil_mode=ceil_mode) for axis in zip(spatial, *lists, strict=True)]
        expected, argmax = ascend_pool(x, windows)
        named = dict(zip(("kernel_size", "stride", "padding", "dilation"), lists, strict=True))
        y, indices = pooled(either, api, x, expected.shape, index_type, ceil_mode=ceil_mode, **named)
        assert_same_bits(y, expected)
        assert_same_bits(indices, argmax.astype(index_type))


@pytest.mark.parametrize("index_type", INDICES, ids=str)
@pytest.mark.parametrize("value_type", VALUES, ids=str)
@pytest.mark.parametrize("out", [(4, 3, 9), (5, 7, 3), (1, 1, 1), (7, 10, 13)])
def test_adaptive_windows(
    either: Either, out: tuple[int, ...], value_type: np.dtype[Any], index_type: np.dtype[Any]
) -> None:
    for api, axes in ((ADAPTIVE_FORWARD_2D, 2), (ADAPTIVE_FORWARD_3D, 3)):
        x = values_with_ties((2, 3, 5, 7, 9)[: axes + 2], value_type)
        windows = [adaptive_windows(*axis) for axis in zip(x.shape[2:], out[:axes], strict=True)]
        expected, argmax = ascend_pool(x, windows)
        given = index_type if api == ADAPTIVE_FORWARD_3D else np.dtype(np.int64)
        y, indices = pooled(either, api, x, expected.shape, given, output_size=out[:axes])
        assert_same_bits(y, expected)
        assert_same_bits(indices, argmax.astype(given))


@pytest.mark.parametrize("api", AXES)
def test_without_batch(either: Either, api: str) -> None:
    axes = AXES[api]
    x = values_with_ties((3, *(6,) * axes), np.dtype(np.float32))
    expected, argmax = ascend_pool(x[None], [pool_windows(6, 2, 2, 0, 1, ceil_mode=False)] * axes)
    y, indices = pooled(either, api, x, expected.shape[1:], np.int64, kernel_size=[2], output_size=[3] * axes)
    assert_same_bits(y, expected[0])
    assert_same_bits(indices, argmax[0])


def test_short_output_sizes(either: Either) -> None:
    """On Ascend950 one value applies to all axes, and an empty list keeps the sizes."""
    x = values_with_ties((1, 2, 4, 5, 6), np.dtype(np.float32))
    for output_size, out in (([3], (3, 3, 3)), ([], (4, 5, 6))):
        expected, argmax = ascend_pool(x, [adaptive_windows(*axis) for axis in zip((4, 5, 6), out, strict=True)])
        y, indices = pooled(either, ADAPTIVE_FORWARD_3D, x, expected.shape, np.int64, output_size=output_size)
        assert_same_bits(y, expected)
        assert_same_bits(indices, argmax)


def test_views(either: Either) -> None:
    """Channels-last memory, reversed axes, gaps; bytes between the elements of the outputs do not change."""
    x = values_with_ties((2, 6, 8, 3), np.dtype(np.float16)).transpose(0, 3, 1, 2)[:, :, ::-1]
    expected, argmax = ascend_pool(x, [pool_windows(size, 2, 2, 0, 1, ceil_mode=False) for size in (6, 8)])
    canvas, places = np.full((2, 3, 5, 9), 7, np.float16), np.full((2, 3, 8, 3), -7, np.int32)
    y, indices = canvas[:, :, 1:4, ::2][..., :4], places.transpose(0, 3, 2, 1)[:, :, ::2, ::1].transpose(0, 1, 3, 2)
    call = Forward.of(x, y, indices, kernel_size=[2], format=ND)
    assert either.run(FORWARD_2D, call) == 0, either.message()
    assert_same_bits(np.ascontiguousarray(y), expected)
    assert_same_bits(np.ascontiguousarray(indices), argmax.astype(np.int32))
    assert (canvas[:, :, 0] == 7).all()
    assert (canvas[..., 1::2] == 7).all()
    assert (places[:, :, 1::2] == -7).all()


@pytest.mark.parametrize(("api", "format_"), [(FORWARD_2D, NHWC), (FORWARD_3D, NDHWC)])
def test_channels_last_format(either: Either, api: str, format_: int) -> None:
    spatial = (4, 6, 8)[-AXES[api] :]
    x = values_with_ties((2, 3, *spatial), np.dtype(np.float32))
    expected, argmax = ascend_pool(x, [pool_windows(size, 2, 2, 0, 1, ceil_mode=False) for size in spatial])
    last = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    y_shape = (2, *expected.shape[2:], 3)
    y, indices = np.full(y_shape, 7, np.float32), np.full(y_shape, -7, np.int64)
    assert either.run(api, Forward.of(last, y, indices, format=format_, kernel_size=[2])) == 0, either.message()
    assert_same_bits(np.ascontiguousarray(np.moveaxis(y, -1, 1)), expected)
    assert_same_bits(np.ascontiguousarray(np.moveaxis(indices, -1, 1)), argmax)


def test_all_cores(either: Either) -> None:
    x = np.random.default_rng(3).integers(-9, 9, (16, 16, 64, 64)).astype(np.float32)
    expected, argmax = ascend_pool(x, [pool_windows(64, 3, 2, 1, 1, ceil_mode=False)] * 2)
    y, indices = pooled(either, FORWARD_2D, x, expected.shape, np.int32, kernel_size=[3], stride=[2], padding=[1])
    assert_same_bits(y, expected)
    assert_same_bits(indices, argmax.astype(np.int32))


@pytest.mark.parametrize(
    ("api", "x_shape", "y_shape"),
    [
        (FORWARD_3D, (0, 2, 4, 4, 4), (0, 2, 2, 2, 2)),
        (FORWARD_3D, (1, 2, 4, 4, 4), (1, 2, 0, 2, 2)),
        (FORWARD_2D, (0, 2, 4, 4), (0, 2, 2, 2)),
        (ADAPTIVE_FORWARD_2D, (0, 2, 4, 4), (0, 2, 2, 2)),
        (ADAPTIVE_FORWARD_3D, (0, 2, 4, 4, 4), (0, 2, 2, 2, 2)),
    ],
)
def test_empty(either: Either, api: str, x_shape: tuple[int, ...], y_shape: tuple[int, ...]) -> None:
    x = np.zeros(x_shape, np.float32)
    output_size = [2] * AXES[api]
    y, indices = pooled(either, api, x, y_shape, np.int64, kernel_size=[2], output_size=output_size)
    assert (y == 7).all()
    assert (indices == -7).all()


# -- what fails in phase 2


def example() -> tuple[Forward, Array, Array]:
    """A call that succeeds, and its outputs."""
    x = np.ones((2, 3, 6, 8), np.float32)
    y, indices = np.full((2, 3, 3, 4), 7, np.float32), np.full((2, 3, 3, 4), -7, np.int64)
    return Forward.of(x, y, indices, kernel_size=[2], output_size=[3, 4]), y, indices


@pytest.mark.parametrize("name", ["self_", "out", "indices"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"address": None}, "address is null"),
        ({"offset": 1}, "outside of its storage"),
        ({"strides": (10**9, 48, 8, 1)}, "outside of its storage"),
    ],
)
def test_memory_that_may_not_be_touched(either: Either, name: str, change: dict[str, Any], message: str) -> None:
    call, y, indices = example()
    changed = dataclasses.replace(getattr(call, name), **change)
    assert either.run(FORWARD_2D, dataclasses.replace(call, **{name: changed})) == 507015
    text = either.message() or ""
    assert message in text
    assert name.rstrip("_") in text
    assert (y == 7).all()
    assert (indices == -7).all()


@pytest.mark.parametrize("name", ["out", "indices"])
def test_outputs_whose_elements_share_memory(either: Either, name: str) -> None:
    call, *_ = example()
    shared = dataclasses.replace(getattr(call, name), strides=(0, 0, 0, 0))
    assert either.run(FORWARD_2D, dataclasses.replace(call, **{name: shared})) == 507015
    assert "share memory" in (either.message() or "")


def test_window_without_an_element(either: Either) -> None:
    x, y = np.zeros((1, 1, 1, 4), np.float32), np.zeros((1, 1, 1, 4), np.float32)
    call = Forward.of(x, y, y.astype(np.int64), kernel_size=[2, 1], stride=[1], padding=[1, 0], dilation=[2, 1])
    assert either.run(FORWARD_2D, call) == 507015
    assert "lies in the padding altogether" in (either.message() or "")


def test_dilation_that_ascend950_does_not_check(either: Either) -> None:
    x, y = np.zeros((1, 1, 4, 4, 4), np.float32), np.zeros((1, 1, 2, 2, 2), np.float32)
    call = Forward.of(x, y, y.astype(np.int64), kernel_size=[3], stride=[2], dilation=[0])
    assert either.run(FORWARD_3D, call) == 507015
    assert "dilation holds 0" in (either.message() or "")


def test_no_kernel_for_double(either: Either) -> None:
    x, y = np.zeros((1, 1, 4, 4)), np.zeros((1, 1, 2, 2))
    call = Forward.of(x, y, y.astype(np.int64), output_size=[2, 2])
    assert either.run(ADAPTIVE_FORWARD_2D, call) == 561003
    assert "no kernel for DOUBLE" in (either.message() or "")
