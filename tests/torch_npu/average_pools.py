# SPDX-License-Identifier: Apache-2.0

"""The average pools with whose gradients torch_npu is tested: drawn once, the same ones each time.

torch_npu is called at PyTorch's operators of the gradients, which need no forward pool.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.average_models import ADAPTIVE_3D, AVERAGE_2D, AVERAGE_3D, AverageCase
from tests.oracles.average_bits import average_gradient, divided, multiplied
from tests.runtime.average_calls import AverageCall

Array = npt.NDArray[Any]

LARGEST_SIZE = {1: 12, 2: 9, 3: 6}
COUNT_OF_WINDOWED = {1: 16, 2: 44, 3: 40}
COUNT_OF_ADAPTIVE = 24


@dataclass(frozen=True)
class AveragePool:
    """An average pool of x, [N, C, *spatial], or [C, *spatial] without its batch of 1."""

    case: AverageCase
    is_batched: bool = True

    @property
    def rank(self) -> int:
        """The number of spatial axes."""
        return len(self.spatial)

    @property
    def spatial(self) -> tuple[int, ...]:
        return self.case.x_shape[2:]

    @property
    def is_adaptive(self) -> bool:
        return bool(self.case.output_size)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.case.x_shape if self.is_batched else self.case.x_shape[1:]

    @property
    def grad_shape(self) -> tuple[int, ...]:
        return self.case.grad_shape if self.is_batched else self.case.grad_shape[1:]

    @property
    def enlarges(self) -> bool:
        """Whether an adaptive pool has more windows than elements along an axis."""
        return any(size < count for size, count in zip(self.spatial, self.case.output_size, strict=False))

    @property
    def exceeds(self) -> bool:
        """Whether a window is larger than x with its padding."""
        axes = zip(self.spatial, self.case.ksize, self.case.pads, strict=False)
        return any(kernel > size + 2 * pad for size, kernel, pad in axes)

    def fails(self, dtype: str) -> bool:
        """Whether CANN's tiling divides by zero: in 16 bits over fewer elements than windows and cores, 72 at most."""
        is_few = math.prod(self.case.x_shape) < min(72, math.prod(self.case.grad_shape))
        return is_few and not self.is_adaptive and dtype != "float32"

    @property
    def is_divided_by_kernel(self) -> bool:
        """Whether aclnnAvgPool2dBackward divides by the elements of the kernel, of which some are in the padding: one
        window as large as the plane, over ten elements and more along both axes.
        """
        case = self.case
        is_global = self.rank == 2 and case.ksize == self.spatial and math.prod(case.grad_shape[2:]) == 1
        return is_global and min(self.spatial) >= 10 and max(case.pads) > 0 and not case.divisor_override

    @cached_property
    def divisors(self) -> Array:
        """The divisor of each window."""
        case = self.case
        if case.divisor_override:
            return np.full(case.grad_shape[2:], case.divisor_override)
        counts = [np.array([span.count for span in axis]) for axis in AverageCall(case).spans()]
        product = counts[0]
        for axis in counts[1:]:
            product = np.multiply.outer(product, axis)
        return product

    @cached_property
    def most_windows(self) -> int:
        """The largest number of windows that contain the same element of x."""
        counts = [
            [sum(span.begin <= at < span.end for span in axis) for at in range(size)]
            for size, axis in zip(self.spatial, AverageCall(self.case).spans(), strict=True)
        ]
        return math.prod(map(max, counts))

    def sums_of_magnitudes(self, dy: Array) -> Array:
        """The sum of the magnitudes of the terms of each element of x."""
        magnitudes = np.abs(dy.astype(np.float32)).reshape(self.case.grad_shape)
        spans, divisor = AverageCall(self.case).spans(), self.case.divisor_override
        return average_gradient(magnitudes, self.case.x_shape, spans, divisor, divided).reshape(self.shape)

    def expected(self, dy: Array, soc: str, *, reverse: bool = False) -> Array:
        """The bits of the product's operator, which sums from the first window to the last or in reverse."""
        grad = dy.reshape(self.case.grad_shape)
        return AverageCall(self.case).expected(grad, soc, reverse=reverse).reshape(self.shape)

    def gradient(self, torch: Any, dy: Any, x: Any) -> Any:
        """The gradient by PyTorch's operator. PyTorch runs a pool over one axis as one over two, with a height of 1."""
        operators, case = torch.ops.aten, self.case
        if self.is_adaptive:
            return getattr(operators, f"_adaptive_avg_pool{self.rank}d_backward")(dy, x)
        lists = [list(case.ksize), list(case.strides), list(case.pads)]
        if case.strides == case.ksize:
            lists[1] = []
        more = (case.ceil_mode, case.count_include_pad, case.divisor_override or None)
        if self.rank > 1:
            return getattr(operators, f"avg_pool{self.rank}d_backward")(dy, x, *lists, *more)
        lists = [[outer, *each] if each else [] for outer, each in zip((1, 1, 0), lists, strict=True)]
        return operators.avg_pool2d_backward(dy.unsqueeze(-2), x.unsqueeze(-2), *lists, *more).squeeze(-2)


@dataclass(frozen=True)
class Arithmetic:
    """How far the result of an operator may be from that of torch's CPU kernel in float32.

    `roundings`: of a term, in float32, in both together; 0 if the terms are the same. `rounds_reciprocal`: the
    reciprocal of the divisor is rounded to the element type.
    """

    roundings: int
    rounds_reciprocal: bool


def arithmetic(pool: AveragePool, soc: str, dtype: np.dtype[Any]) -> Arithmetic:
    """The arithmetic of the operator that CANN runs for the pool, beside torch's.

    torch divides once, and by the size along each axis in turn if the pool is adaptive. CANN's operators divide once,
    or round a reciprocal and a product.
    """
    term = AverageCall(pool.case).term(soc, dtype)
    of_torch = pool.rank if pool.is_adaptive else 1
    if term is divided and of_torch == 1:
        return Arithmetic(0, False)
    if term is divided:
        return Arithmetic(of_torch + 1, False)
    return Arithmetic(of_torch + 2, term is not multiplied)


# With more windows than elements along an axis.
ENLARGING = (
    AveragePool(AverageCase(ADAPTIVE_3D, (2, 3, 4, 5), output_size=(7, 5))),
    AveragePool(AverageCase(ADAPTIVE_3D, (1, 2, 3, 4, 5), output_size=(3, 5, 2))),
)
# One window over all of a plane, for which aclnnAvgPool2dBackward has an operator of its own from 10 elements on.
GLOBAL = (
    AveragePool(AverageCase(AVERAGE_2D, (2, 3, 10, 12), (10, 12), (10, 12), (0, 0), count_include_pad=True)),
    AveragePool(AverageCase(AVERAGE_2D, (1, 2, 11, 10), (11, 10), (1, 1), (0, 0)), is_batched=False),
    AveragePool(AverageCase(AVERAGE_2D, (2, 2, 10, 10), (10, 10), (10, 10), (0, 0), divisor_override=7)),
)
# The same with padding: the window that counts its padding ends with it.
PADDED_GLOBAL = (
    AveragePool(AverageCase(AVERAGE_2D, (2, 3, 10, 12), (10, 12), (10, 12), (4, 0))),
    AveragePool(AverageCase(AVERAGE_2D, (1, 2, 12, 10), (12, 10), (12, 10), (5, 2))),
)


def all_average_pools() -> list[AveragePool]:
    """Pools of one to three axes, with windows and adaptive, with and without a batch."""
    rng = random.Random(0)
    pools = [*ENLARGING, *GLOBAL, *PADDED_GLOBAL]
    for rank, count in COUNT_OF_WINDOWED.items():
        pools += [_windowed(rng, rank) for _ in range(count)]
    for rank in (2, 3):
        pools += [_adaptive(rng, rank) for _ in range(COUNT_OF_ADAPTIVE)]
    return pools


def _planes(rng: random.Random, is_batched: bool) -> tuple[int, int]:
    return rng.randint(1, 3) if is_batched else 1, rng.randint(1, 4)


def _adaptive(rng: random.Random, rank: int) -> AveragePool:
    is_batched = rng.random() < 0.8
    spatial = [rng.randint(1, LARGEST_SIZE[rank]) for _ in range(rank)]
    case = AverageCase(
        ADAPTIVE_3D,
        (*_planes(rng, is_batched), *spatial),
        output_size=tuple(rng.randint(1, size) for size in spatial),
    )
    return AveragePool(case, is_batched)


def _windowed(rng: random.Random, rank: int) -> AveragePool:
    is_batched, has_strides = rng.random() < 0.8, rng.random() < 0.8
    ceil_mode, count_include_pad = rng.random() < 0.4, rng.random() < 0.5
    # An average pool of PyTorch over one axis takes no divisor.
    divisor = rng.randint(1, 9) if rank > 1 and rng.random() < 0.25 else 0
    kernels = (1, 2, 4) if rng.random() < 0.4 else (1, 2, 3, 4)  # powers of two have exact quotients
    while True:
        spatial = [rng.randint(1, LARGEST_SIZE[rank]) for _ in range(rank)]
        kernel = [rng.choice(kernels) for _ in range(rank)]
        case = AverageCase(
            AVERAGE_3D if rank != 2 else AVERAGE_2D,
            (*_planes(rng, is_batched), *spatial),
            tuple(kernel),
            tuple(rng.randint(1, 3) for _ in range(rank)) if has_strides else tuple(kernel),
            tuple(rng.randint(0, size // 2) for size in kernel),
            ceil_mode,
            count_include_pad,
            divisor,
        )
        pool = AveragePool(case, is_batched)
        # PyTorch's gradients over three axes refuse windows larger than x, whatever the padding.
        fits = all(size <= extent for size, extent in zip(kernel, spatial, strict=True))
        if min(case.grad_shape) > 0 and (fits or rank < 3):
            return pool
