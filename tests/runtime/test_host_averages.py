# SPDX-License-Identifier: Apache-2.0

"""libaclnn_host: gradients of average pools against the definition, and with the arithmetic of Ascend's operators."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from tests.average_models import ADAPTIVE_3D, AVERAGE_2D, AVERAGE_3D, CASES, AverageCase
from tests.oracles import assert_same_bits
from tests.oracles.average_bits import Span, average_gradient, divided, multiplied
from tests.runtime.aclnn_ctypes import AVERAGE_2D as AVG_POOL_2D
from tests.runtime.aclnn_ctypes import (
    AVERAGE_3D as AVG_POOL_3D,
)
from tests.runtime.aclnn_ctypes import (
    NCHW,
    NCL,
    Aclnn,
    Array,
    Average,
    Tensor,
    bfloat16,
    current_device,
)
from tests.runtime.average_calls import A2, A3, A950, AverageCall

VALUES = {"float32": np.dtype(np.float32), "float16": np.dtype(np.float16), "bfloat16": bfloat16}
SOCS = (A950, A2, A3)

FURTHER = {
    "global": AverageCase(AVERAGE_2D, (2, 3, 12, 11), (12, 11), (12, 11), (0, 0)),
    "global, more than float16": AverageCase(AVERAGE_2D, (1, 2, 50, 45), (50, 45), (1, 1), (0, 0)),
    "strip": AverageCase(AVERAGE_2D, (1, 2, 3, 20), (3, 3), (1, 2), (1, 1), count_include_pad=True),
    "square": AverageCase(AVERAGE_2D, (1, 2, 20, 20), (7, 7), (1, 1), (3, 3), count_include_pad=True),
    "square, a large divisor": AverageCase(
        AVERAGE_2D, (1, 2, 20, 20), (7, 7), (1, 1), (3, 3), count_include_pad=True, divisor_override=256
    ),
    "long": AverageCase(AVERAGE_3D, (1, 2, 70), (29,), (3,), (14,), ceil_mode=True),
    "several blocks of small planes": AverageCase(AVERAGE_2D, (3, 40, 7, 7), (3, 3), (1, 1), (1, 1)),
    "planes that continue each other": AverageCase(AVERAGE_2D, (3, 12, 14, 10), (2, 2), (2, 2), (0, 0)),
    "one window for each of many planes": AverageCase(AVERAGE_2D, (3, 48, 7, 7), (7, 7), (7, 7), (0, 0)),
    "several blocks of uneven windows": AverageCase(ADAPTIVE_3D, (2, 24, 15, 13), output_size=(7, 7)),
    "a window each": AverageCase(ADAPTIVE_3D, (1, 2, 6, 9), output_size=(6, 9)),
}


def computed(aclnn: Aclnn, call: AverageCall, grad: Array) -> Array:
    y = np.full(call.filled(np.empty(call.case.x_shape, bool)).shape, 7, grad.dtype)
    assert aclnn.run(call.api, call.of(call.filled(grad), y)) == 0, aclnn.message()
    return y.reshape(call.case.x_shape)


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("name", [*CASES, *FURTHER])
def test_bits_of_the_operators(name: str, values: str, soc: str) -> None:
    call = AverageCall((CASES | FURTHER)[name])
    grad = np.random.default_rng(0).standard_normal(call.case.grad_shape).astype(VALUES[values])
    with current_device(soc) as aclnn:
        assert_same_bits(computed(aclnn, call, grad), call.expected(grad, soc))


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("name", [*CASES, *FURTHER])
def test_random_gradients_are_close_to_the_definition(name: str, values: str, soc: str) -> None:
    """A term has up to two roundings of float32, and the sum of n terms n more; the result is rounded once.

    Where an operator rounds the reciprocal or the divisor to float16 or bfloat16, terms have that error too.
    """
    case, dtype = (CASES | FURTHER)[name], VALUES[values]
    grad = np.random.default_rng(1).standard_normal(case.grad_shape).astype(dtype)
    magnitude = case.expected(np.abs(grad.astype(np.float64)))
    terms = average_gradient(np.ones(case.grad_shape, np.float32), case.x_shape, AverageCall(case).spans(), 1, divided)
    half_unit = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}[values]
    bound = magnitude * ((terms + 2) * 2.0**-24 + 2 * half_unit) + {"float16": 2.0**-25}.get(values, 0)
    with current_device(soc) as aclnn:
        result = computed(aclnn, AverageCall(case), grad).astype(np.float64)
    assert (np.abs(result - case.expected(grad.astype(np.float64))) <= bound).all()


def random_cases(axes_of: Sequence[int], longest: tuple[int, ...]) -> Iterator[AverageCase]:
    """Cases of some numbers of axes, of up to so many elements each: adaptive ones, and windows of every stride.

    They have few planes, or so many that the library makes a table of a plane's windows.
    """
    rng = np.random.default_rng(2)
    for number in range(60):
        axes, planes = int(rng.choice(axes_of)), (3, 22) if number % 4 < 2 else (2, 2)
        size = [int(rng.integers(1, most)) for most in longest[3 - axes :]]
        if number % 3 == 0:
            out = tuple(int(rng.integers(1, 2 * each + 1)) for each in size)
            yield AverageCase(ADAPTIVE_3D, (*planes, *size), output_size=out)
            continue
        kernel = [int(rng.integers(1, (each if number % 3 == 1 else min(each, 4)) + 1)) for each in size]
        yield AverageCase(
            AVERAGE_3D,
            (*planes, *size),
            tuple(kernel),
            tuple(int(stride) for stride in rng.integers(1, 4 if number % 2 else 9, axes)),
            tuple(int(rng.integers(0, each // 2 + 1)) for each in kernel),
            ceil_mode=bool(rng.integers(2)),
            count_include_pad=bool(rng.integers(2)),
            divisor_override=int(rng.choice([0, 0, 3])),
        )
    for window in range(2, 7):
        for width in (window + 4, 37):  # windows that slide by one element
            yield AverageCase(AVERAGE_3D, (2, 3, 11, width), (window, window), (1, 1), (window // 2, window // 2))


@pytest.mark.parametrize(("soc", "axes_of", "longest"), [(A950, (1, 2, 3), (6, 14, 70)), (A2, (2,), (6, 33, 33))])
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("vectors", ["scalar", "portable", "avx2", "avx512"])
def test_random_windows(vectors: str, values: str, soc: str, axes_of: Sequence[int], longest: tuple[int, ...]) -> None:
    """Rows of less than a vector and of several, kernels with many windows per element, sums along rows first."""
    rng = np.random.default_rng(3)
    calls = [AverageCall(case) for case in random_cases(axes_of, longest)]
    assert sum(call.is_by_cube(soc) for call in calls) >= (4 if soc == A2 else 0)
    with current_device(soc) as aclnn:
        if aclnn.c.aclnnHostSetVectors(vectors.encode()) != 0:
            pytest.skip(f"this processor has no {vectors}")
        for call in calls:
            grad = rng.standard_normal(call.case.grad_shape).astype(VALUES[values])
            assert_same_bits(computed(aclnn, call, grad), call.expected(grad, soc))
        assert aclnn.c.aclnnHostSetVectors(b"") == 0


def test_a_kernel_that_is_longer_than_memory_counts_its_padding() -> None:
    grad, y = np.ones((1, 1, 1, 4), np.float32), np.full((1, 1, 1, 3), 7, np.float32)
    call = Average.of(grad, y.copy(), y, kernel_size=[1, 2**40], stride=[1, 1], padding=[0, 2**39])
    with current_device() as aclnn:
        assert aclnn.run(AVG_POOL_2D, call) == 0, aclnn.message()
        assert_same_bits(y, np.full((1, 1, 1, 3), 4 / 3, np.float32))
        counted = dataclasses.replace(call, count_include_pad=True)
        assert aclnn.run(AVG_POOL_2D, counted) == 0, aclnn.message()
    assert_same_bits(y, np.full((1, 1, 1, 3), 2.0**-38, np.float32))


@pytest.mark.parametrize("divisor", [-3, 2**31 - 1, 2**32 + 5])
def test_a_divisor_has_32_bits(divisor: int) -> None:
    grad, y = np.full((1, 1, 2, 2), 15, np.float32), np.empty((1, 1, 4, 4), np.float32)
    call = Average.of(grad, y.copy(), y, kernel_size=[2], padding=[0], divisor_override=divisor)
    with current_device() as aclnn:
        assert aclnn.run(AVG_POOL_2D, call) == 0, aclnn.message()
    assert_same_bits(y, np.full((1, 1, 4, 4), np.float32(15) / np.float32(np.int64(divisor).astype(np.int32))))


@pytest.mark.parametrize("values", VALUES)
def test_strided_views(values: str) -> None:
    """Gradients and results may be views: transposed, reversed, with gaps."""
    rng = np.random.default_rng(3)
    case = AverageCase(AVERAGE_2D, (2, 3, 9, 8), (3, 2), (2, 1), (1, 1))
    call = AverageCall(case)
    dtype = VALUES[values]
    grad = rng.standard_normal((*case.grad_shape[2:], *case.grad_shape[:2])).astype(dtype).transpose(2, 3, 0, 1)
    memory = np.full((9, 2, 8, 2, 4), 7, dtype)
    y = memory[:, :, :, 1, :3].transpose(1, 3, 0, 2)
    x = np.zeros(case.x_shape, dtype)
    arguments = Average(Tensor.of(grad, NCHW), Tensor.of(x, NCHW), Tensor.of(y, NCHW), **call.lists())
    with current_device() as aclnn:
        assert aclnn.run(call.api, arguments) == 0, aclnn.message()
    assert_same_bits(np.ascontiguousarray(y), call.expected(np.ascontiguousarray(grad)))
    assert (memory[:, :, :, 0] == 7).all()
    assert (memory[..., 3] == 7).all()


def test_planes_with_gaps() -> None:
    """A table writes whole vectors, but nothing between the planes of a view."""
    case = AverageCase(ADAPTIVE_3D, (8, 16, 5, 9), output_size=(3, 4))
    rng = np.random.default_rng(6)
    grads, memory = rng.standard_normal((8, 16, 4, 4)).astype(np.float32), np.full((8, 16, 6, 9), 7, np.float32)
    grad, y = grads[:, :, :3], memory[:, :, :5]
    call = AverageCall(case)
    arguments = Average(
        *(Tensor.of(array, NCHW) for array in (grad, np.zeros(case.x_shape, np.float32), y)), **call.lists()
    )
    with current_device() as aclnn:
        assert aclnn.run(call.api, arguments) == 0, aclnn.message()
    assert_same_bits(np.ascontiguousarray(y), call.expected(np.ascontiguousarray(grad)))
    assert (memory[:, :, 5] == 7).all()


def test_planes_without_a_batch() -> None:
    grad = np.random.default_rng(4).standard_normal((3, 4, 5)).astype(np.float32)
    y = np.empty((3, 8, 10), np.float32)
    with current_device() as aclnn:
        assert aclnn.run(AVG_POOL_2D, Average.of(grad, y.copy(), y, format=NCL, kernel_size=[2], padding=[0])) == 0
    spans = [[Span(2 * w, 2 * w + 2, 2) for w in range(count)] for count in (4, 5)]
    assert_same_bits(y, average_gradient(grad, y.shape, spans, 0, divided))


def test_a_window_larger_than_the_plane() -> None:
    """CANN counts windows by a quotient that is rounded towards 0, and clips them."""
    grad = np.random.default_rng(4).standard_normal((2, 3, 1, 4, 5)).astype(np.float32)
    y = np.empty((2, 3, 3, 8, 10), np.float32)
    windows = {"kernel_size": [5, 2, 2], "stride": [3, 2, 2], "padding": [0]}
    with current_device() as aclnn:
        assert aclnn.run(AVG_POOL_3D, Average.of(grad, y.copy(), y, **windows)) == 0
    spans = [[Span(0, 3, 3)], *([Span(2 * w, 2 * w + 2, 2) for w in range(count)] for count in (4, 5))]
    assert_same_bits(y, average_gradient(grad, y.shape, spans, 0, multiplied))


@pytest.mark.parametrize("name", ["2d, padding counts", "adaptive 2d", "3d"])
def test_infinity_and_nan_reach_their_own_window_only(name: str) -> None:
    call = AverageCall(CASES[name])
    grad = np.zeros(call.case.grad_shape, np.float32)
    grad[0, 0].flat[0] = np.inf
    grad[1, 1].flat[-1] = np.nan
    with current_device() as aclnn:
        assert_same_bits(computed(aclnn, call, grad), call.expected(grad))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_give_the_same_bits(threads: int) -> None:
    case = AverageCase(AVERAGE_2D, (7, 33, 30, 31), (3, 3), (2, 2), (1, 1))
    call = AverageCall(case)
    grad = np.random.default_rng(5).standard_normal(case.grad_shape).astype(np.float32)
    with current_device() as aclnn:
        assert aclnn.c.aclnnHostSetThreads(threads) == 0
        result = computed(aclnn, call, grad)
        assert aclnn.c.aclnnHostSetThreads(0) == 0
    assert_same_bits(result, call.expected(grad))
