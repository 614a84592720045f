# SPDX-License-Identifier: Apache-2.0

"""libaclnn_host: with every instruction set, kernels give the bits of the definition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.harness.sessions.ep_process import run_python
from tests.oracles import adaptive_windows, ascend_pool, assert_same_bits, pool_gradient, pool_windows
from tests.runtime.aclnn_ctypes import (
    ADAPTIVE_2D,
    ADAPTIVE_FORWARD_3D,
    FORWARD_3D,
    POOL_3D,
    Aclnn,
    Backward,
    Forward,
    bfloat16,
    current_device,
    library,
)

Array = npt.NDArray[Any]
VALUES = [np.dtype(np.float32), np.dtype(np.float16), bfloat16]
VECTORS = ["scalar", "portable", "avx2", "avx512"]
INVALID, FAULT = 100000, 507015


@pytest.fixture(params=VECTORS)
def aclnn(request: pytest.FixtureRequest) -> Iterator[Aclnn]:
    with current_device() as chosen:
        if chosen.c.aclnnHostSetVectors(request.param.encode()) != 0:
            pytest.skip(f"this processor has no {request.param}")
        yield chosen
        assert chosen.c.aclnnHostSetVectors(b"") == 0


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Values of random bits, or few that tie; zeros of both signs, infinities and here and there NaN."""
    special = np.array([0.0, -0.0, np.inf, -np.inf, 1e-45, 6e-8, 1.0, np.nan])
    shares = np.array([3, 3, 1, 2, 1, 1, 1, rng.choice([0, 0.1])])
    few = rng.choice(special, shape, p=shares / shares.sum()).astype(dtype)
    if rng.random() < 0.5:
        return few
    bits = rng.integers(0, 2 ** (8 * dtype.itemsize), shape, dtype=f"u{dtype.itemsize}").view(dtype)
    return np.where(np.isnan(bits.astype(np.float32)) | (rng.random(shape) < 0.1), few, bits)


def pooled(
    aclnn: Aclnn, api: str, x: Array, out: tuple[int, ...], index_type: Any, **lists: Any
) -> tuple[Array, Array]:
    y, indices = np.full(out, 7, x.dtype), np.full(out, -7, index_type)
    assert aclnn.run(api, Forward.of(x, y, indices, **lists)) == 0, aclnn.message()
    return y, indices


@pytest.mark.parametrize("value_type", VALUES, ids=str)
def test_random_windows(aclnn: Aclnn, value_type: np.dtype[Any]) -> None:
    """Rows of up to three of the longest vectors; windows of every stride, cut at both ends."""
    rng = np.random.default_rng(0)
    for number in range(40):
        sizes = [int(rng.integers(1, most)) for most in (4, 20, 50)]
        kernel = [int(rng.integers(1, min(size, 6) + 1)) for size in sizes]
        stride, padding = rng.integers(1, 6, 3).tolist(), [int(rng.integers(0, k // 2 + 1)) for k in kernel]
        dilation = [int(rng.integers(1, 3)) if (k - 1) * 2 < size else 1 for k, size in zip(kernel, sizes, strict=True)]
        ceil = bool(rng.integers(2))
        along = zip(sizes, kernel, stride, padding, dilation, strict=True)
        windows = [pool_windows(*axis, ceil_mode=ceil) for axis in along]
        if not all(axis and all(axis) for axis in windows):
            continue
        x = drawn(rng, (2, 2, *sizes), value_type)
        expected, argmax = ascend_pool(x, windows)
        index_type = (np.int32, np.int64)[number % 2]
        lists = {"kernel_size": kernel, "stride": stride, "padding": padding, "dilation": dilation}
        y, indices = pooled(aclnn, FORWARD_3D, x, expected.shape, index_type, ceil_mode=ceil, **lists)
        assert_same_bits(indices, argmax.astype(index_type))
        assert_same_bits(y, expected)
        grad = drawn(rng, expected.shape, value_type)
        assert_gradient(aclnn, POOL_3D, grad, indices, x.shape, ceil_mode=ceil, **lists)


@pytest.mark.parametrize("value_type", VALUES, ids=str)
def test_random_adaptive_windows(aclnn: Aclnn, value_type: np.dtype[Any]) -> None:
    """Windows of unequal lengths, and the few long ones for which there are no vectors."""
    rng = np.random.default_rng(1)
    counts = [(2, 7, 7), (1, 1, 1), (3, 4, 31), (1, 2, 2), *(tuple(rng.integers(1, 20, 3).tolist()) for _ in range(5))]
    for out in counts:
        sizes = tuple(rng.integers(1, (4, 20, 700 if out[2] == 2 else 60)).tolist())
        x = drawn(rng, (1, 3, *sizes), value_type)
        expected, argmax = ascend_pool(x, [adaptive_windows(*axis) for axis in zip(sizes, out, strict=True)])
        y, indices = pooled(aclnn, ADAPTIVE_FORWARD_3D, x, expected.shape, np.int32, output_size=out)
        assert_same_bits(indices, argmax.astype(np.int32))
        assert_same_bits(y, expected)


def assert_gradient(aclnn: Aclnn, api: str, grad: Array, indices: Array, shape: tuple[int, ...], **lists: Any) -> None:
    """The gradient by indices in the planes of a tensor of `shape` is that of positions in the whole of it."""
    dx = np.full(shape, 7, grad.dtype)
    assert aclnn.run(api, Backward.of(grad, dx.copy(), indices, dx, **lists)) == 0, aclnn.message()
    planes = np.arange(shape[0] * shape[1]).reshape(*shape[:2], *[1] * (len(shape) - 2))
    with np.errstate(all="ignore"):
        assert_same_bits(dx, pool_gradient(shape, grad, planes * int(np.prod(shape[2:])) + indices))


@pytest.mark.parametrize("value_type", VALUES, ids=str)
def test_random_gradients(aclnn: Aclnn, value_type: np.dtype[Any]) -> None:
    rng = np.random.default_rng(2)
    for number in range(20):
        sizes = tuple(rng.integers(1, 40, 2).tolist())
        out = tuple(int(rng.integers(1, size + 1)) for size in sizes)
        grad = drawn(rng, (2, 3, *out), value_type)
        indices = rng.integers(0, sizes[0] * sizes[1], grad.shape).astype((np.int32, np.int64)[number % 2])
        assert_gradient(aclnn, ADAPTIVE_2D, grad, indices, (2, 3, *sizes))


@pytest.mark.parametrize("index_type", [np.int32, np.int64])
@pytest.mark.parametrize("value_type", VALUES, ids=str)
def test_gradients_of_every_length(aclnn: Aclnn, value_type: np.dtype[Any], index_type: Any) -> None:
    """Planes about as long as vectors, as blocks of positions, as what is prefetched; gradients that meet or do not."""
    rng = np.random.default_rng(3)
    for size in (*range(1, 52), *range(255, 259), *range(510, 514), *range(1022, 1027), 1300, 2600):
        for most in (size, min(size, 3)):
            grad = drawn(rng, (1, 3, 1, size), value_type)
            indices = rng.integers(size - most, size, grad.shape).astype(index_type)
            assert_gradient(aclnn, ADAPTIVE_2D, grad, indices, grad.shape)


@pytest.mark.parametrize("value_type", VALUES[1:], ids=str)
def test_rounding_of_sums_of_halves(aclnn: Aclnn, value_type: np.dtype[Any]) -> None:
    """Sums of two halves of random bits hit ties, subnormals, overflow; numpy and ml_dtypes round the expected."""
    pairs = np.random.default_rng(0).integers(0, 2**16, (1, 1, 2**17, 2), dtype=np.uint16).view(value_type)
    pairs[..., 1, :] = pairs[..., 0, :] * value_type.type(2.0**-11)
    indices = np.repeat(np.arange(2**17, dtype=np.int32), 2).reshape(pairs.shape)
    assert_gradient(aclnn, ADAPTIVE_2D, pairs, indices, pairs.shape)


@pytest.mark.parametrize("bad", [-1, 1300])
@pytest.mark.parametrize("index_type", [np.int32, np.int64])
@pytest.mark.parametrize("value_type", VALUES, ids=str)
def test_first_index_outside_of_its_plane(aclnn: Aclnn, value_type: np.dtype[Any], index_type: Any, bad: int) -> None:
    """At the bounds of blocks and between them; the plane has worse ones behind it."""
    for position in (0, 1, 3, 4, 255, 256, 257, 1023, 1024, 1279, 1280, 1299):
        grad = np.ones((1, 3, 1, 1300), value_type)
        indices = np.zeros(grad.shape, index_type)
        indices[0, 1, 0, position], indices[0, 1, 0, position + 1 :] = bad, -7
        call = Backward.of(grad, grad, indices, np.zeros_like(grad))
        assert aclnn.run(ADAPTIVE_2D, call) == FAULT
        assert f"indices is {bad} at (n, c, d, h, w) = [0, 1, 0, 0, {position}]" in (aclnn.message() or "")


@pytest.mark.parametrize("value_type", VALUES[1:], ids=str)
def test_every_half_is_its_own_maximum_and_gradient(aclnn: Aclnn, value_type: np.dtype[Any]) -> None:
    """All 65,536 of them through both conversions; a NaN keeps its payload, with the quiet bit set."""
    x = np.arange(2**16, dtype=np.uint16).view(value_type).reshape(1, 1, 1, 2**8, 2**8)
    quiet = np.where(np.isnan(x.astype(np.float32)), 0x40 if value_type == bfloat16 else 0x200, 0)
    y, indices = pooled(aclnn, FORWARD_3D, x, x.shape, np.int32)
    assert_same_bits(y.view(np.uint16), x.view(np.uint16) | quiet.astype(np.uint16))
    dx = np.full_like(x, 7)
    assert aclnn.run(POOL_3D, Backward.of(x, x, indices, dx)) == 0, aclnn.message()
    with np.errstate(invalid="ignore"):
        zeros = np.where(x == 0, value_type.type(0), x)
    assert_same_bits(dx.view(np.uint16), zeros.view(np.uint16) | quiet.astype(np.uint16))


def test_unknown_vectors() -> None:
    aclnn = library()
    assert aclnn.c.aclnnHostSetVectors(b"mmx") == INVALID
    assert 'no kernels here for vectors "mmx"' in (aclnn.message() or "")


ENVIRONMENT = """
from tests.runtime.aclnn_ctypes import library
aclnn = library()
answer([aclnn.c.aclInit(None), aclnn.message()])
"""


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ACLNN_HOST_VECTORS", "portable", None),
        ("ACLNN_HOST_VECTORS", "mmx", 'vectors "mmx"'),
        ("ACLNN_HOST_THREADS", "3", None),
        ("ACLNN_HOST_THREADS", "-1", "-1 threads"),
        ("ACLNN_HOST_THREADS", "all", '"all", which is no number'),
    ],
)
def test_environment(name: str, value: str, said: str | None) -> None:
    code, message = run_python(ENVIRONMENT, **{name: value})
    assert (code, message) == (0, None) if said is None else (code == INVALID and said in message)
