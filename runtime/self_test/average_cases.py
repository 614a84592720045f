# SPDX-License-Identifier: Apache-2.0

"""The gradients of average pools that the self-test runs: operators, windows, and the definition in numpy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from poolgrad_lowering.dialect.average_window import average_window
from poolgrad_lowering.model.windows import AxisWindow
from poolgrad_lowering.runtime.self_test.reference import Array, Gradient, adaptive_windows, pool_windows

AVERAGE_3D, AVERAGE_2D = "AvgPool3DGrad", "AvgPoolV2Grad"
ADAPTIVE_3D, ADAPTIVE_2D = "AdaptiveAvgPool3dGrad", "AdaptiveAvgPool2dGrad"


@dataclass(frozen=True)
class AverageCase:
    """An operator with windows and the shape of x; tuples have a value for each spatial axis of x. Only an adaptive
    pool has an `output_size`.
    """

    title: str
    operator: str
    x_shape: tuple[int, ...]
    kernel: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    ceil_mode: bool = False
    count_include_pad: bool = False
    divisor: int = 0
    output_size: tuple[int, ...] = ()

    @property
    def grad_shape(self) -> tuple[int, ...]:
        """The shape of the incoming gradient."""
        return (*self.x_shape[:2], *map(len, self._windows()))

    def attributes(self) -> dict[str, Any]:
        """Return all attributes of the node."""
        if self.operator == ADAPTIVE_2D:
            return {"orig_input_shape": list(self.x_shape)}
        if self.operator == ADAPTIVE_3D:
            return {"data_format": "NCDHW"}
        pads = [pad for pad in self.pads for _ in range(2)]
        body = average_window(
            [AxisWindow(*row, 1) for row in zip(self.kernel, self.strides, self.pads, self.pads, strict=True)],
            ceil=self.ceil_mode,
            count_include_pad=self.count_include_pad,
            divisor=self.divisor,
        )
        common = {"ceil_mode": int(self.ceil_mode), "divisor_override": self.divisor, **body}
        if self.operator == AVERAGE_2D:
            return {
                "ksize": [1, 1, *self.kernel],
                "strides": [1, 1, *self.strides],
                "padding_mode": "CALCULATED",
                "pads": pads,
                "data_format": "NCHW",
                "global_pooling": 0,
                "exclusive": int(not self.count_include_pad),
                **common,
            }
        absent = [1] * (3 - len(self.kernel))
        return {
            "ksize": [*absent, *self.kernel],
            "strides": [*absent, *self.strides],
            "pads": [0] * (2 * len(absent)) + pads,
            "count_include_pad": int(self.count_include_pad),
            "data_format": "NCDHW",
            **common,
        }

    @property
    def is_exact(self) -> bool:
        """Whether all divisors are powers of two, so that sums of whole numbers are exact in every arithmetic."""
        return all(divisor & (divisor - 1) == 0 for divisor, _ in self._divided())

    def gradient(self, grad: Array, epsilon: float) -> Gradient:
        """Return the gradient of x by the definition.

        A term is g / d, or g · (1 / d) with the reciprocal rounded to the element type. For n terms the tolerance is
        (n + 2) · epsilon · Σ|terms|, where `epsilon` is the type's relative spacing; see `reference.gradient`.
        """
        total, magnitude, count = np.zeros((3, *self.x_shape))
        for divisor, (window, box) in self._divided():
            term = grad[window].astype(np.float64) / divisor
            term = term.reshape(*term.shape, *[1] * (len(self.x_shape) - 2))
            total[box] += term
            magnitude[box] += np.abs(term)
            count[box] += 1
        return Gradient(total, (count + 2) * epsilon * magnitude)

    def _windows(self) -> list[Sequence[slice]]:
        spatial = self.x_shape[2:]
        if self.output_size:
            return [adaptive_windows(*axis) for axis in zip(spatial, self.output_size, strict=True)]
        axes = zip(spatial, self.kernel, self.strides, self.pads, strict=True)
        return [pool_windows(*axis, ceil_mode=self.ceil_mode) for axis in axes]

    def _counts(self) -> list[list[int]]:
        """The number of elements that each window counts along each axis."""
        windows = self._windows()
        if not self.count_include_pad:
            return [[window.stop - window.start for window in axis] for axis in windows]
        axes = zip(self.x_shape[2:], self.kernel, self.strides, self.pads, windows, strict=True)
        return [
            [min(kernel, size + 2 * pad - number * stride) for number in range(len(axis))]
            for size, kernel, stride, pad, axis in axes
        ]

    def _divided(self) -> list[tuple[int, tuple[Any, Any]]]:
        """The divisor of each window, with its position in the gradient and its elements of x."""
        windows, counts, every = self._windows(), self._counts(), (slice(None), slice(None))
        found = []
        for position in itertools.product(*(range(len(axis)) for axis in windows)):
            box = tuple(axis[number] for axis, number in zip(windows, position, strict=True))
            counted = math.prod(axis[number] for axis, number in zip(counts, position, strict=True))
            found.append((self.divisor or counted, (every + position, every + box)))
        return found


AVERAGE_CASES = (
    AverageCase("1-D", AVERAGE_3D, (2, 3, 12), (2,), (2,), (0,)),
    AverageCase("2-D", AVERAGE_3D, (2, 3, 8, 10), (2, 2), (2, 2), (0, 0)),
    AverageCase("2-D overlapping", AVERAGE_3D, (2, 3, 9, 9), (3, 3), (2, 2), (1, 1)),
    AverageCase("2-D, padding counts", AVERAGE_3D, (2, 3, 9, 9), (4, 4), (2, 2), (1, 1), count_include_pad=True),
    AverageCase("2-D ceil, a divisor", AVERAGE_3D, (2, 3, 7, 9), (3, 3), (2, 2), (0, 0), ceil_mode=True, divisor=4),
    AverageCase("3-D", AVERAGE_3D, (2, 3, 4, 6, 6), (2, 2, 2), (2, 2, 2), (0, 0, 0)),
    AverageCase("3-D overlapping, ceil", AVERAGE_3D, (1, 2, 5, 6, 7), (3, 3, 3), (2, 2, 2), (1, 1, 1), ceil_mode=True),
    AverageCase("2-D", AVERAGE_2D, (2, 3, 8, 10), (2, 2), (2, 2), (0, 0)),
    AverageCase("2-D overlapping", AVERAGE_2D, (2, 3, 9, 9), (3, 3), (2, 2), (1, 1)),
    AverageCase("2-D global, padded", AVERAGE_2D, (2, 3, 12, 11), (12, 11), (30, 30), (4, 3)),
    AverageCase("adaptive 1-D", ADAPTIVE_3D, (2, 3, 12), output_size=(3,)),
    AverageCase("adaptive 2-D, uneven", ADAPTIVE_3D, (2, 3, 7, 8), output_size=(3, 5)),
    AverageCase("adaptive 2-D to one", ADAPTIVE_3D, (2, 3, 8, 4), output_size=(1, 1)),
    AverageCase("adaptive 3-D, uneven", ADAPTIVE_3D, (2, 2, 5, 6, 7), output_size=(2, 4, 3)),
    AverageCase("adaptive 2-D, uneven", ADAPTIVE_2D, (2, 3, 7, 8), output_size=(3, 5)),
)
