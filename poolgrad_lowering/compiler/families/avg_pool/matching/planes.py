# SPDX-License-Identifier: Apache-2.0

"""The operands of a gradient that is written out: which values of the graph are the incoming gradient and the result.

A gradient may be written over any number of axes before the spatial ones; the record has two, N and C.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

from onnx import TensorProto

from poolgrad_lowering.compiler.families.avg_pool.gradient import AveragePoolGradient
from poolgrad_lowering.compiler.families.gradient import Operand, View
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.shape_rules import opaque
from poolgrad_lowering.model.ir.dims import Dim, Shape, Shown, channels_to_second, fits_reshape, size, static_dims
from poolgrad_lowering.model.ir.scopes import Value
from poolgrad_lowering.model.windows import AdaptiveWindows, PoolAttributes, pooled_sizes


def planes_of(shape: Shape | None, plane: int) -> Shape | None:
    """The axes before those of a plane of so many elements; None if no number of last axes has them."""
    for first in range(len(shape or ()), -1, -1):
        if shape is not None and size(shape[first:]) == Dim(plane):
            return shape[:first]
    return None


def written_gradient(
    facts: Facts,
    grads: Sequence[Value],
    results: Sequence[Value],
    sizes: tuple[tuple[int, ...], tuple[int, ...]],
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
    best: tuple[int, AveragePoolGradient] | None = None
    pairs = product(reversed(results), reversed(grads))
    for dx, grad in pairs:
        types = {known for value in (grad, dx) if (known := facts.element_type(value))}
        if len(types) > 1:
            continue
        for batch in _batches(facts, grad, dx, sizes):
            shapes = (*batch, *static_dims(extents)), (*batch, *static_dims(counts))
            operands = [
                Operand.of(value, facts.shape(value), shape) for value, shape in zip((dx, grad), shapes, strict=True)
            ]
            views = sum(operand.shape is not None for operand in operands)
            if (best is not None and best[0] <= views) or any(_is_stuck(each) for each in operands):
                continue
            best = (
                views,
                AveragePoolGradient(
                    grad=operands[1],
                    dx=operands[0],
                    x=None,
                    element_type=next(iter(types), TensorProto.FLOAT),
                    windows=windows,
                    x_shape=shapes[0],
                    pooled_shape=shapes[1],
                    count_include_pad=padded,
                    divisor=divisor,
                    spelled=True,
                ),
            )
    return None if best is None else best[1]


def _batches(
    facts: Facts, grad: Value, dx: Value, sizes: tuple[tuple[int, ...], tuple[int, ...]]
) -> Iterator[tuple[Dim, Dim]]:
    """Yield N and C as one of the values has them, or with all axes before the last one as N."""
    for value, spatial in zip((grad, dx), sizes, strict=True):
        leading = planes_of(facts.shape(value), math.prod(spatial))
        if leading is not None:
            outer, channels = leading[:-1], leading[-1:]
            yield size(outer), size(channels)


def _is_stuck(operand: Operand) -> bool:
    """Whether the value would have to be viewed, and its shape cannot be written."""
    return operand.shape is not None and not fits_reshape(operand.shape)


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
