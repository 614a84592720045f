# SPDX-License-Identifier: Apache-2.0

"""Calls of aclnn's functions for gradients of average pools, and the bits that CANN's operators give them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.average_models import AverageCase
from tests.oracles.average_bits import (
    Span,
    Term,
    adaptive_spans,
    average_gradient,
    divided,
    multiplied,
    rounded_operand,
    windowed_spans,
)
from tests.runtime.aclnn_ctypes import (
    ADAPTIVE_AVERAGE_2D,
    ADAPTIVE_AVERAGE_3D,
    AVERAGE_2D,
    AVERAGE_3D,
    NCDHW,
    NCHW,
    Average,
)

Array = npt.NDArray[Any]
A950, A2, A3 = "Ascend950PR_9599", "Ascend910B1", "Ascend910_9391"


@dataclass(frozen=True)
class AverageCall:
    """A case as its function takes it: planes of two axes, or of three."""

    case: AverageCase

    @property
    def axes(self) -> int:
        return max(2, len(self.case.x_shape) - 2)

    @property
    def api(self) -> str:
        if self.case.output_size:
            return ADAPTIVE_AVERAGE_2D if self.axes == 2 else ADAPTIVE_AVERAGE_3D
        return AVERAGE_2D if self.axes == 2 else AVERAGE_3D

    def filled(self, array: Array) -> Array:
        """The array with the axis that its planes lack."""
        return array[:, :, None] if array.ndim == 3 else array

    def lists(self) -> dict[str, Any]:
        """The arguments that are no tensors."""
        if self.case.output_size:
            return {}
        missing = self.axes - len(self.case.ksize)
        return {
            "kernel_size": [1] * missing + list(self.case.ksize),
            "stride": [1] * missing + list(self.case.strides),
            "padding": [0] * missing + list(self.case.pads),
            "ceil_mode": self.case.ceil_mode,
            "count_include_pad": self.case.count_include_pad,
            "divisor_override": self.case.divisor_override,
        }

    def of(self, grad: Array, y: Array) -> Average:
        """The call that writes y."""
        x = np.zeros_like(y)
        return Average.of(grad, x, y, format=NCHW if self.axes == 2 else NCDHW, **self.lists())

    def spans(self) -> list[list[Span]]:
        """The windows along each axis of x."""
        case = self.case
        sizes, counts = case.x_shape[2:], case.grad_shape[2:]
        if case.output_size:
            return [adaptive_spans(*axis) for axis in zip(sizes, counts, strict=True)]
        rows = zip(sizes, counts, case.ksize, case.strides, case.pads, strict=True)
        return [windowed_spans(*row, counts_padding=case.count_include_pad) for row in rows]

    def term(self, soc: str, dtype: np.dtype[Any]) -> Term:
        """The arithmetic of the operator that CANN runs on the product."""
        case, half = self.case, dtype == np.float16
        if case.output_size:
            if np.prod(case.output_size) == 1:
                return rounded_operand(multiplied, dtype)
            return divided if soc == A950 else multiplied
        if self.is_global():
            return rounded_operand(divided, dtype) if half else divided
        if self.axes == 2 and soc == A950:
            return divided
        return rounded_operand(multiplied, dtype) if half and self.is_by_cube(soc) else multiplied

    def plane(self) -> list[int]:
        """The height and the width of an x of two axes."""
        return ([1] * (2 - len(self.case.ksize)) + list(self.case.x_shape[2:]))[:2]

    def is_global(self) -> bool:
        """Whether the call is a division by the number of elements of a plane."""
        case = self.case
        if case.output_size or self.axes == 3 or case.divisor_override:
            return False
        kernel = self.lists()["kernel_size"]
        return kernel == self.plane() and min(kernel) >= 10 and bool(np.prod(case.grad_shape[2:]) == 1)

    def is_by_cube(self, soc: str) -> bool:
        """Whether the call is a convolution's gradient, Conv2DBackpropInput, whose order of sums is not known."""
        case = self.case
        if case.output_size or self.axes == 3 or soc == A950 or self.is_global():
            return False
        height, width = self.plane()
        is_strip = height >= 2 * width or width >= 2 * height
        kernel = self.lists()["kernel_size"]
        is_small = max(kernel) <= 20 or np.prod(kernel) <= 255
        usual = case.count_include_pad and not case.ceil_mode and abs(case.divisor_override) <= 255
        return bool(usual and is_small and not is_strip and case.x_shape[1] < 65536)

    def expected(self, grad: Array, soc: str = A950, *, reverse: bool = False) -> Array:
        """The bits of the result, in the shape of x."""
        term = self.term(soc, grad.dtype)
        rows_first = self.is_by_cube(soc) and not reverse
        spans, divisor = self.spans(), self.case.divisor_override
        return average_gradient(grad, self.case.x_shape, spans, divisor, term, reverse, rows_first)
