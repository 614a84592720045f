# SPDX-License-Identifier: Apache-2.0

"""The pools with which torch_npu is tested: drawn once, the same ones each time."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.harness.torch_npu.client import ASCEND_950
from tests.oracles import adaptive_windows, ascend_pool, pool_gradient, pool_windows
from tests.oracles.pooling import Windows

Array = npt.NDArray[Any]

MAX_POOL = {2: "max_pool2d", 3: "max_pool3d"}
ADAPTIVE = {2: "adaptive_max_pool2d", 3: "adaptive_max_pool3d"}
LARGEST_SIZE = {2: 9, 3: 6}
COUNT_OF_WINDOWED = 44
COUNT_OF_ADAPTIVE = 30


@dataclass(frozen=True)
class Pool:
    """A pool of torch.nn.functional, of x with this shape, [N, C, *spatial] or [C, *spatial]."""

    function: str
    shape: tuple[int, ...]
    arguments: dict[str, Any] = field(hash=False)

    @property
    def rank(self) -> int:
        """The number of spatial axes."""
        return int(self.function[-2])

    @property
    def spatial(self) -> tuple[int, ...]:
        return self.shape[-self.rank :]

    @property
    def is_adaptive(self) -> bool:
        return "output_size" in self.arguments

    @property
    def is_dilated(self) -> bool:
        return not self.is_adaptive and max(self.arguments["dilation"]) > 1

    @property
    def has_windows_of_one_element(self) -> bool:
        return not self.is_adaptive and max(self.arguments["kernel_size"]) == 1

    @property
    def windows(self) -> list[Windows]:
        """The windows along each axis, by the definition."""
        if self.is_adaptive:
            return [adaptive_windows(*axis) for axis in zip(self.spatial, self.arguments["output_size"], strict=True)]
        kernel = self.arguments["kernel_size"]
        lists = (kernel, self.arguments["stride"] or kernel, self.arguments["padding"], self.arguments["dilation"])
        axes = zip(self.spatial, *lists, strict=True)
        return [pool_windows(*axis, ceil_mode=self.arguments["ceil_mode"]) for axis in axes]

    def expected(self, x: Array) -> tuple[Array, npt.NDArray[np.int64]]:
        """y and the positions in a plane, by the definition."""
        y, indices = ascend_pool(x if self.is_batched else x[np.newaxis], self.windows)
        return (y, indices) if self.is_batched else (y[0], indices[0])

    def expected_gradient(self, dy: Array, indices: npt.NDArray[np.int64], *, reverse: bool = False) -> Array:
        """The gradient of x, by the definition, summed in row-major order or in reverse."""
        planes = np.arange(np.prod(self.shape[: -self.rank])).reshape(*self.shape[: -self.rank], *[1] * self.rank)
        return pool_gradient(self.shape, dy, indices + planes * np.prod(self.spatial, dtype=np.int64), reverse=reverse)

    @property
    def is_batched(self) -> bool:
        return len(self.shape) == self.rank + 2


# With more windows than elements along an axis.
ENLARGING = (
    Pool(ADAPTIVE[2], (2, 3, 4, 5), {"output_size": (7, 5)}),
    Pool(ADAPTIVE[2], (2, 2, 3, 3), {"output_size": (6, 6)}),
    Pool(ADAPTIVE[3], (1, 2, 3, 4, 5), {"output_size": (3, 5, 2)}),
)


def all_pools() -> list[Pool]:
    """Pools of two and three axes, with windows and adaptive, with and without a batch."""
    rng = random.Random(0)
    pools = list(ENLARGING)
    for rank in (2, 3):
        pools += [_windowed(rng, rank) for _ in range(COUNT_OF_WINDOWED)]
        pools += [_adaptive(rng, rank) for _ in range(COUNT_OF_ADAPTIVE)]
    return pools


# What torch_npu calls for these pools does not run them, or is not in the stand-in.
UNSUPPORTED: tuple[tuple[Callable[[str, Pool], bool], str], ...] = (
    (lambda soc, pool: soc != ASCEND_950 and pool.is_dilated, "161002"),
    (
        lambda soc, pool: soc != ASCEND_950 and pool.rank == 2 and pool.has_windows_of_one_element,
        "has no masks of windows of one element",
    ),
)


def refusal(soc: str, pool: Pool) -> str | None:
    """A part of the message with which torch_npu refuses the pool, or None."""
    return next((message for applies, message in UNSUPPORTED if applies(soc, pool)), None)


def _shape(rng: random.Random, spatial: Sequence[int]) -> tuple[int, ...]:
    batch = [rng.randint(1, 3)] if rng.random() < 0.8 else []
    return (*batch, rng.randint(1, 4), *spatial)


def _adaptive(rng: random.Random, rank: int) -> Pool:
    spatial = [rng.randint(1, LARGEST_SIZE[rank]) for _ in range(rank)]
    return Pool(ADAPTIVE[rank], _shape(rng, spatial), {"output_size": tuple(rng.randint(1, size) for size in spatial)})


def _windowed(rng: random.Random, rank: int) -> Pool:
    dilates, strides = rng.random() < 0.3, rng.random() < 0.8
    ceil_mode = rng.random() < 0.4
    while True:
        spatial = [rng.randint(1, LARGEST_SIZE[rank]) for _ in range(rank)]
        kernel = [rng.randint(1, 4) for _ in range(rank)]
        pool = Pool(
            MAX_POOL[rank],
            _shape(rng, spatial),
            {
                "kernel_size": tuple(kernel),
                "stride": tuple(rng.randint(1, 3) for _ in range(rank)) if strides else None,
                "padding": tuple(rng.randint(0, size // 2) for size in kernel),
                "dilation": tuple(rng.randint(1, 2) if dilates else 1 for _ in range(rank)),
                "ceil_mode": ceil_mode,
            },
        )
        if all(axis and all(axis) for axis in pool.windows):
            return pool
