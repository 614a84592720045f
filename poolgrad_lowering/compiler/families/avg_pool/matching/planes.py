# SPDX-License-Identifier: Apache-2.0

"""A gradient that is written out: its operands, the incoming gradient and the result, and the division in front of it.

A gradient may be written over any number of axes before the spatial ones; the record has two, N and C. The incoming
gradient is divided by constants, one for each window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from poolgrad_lowering.compiler.analysis.constant_values import constant_value
from poolgrad_lowering.compiler.families.avg_pool.gradient import AveragePoolGradient
from poolgrad_lowering.compiler.families.gradient import Operand, View
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.known import opaque
from poolgrad_lowering.model.facts.type_rules import HALF_TYPES
from poolgrad_lowering.model.ir.attributes import integer
from poolgrad_lowering.model.ir.dims import (
    Dim,
    Shape,
    Shown,
    channels_to_second,
    fits_reshape,
    is_static,
    size,
    static_dims,
)
from poolgrad_lowering.model.ir.scopes import MAX_CHAIN, Node, Scope, Value
from poolgrad_lowering.model.windows import AdaptiveWindows, PoolAttributes, pooled_sizes

Array = npt.NDArray[np.float64]


class Scale(NamedTuple):
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

    @property
    def one_divisor(self) -> int | None:
        """The integer that all elements are divided by, or None."""
        number = round(self.first) if np.isfinite(self.first) else 0
        return number if number > 0 and self.is_division_by(np.array(number)) else None

    def is_division_by(self, wanted: npt.NDArray[np.generic]) -> bool:
        """Whether each window is divided by `wanted`; a factor is the reciprocal, rounded to the factor's type."""
        numbers = wanted.astype(np.float64)
        with np.errstate(all="ignore"):
            if len(self.factors) == 1:
                [factor] = self.factors
                return bool(((self.divisors / numbers).astype(factor.dtype) == factor).all())
            for factor in self.factors:
                numbers = numbers * factor.astype(np.float64)
            return bool((numbers == self.divisors).all())


class Quotient(NamedTuple):
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
        is_wide = node.is_a("Cast") and integer(node, "to") == TensorProto.FLOAT
        if is_wide and not is_cast and facts.element_type(source) in HALF_TYPES:
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


def planes_of(shape: Shape | None, plane: Dim) -> Shape | None:
    """The axes before those of a plane of so many elements; None if no number of last axes has them."""
    for first in range(len(shape or ()), -1, -1):
        if shape is not None and size(shape[first:]) == plane:
            return shape[:first]
    return None


def written_gradient(
    facts: Facts,
    grads: Sequence[Value],
    results: Sequence[Value],
    sizes: tuple[Shape, Shape],
    windows: PoolAttributes | AdaptiveWindows,
    *,
    padded: bool = False,
    divisor: int = 0,
) -> AveragePoolGradient | None:
    """Return the gradient between values that have the incoming gradient and the result, nearest to its core first.

    `sizes` are the spatial sizes of the pooled output and of x, `padded` is the pool's count_include_pad. Of the values
    that have one type, those that need no view are taken, of these the outermost; None if there are none.
    """
    counts, extents = sizes
    found: list[tuple[int, AveragePoolGradient]] = []
    for dx, grad in product(reversed(results), reversed(grads)):
        types = {known for value in (grad, dx) if (known := facts.element_type(value))}
        for batch in _batches(facts, grad, dx, sizes) if len(types) <= 1 else ():
            shapes = (*batch, *extents), (*batch, *counts)
            operands = [
                Operand.of(value, facts.shape(value), shape) for value, shape in zip((dx, grad), shapes, strict=True)
            ]
            given = [operand.shape for operand in operands if operand.shape is not None]
            gradient = AveragePoolGradient(
                grad=operands[1],
                dx=operands[0],
                x=None if is_static(extents) else _pooled_input(facts, dx.scope, shapes[0]),
                element_type=next(iter(types), TensorProto.FLOAT),
                windows=windows,
                x_shape=shapes[0],
                pooled_shape=shapes[1],
                count_include_pad=padded,
                divisor=divisor,
                in_onnx=True,
            )
            if all(map(fits_reshape, given)):
                found.append((len(given), gradient))
    return min(found, key=itemgetter(0))[1] if found else None


def _pooled_input(facts: Facts, scope: Scope, shape: Shape) -> Operand | None:
    """Return a value of this shape that an AveragePool reads, which tells the symbolic sizes of x; None without one."""
    pools = map(scope.node, scope.by_op.get(("", "AveragePool"), ()))
    values = (value for node in pools if (value := node.input(0)) is not None and facts.shape(value) == shape)
    return next((Operand.of(value, shape, shape) for value in values), None)


def _batches(facts: Facts, grad: Value, dx: Value, sizes: tuple[Shape, Shape]) -> Iterator[tuple[Dim, Dim]]:
    """Yield N and C as one of the values has them, or with all axes before the last one as N."""
    for value, spatial in zip((grad, dx), sizes, strict=True):
        leading = planes_of(facts.shape(value), size(spatial))
        if leading is not None:
            outer, channels = leading[:-1], leading[-1:]
            yield size(outer), size(channels)


def pooled_shape(
    facts: Facts, grad: Value, windows: PoolAttributes | AdaptiveWindows, x_shape: Shape, view: View = View.SAME
) -> Shape:
    """Return the shape of the pooled output: as the windows give it, or as the incoming gradient has it.

    A size that nothing tells is a symbol equal only to itself. A flat gradient has no batch axis.
    """
    shape, rank = facts.shape(grad), len(x_shape)
    if shape is not None and view is View.FLAT:
        shape = (Dim(1), *shape)
    if shape is not None and len(shape) != rank:
        raise Refuse(Code.GRAD_SHAPE, "'{}' has shape {}, x {}", grad.name, Shown(shape), Shown(x_shape))
    if shape is not None and view is View.CHANNELS_LAST:
        shape = tuple(shape[axis] for axis in channels_to_second(rank))
    given = tuple(opaque(grad, axis) for axis in range(2, rank)) if shape is None else shape[2:]
    computed: tuple[Dim | None, ...] = (None,) * (rank - 2)
    if isinstance(windows, PoolAttributes) and len(windows.kernel) == rank - 2:
        computed = pooled_sizes(windows, x_shape[2:])
    for number, found in enumerate(computed):
        if found is not None and found.static is not None and found.static < 0:
            what = "on spatial axis {} no window fits into {} elements"
            raise Refuse(Code.OUTPUT_SIZE, what, number, x_shape[2 + number])
    sizes = (other if found is None else found for found, other in zip(computed, given, strict=True))
    return (*x_shape[:2], *sizes)
