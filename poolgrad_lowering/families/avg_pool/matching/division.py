# SPDX-License-Identifier: Apache-2.0

"""The division in front of a gradient that is written out: the incoming gradient by constants, one for each window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.analysis.type_rules import HALF_TYPES
from poolgrad_lowering.families.avg_pool.gradient import AveragePoolGradient
from poolgrad_lowering.families.gradient import Operand
from poolgrad_lowering.ir.attributes import integer
from poolgrad_lowering.ir.dims import Shape, is_static, static_dims
from poolgrad_lowering.ir.scopes import Value
from poolgrad_lowering.windows.adaptive import AdaptiveWindows
from poolgrad_lowering.windows.onnx_pool import PoolAttributes


@dataclass(frozen=True)
class Division:
    """The quotient that `grad`, of `shape` (N, C, spatial…), gives by `divisors`, which have a value for each window.

    `wide_of` is the value of a half type that `grad` is cast from, and `narrow` that type; None where it is not cast.
    """

    grad: Value
    shape: Shape
    divisors: npt.NDArray[np.float64]
    wide_of: Value | None
    narrow: int | None

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of windows along each spatial axis."""
        return self.divisors.shape

    def source(self, element_type: int | None) -> Value:
        """Return the gradient in the element type of the result."""
        return self.wide_of if self.wide_of is not None and element_type == self.narrow else self.grad

    def fits(self, facts: Facts, value: Value, sizes: tuple[int, ...]) -> bool:
        """Whether a value can be the result: of these spatial sizes, and of a type that the gradient has."""
        is_typed = facts.element_type(value) in (None, TensorProto.FLOAT, self.narrow)
        return is_typed and facts.shape(value) == (*self.shape[:2], *static_dims(sizes))

    def gradient(
        self,
        facts: Facts,
        dx: Value,
        sizes: tuple[int, ...],
        windows: PoolAttributes | AdaptiveWindows,
        *,
        padded: bool = False,
        divisor: int = 0,
    ) -> AveragePoolGradient:
        """Return the gradient whose result is `dx`, of these spatial sizes; `padded` is its `count_include_pad`."""
        element_type = facts.element_type(dx) or TensorProto.FLOAT
        return AveragePoolGradient(
            grad=Operand(self.source(element_type)),
            dx=Operand(dx),
            x=None,
            element_type=element_type,
            windows=windows,
            x_shape=(*self.shape[:2], *static_dims(sizes)),
            pooled_shape=self.shape,
            count_include_pad=padded,
            divisor=divisor,
            spelled=True,
        )


def division(facts: Facts, quotient: Value | None) -> Division | None:
    """Return the division whose result a value is, perhaps in another shape; None if it is none of the kind."""
    node = facts.behind_views(quotient, "Div")
    if node is None:
        return None
    grad, divisors = node.input(0), facts.constant(node.input(1))
    shape = facts.shape(grad)
    if grad is None or divisors is None or shape is None or len(shape) < 3 or not is_static(shape[2:]):
        return None
    counts = tuple(dim.coefficient for dim in shape[2:])
    leading = divisors.shape[: max(divisors.ndim - len(counts), 0)]
    if divisors.ndim > len(shape) or any(size != 1 for size in leading):
        return None
    spatial = divisors.reshape(divisors.shape[len(leading) :]).astype(np.float64)
    if any(size not in (1, count) for size, count in zip(spatial.shape[::-1], counts[::-1], strict=False)):
        return None  # the quotient has other sizes than the gradient
    wide_of, narrow = _narrow(facts, grad)
    return Division(grad, shape, np.broadcast_to(spatial, counts), wide_of, narrow)


def _narrow(facts: Facts, grad: Value) -> tuple[Value | None, int | None]:
    """The value of a half type from which the gradient was cast to float32, and its type."""
    node = grad.producer
    is_widened = node is not None and node.is_a("Cast") and integer(node, "to") == TensorProto.FLOAT
    source = node.input(0) if node is not None and is_widened else None
    element_type = facts.element_type(source)
    return (source, element_type) if element_type in HALF_TYPES else (None, None)
