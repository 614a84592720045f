# SPDX-License-Identifier: Apache-2.0

"""The division in front of a gradient that is written out: the incoming gradient by constants, one for each window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from poolgrad_lowering.compiler.analysis.constant_values import constant_value
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.type_rules import HALF_TYPES
from poolgrad_lowering.model.ir.attributes import integer
from poolgrad_lowering.model.ir.dims import Dim, Shape, static_dims
from poolgrad_lowering.model.ir.scopes import MAX_CHAIN, Node, Value

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scale:
    """What tensors are divided by, one number for each window, and the other numbers that they are multiplied with."""

    divisors: Array
    factors: tuple[npt.NDArray[np.generic], ...] = ()

    def by(self, values: npt.NDArray[np.generic], *, divides: bool) -> Scale:
        """Return the scale of a tensor that is also divided by, or multiplied with, `values`."""
        if divides:
            return Scale(self.divisors * values.astype(np.float64), self.factors)
        is_one = bool((values == values.dtype.type(1)).all())
        return self if is_one else Scale(self.divisors, (*self.factors, values))

    def then(self, other: Scale) -> Scale:
        """Return both scales as one."""
        return Scale(self.divisors * other.divisors, (*self.factors, *other.factors))

    @property
    def first(self) -> float:
        """What the first window is divided by, all in all."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(self.divisors.flat[0] / np.prod([float(factor.flat[0]) for factor in self.factors]))

    def is_division_by(self, wanted: npt.NDArray[np.generic]) -> bool:
        """Whether each window is divided by `wanted`; a factor is the reciprocal, rounded to the factor's type."""
        numbers = wanted.astype(np.float64)
        with np.errstate(all="ignore"):
            if len(self.factors) == 1:
                [factor] = self.factors
                return bool(((self.divisors / numbers).astype(factor.dtype) == factor).all())
            for factor in self.factors:
                numbers *= factor.astype(np.float64)
            return np.array_equal(numbers, np.broadcast_to(self.divisors, numbers.shape))


@dataclass(frozen=True, eq=False)
class Quotient:
    """A tensor as the quotient of a gradient and constants.

    `dividends` are the values that have the gradient, nearest first; some of them perhaps in another shape, or in a
    half type from which it was cast to float32. `scaled_by` is the node that divides or multiplies it, None if none.
    """

    dividends: tuple[Value, ...]
    scale: Scale
    scaled_by: Node | None = None

    @property
    def is_divided(self) -> bool:
        """Whether a Div divides it."""
        return self.scaled_by is not None and self.scaled_by.is_a("Div")


def quotients(facts: Facts, value: Value, counts: tuple[int, ...]) -> Iterator[Quotient]:
    """Yield a value that has planes of `counts` windows: divided by nothing, and by the constants that scale it."""
    values, one = held(facts, value), Scale(np.ones(counts))
    yield Quotient(values, one)
    node = values[-1].producer
    if node is None or any(each.producer is not None and each.producer.is_a("Cast") for each in values[:-1]):
        return  # what was divided before a cast is rounded
    for operand, constants in scaled_operands(facts, node):
        of_windows = _of_windows(constants, facts.shape(operand), counts)
        if of_windows is not None:
            yield Quotient(held(facts, operand), one.by(of_windows, divides=node.is_a("Div")), node)


def held(facts: Facts, value: Value) -> tuple[Value, ...]:
    """The value and those of which it is a view, nearest first; behind one cast to float32 those of a half type too."""
    found, is_cast = [value], False
    for _ in range(MAX_CHAIN):
        node = value.producer
        source = None if node is None else node.input(0)
        if node is None or source is None:
            break
        if _widens(facts, node, source) and not is_cast:
            is_cast = True
        elif not facts.is_view(node):
            break
        value = source
        found.append(value)
    return tuple(found)


def scaled_operands(facts: Facts, node: Node) -> Iterator[tuple[Value, npt.NDArray[np.generic]]]:
    """Yield each operand of a Mul or Div whose other one is a constant of floats that does not enlarge the result."""
    if not node.is_a("Mul", "Div") or len(node.inputs) != 2:
        return
    for position in (0, 1) if node.is_a("Mul") else (0,):
        operand = node.input(position)
        shape = facts.shape(operand)
        values = None if operand is None or shape is None else constant_value(facts, node.input(1 - position))
        if operand is None or shape is None or values is None or np.issubdtype(values.dtype, np.integer):
            continue
        aligned = zip(values.shape[::-1], shape[::-1], strict=False)
        if values.ndim <= len(shape) and all(extent == 1 or dim == Dim(extent) for extent, dim in aligned):
            yield operand, values


def _of_windows(
    values: npt.NDArray[np.generic], shape: Shape | None, counts: tuple[int, ...]
) -> npt.NDArray[np.generic] | None:
    """The constants that scale a tensor of `shape`, one for each window; None if they are others for each plane."""
    if values.size and (values == values.flat[0]).all():
        return np.full(counts, values.flat[0])
    leading = values.shape[: max(values.ndim - len(counts), 0)]
    if shape is None or shape[-len(counts) :] != static_dims(counts) or any(size != 1 for size in leading):
        return None
    return np.broadcast_to(values.reshape(values.shape[len(leading) :]), counts)


def _widens(facts: Facts, node: Node, source: Value) -> bool:
    is_wide = node.is_a("Cast") and integer(node, "to") == TensorProto.FLOAT
    return is_wide and facts.element_type(source) in HALF_TYPES
