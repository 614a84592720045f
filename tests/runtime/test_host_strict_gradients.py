# SPDX-License-Identifier: Apache-2.0

"""libaclnn_host, strict: gradients with the bits of the products' kernels.

The lenient library, which is held against the definition elsewhere, says what is expected; it is asked with what the
strict library should have made of the call.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from tests.oracles import adaptive_windows, ascend_pool, assert_same_bits, pool_windows
from tests.runtime.aclnn_ctypes import (
    ADAPTIVE_2D,
    ADAPTIVE_3D,
    POOL_2D,
    POOL_3D,
    WINDOWED,
    Aclnn,
    Array,
    Backward,
    bfloat16,
    current_device,
)
from tests.runtime.strict_device import StrictDevice, strict_device

A950, A2, A3 = "Ascend950PR_9599", "Ascend910B1", "Ascend910_9391"
VALUES = {"float32": np.dtype(np.float32), "float16": np.dtype(np.float16), "bfloat16": bfloat16}


@dataclasses.dataclass(frozen=True)
class Pool:
    """A pool of planes; `kernel` is empty for an adaptive one."""

    api: str
    size: tuple[int, ...]
    out: tuple[int, ...] = ()
    kernel: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    dilation: int = 1
    ceil_mode: bool = False
    overlaps: bool = True

    def windows(self) -> list[list[list[int]]]:
        if not self.kernel:
            return [adaptive_windows(*axis) for axis in zip(self.size, self.out, strict=True)]
        axes = zip(self.size, self.kernel, self.stride, self.padding, strict=True)
        return [pool_windows(*axis, self.dilation, ceil_mode=self.ceil_mode) for axis in axes]

    def call(self, grad: Array, x: Array, indices: Array, result: Array) -> Backward:
        arguments: dict[str, Any] = {"kernel_size": self.kernel, "stride": self.stride, "padding": self.padding}
        arguments["dilation"] = [self.dilation]
        if not self.kernel:
            arguments = {}
        return Backward.of(grad, x, indices, result, ceil_mode=self.ceil_mode, **arguments)


POOLS = {
    "2d": Pool(POOL_2D, (9, 11), kernel=(3, 3), stride=(2, 1), padding=(1, 0)),
    "2d-apart": Pool(POOL_2D, (8, 9), kernel=(2, 3), stride=(2, 3), padding=(0, 0), overlaps=False),
    "3d": Pool(POOL_3D, (5, 6, 7), kernel=(2, 3, 2), stride=(1, 2, 2), padding=(1, 1, 0), ceil_mode=True),
    "3d-apart": Pool(POOL_3D, (4, 6, 8), kernel=(2, 2, 2), stride=(2, 3, 2), padding=(0, 0, 0), overlaps=False),
    "adaptive2d": Pool(ADAPTIVE_2D, (10, 7), out=(4, 3)),
    "adaptive2d-apart": Pool(ADAPTIVE_2D, (10, 9), out=(5, 3), overlaps=False),
    "adaptive2d-larger": Pool(ADAPTIVE_2D, (3, 5), out=(7, 8)),
    "adaptive3d": Pool(ADAPTIVE_3D, (5, 7, 9), out=(3, 4, 5)),
}


def operands(pool: Pool, dtype: np.dtype[Any]) -> tuple[Array, Array, Array]:
    """Return x with few distinct values, its argmax, and gradients whose sums round."""
    rng = np.random.default_rng(7)
    x = rng.integers(-2, 3, (2, 3, *pool.size)).astype(dtype)
    _, argmax = ascend_pool(x, pool.windows())
    return x, argmax.astype(np.int32), rng.standard_normal(argmax.shape).astype(dtype)


def gradient(device: Aclnn | StrictDevice, pool: Pool, x: Array, grad: Array, indices: Array) -> Array:
    result = np.full_like(x, 7)
    assert device.run(pool.api, pool.call(grad, x, indices, result)) == 0, device.message()
    return result


def reversed_planes(array: Array) -> Array:
    """Return the elements of each plane from the last to the first."""
    backwards: Any = (..., *[slice(None, None, -1)] * (array.ndim - 2))
    return np.ascontiguousarray(array[backwards])


@pytest.mark.parametrize("deterministic", [0, 1])
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("soc", [A950, A2, A3])
@pytest.mark.parametrize("name", POOLS)
def test_order_of_the_sums(name: str, soc: str, values: str, deterministic: int) -> None:
    """In deterministic calls the order of the lenient library: that of the product's kernel, which is row-major but for
    windows of a fixed size on Atlas A2 and A3. Otherwise no product promises an order, and the reverse is used.
    """
    pool, dtype = POOLS[name], VALUES[values]
    if pool.api == POOL_2D and soc != A950 and values != "float32":
        pytest.skip("Atlas A2 and A3 have no such gradient")
    x, indices, grad = operands(pool, dtype)
    unordered = pool.overlaps and not deterministic
    with strict_device(soc) as device:
        device.check(device.c.aclrtCtxSetSysParamOpt(0, deterministic))
        actual = gradient(device, pool, x, grad, indices)
    with current_device(soc) as aclnn:
        of_product = gradient(aclnn, pool, x, grad, indices)
    with current_device() as aclnn:
        in_order = gradient(aclnn, pool, x, grad, indices)
        other_order = gradient(aclnn, pool, x, reversed_planes(grad), reversed_planes(indices))
    is_reversed = soc != A950 and pool.api in WINDOWED
    assert_same_bits(of_product, other_order if is_reversed else in_order)
    assert_same_bits(actual, other_order if unordered != is_reversed else in_order)
    if pool.overlaps and values == "float32":
        assert in_order.tobytes() != other_order.tobytes()


@pytest.mark.parametrize(
    ("pool", "is_reversed"),
    [
        (Pool(POOL_2D, (24, 24), kernel=(14, 15), stride=(1, 1), padding=(0, 0)), True),
        (Pool(POOL_2D, (24, 24), kernel=(15, 15), stride=(1, 1), padding=(0, 0)), False),
        (Pool(POOL_3D, (3, 24, 24), kernel=(2, 7, 15), stride=(1, 1, 1), padding=(0, 0, 0)), True),
        (Pool(POOL_3D, (1, 9, 11), kernel=(1, 3, 3), stride=(1, 2, 1), padding=(0, 1, 0)), True),
        (Pool(POOL_3D, (1, 9, 11), kernel=(1, 3, 3), stride=(1, 2, 1), padding=(0, 1, 0), dilation=2), False),
    ],
)
def test_atlas_a2_adds_large_windows_and_those_with_gaps_in_row_major_order(pool: Pool, is_reversed: bool) -> None:
    x, indices, grad = operands(pool, VALUES["float32"])
    with current_device(A2) as aclnn:
        of_product = gradient(aclnn, pool, x, grad, indices)
    with current_device() as aclnn:
        in_order = gradient(aclnn, pool, x, grad, indices)
        other_order = gradient(aclnn, pool, x, reversed_planes(grad), reversed_planes(indices))
    assert_same_bits(of_product, other_order if is_reversed else in_order)
    assert in_order.tobytes() != other_order.tobytes()


@pytest.mark.parametrize("name", POOLS)
def test_index_outside_of_its_window(aclnn: Aclnn, name: str) -> None:
    """Its gradient is left out. The plane's first element is in the first window only, or in few."""
    pool = POOLS[name]
    x, indices, grad = operands(pool, VALUES["float32"])
    indices[:, :, ..., -1] = 0
    left_out = grad.copy()
    left_out[:, :, ..., -1] = 0
    with strict_device() as device:
        device.check(device.c.aclrtCtxSetSysParamOpt(0, 1))
        actual = gradient(device, pool, x, grad, indices)
    assert_same_bits(actual, gradient(aclnn, pool, x, left_out, indices))


@pytest.mark.parametrize("bad", [-1, None])
@pytest.mark.parametrize("name", POOLS)
def test_index_outside_of_its_plane(name: str, bad: int | None) -> None:
    pool = POOLS[name]
    x, indices, grad = operands(pool, VALUES["float32"])
    indices[1, 2].flat[3] = int(np.prod(pool.size)) if bad is None else bad
    with strict_device() as device:
        assert device.run(pool.api, pool.call(grad, x, indices, x)) == 507015
        assert f"indices is {indices[1, 2].flat[3]} at " in (device.message() or "")


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize(("soc", "copies"), [(A950, True), (A2, False)])
def test_windows_of_one_element(soc: str, copies: bool, values: str) -> None:
    """Ascend950 copies gradOutput: -0.0 stays, and indices are not read, even if they are out of range."""
    if not copies and values != "float32":
        pytest.skip("Atlas A2 and A3 have no such gradient")
    grad = np.array([[[[1.5, -0.0], [0.25, -3]]]], VALUES[values])
    result = np.full((1, 1, 2, 2, 2), 7, VALUES[values])[..., 0]
    indices = np.array([[[[0, 1], [2, 99 if copies else 3]]]], np.int32)
    one = (1, 1)
    call = Backward.of(grad, grad, indices, result, kernel_size=one, stride=one)
    with strict_device(soc) as device:
        assert device.run(POOL_2D, call) == 0, device.message()
    assert_same_bits(np.ascontiguousarray(result), grad if copies else grad + VALUES[values].type(0))


def test_views(aclnn: Aclnn) -> None:
    """Strided operands at offsets, poisoned and written in their elements only. Sums of small integers are exact."""
    pool = POOLS["2d"]
    x, indices, grad = operands(pool, VALUES["float32"])
    grad = np.rint(8 * grad)
    canvas = np.full((2, 11, 14, 4), 7, np.float32)
    result = canvas[:, 1:-1, 2:-1, :3].transpose(0, 3, 1, 2)
    apart = np.zeros((*indices.shape, 2), np.int32)
    apart[..., 1] = indices
    with strict_device() as device:
        call = pool.call(grad[..., ::-1][..., ::-1], x, apart[..., 1], result)
        assert device.run(pool.api, call) == 0, device.message()
    assert_same_bits(np.ascontiguousarray(result), gradient(aclnn, pool, x, grad, indices))
    mask = np.ones(canvas.shape, bool)
    mask[:, 1:-1, 2:-1, :3] = False
    assert (canvas[mask] == 7).all()
