# SPDX-License-Identifier: Apache-2.0

"""What a Slice takes, and the shape that it leaves."""

from __future__ import annotations

from collections.abc import Sequence

from poolgrad_lowering.model.facts.known import Known, is_opaque, need, opaque, require, static_integers
from poolgrad_lowering.model.ir.attributes import integers
from poolgrad_lowering.model.ir.dims import Dim, Shape
from poolgrad_lowering.model.ir.scopes import Node, Value

_LAST = (1 << 63) - 1
"""The end of a Slice that takes an axis to its last element, whatever its size."""


def sliced(known: Known, node: Node, value: Value) -> Shape:
    """Return the shape of what a Slice takes."""
    source = need(known.shape(node.input(0)))
    ranges = slice_ranges(known, node, len(source))
    if ranges is None:
        cut = need(_axes_of_unknown_bounds(known, node))
        require(all(-len(source) <= axis < len(source) for axis in cut))
        sizes = {axis % len(source): opaque(value, axis % len(source)) for axis in cut}
        sizes |= _sizes_between(known, node, source, cut)
        return tuple(sizes.get(axis, dim) for axis, dim in enumerate(source))
    dims = list(source)
    for axis, taken in ranges.items():
        extent = source[axis].static
        if extent is not None:
            dims[axis] = Dim(len(range(extent)[taken]))
        elif taken == slice(0, 1, 1):
            dims[axis] = Dim(1)
        elif taken != slice(0, _LAST, 1) and not _is_reversed(taken):
            dims[axis] = _without_padding(known, node, axis, taken) or opaque(value, axis)
    return tuple(dims)


def _is_reversed(taken: slice) -> bool:
    """Whether a Slice takes all of an axis, whatever its size, from the last element to the first."""
    return (taken.start, taken.step) == (-1, -1) and taken.stop <= -_LAST


def _sizes_between(known: Known, node: Node, source: Shape, cut: Sequence[int]) -> dict[int, Dim]:
    """Return the sizes that a Slice leaves between computed bounds, multiples of what the size is one of: N to 2·N.

    The end may be the last element. Of a number of elements the first N are the smaller one of both.
    """
    starts, ends = known.integers(node.input(1)), known.integers(node.input(2))
    steps = set(static_integers(known, node, 4) or [1])
    if starts is None or ends is None or not len(starts) == len(ends) == len(cut) or steps != {1}:
        return {}
    found = {}
    for axis, start, stop in zip((axis % len(source) for axis in cut), starts, ends, strict=True):
        end = source[axis] if stop.static == _LAST else stop
        factors = {bound.symbols for bound in (start, end, source[axis]) if bound.static != 0}
        if len(factors) <= 1 and 0 <= start.coefficient <= end.coefficient <= source[axis].coefficient:
            count = end.coefficient - start.coefficient
            found[axis] = Dim(count, source[axis].symbols if count else ())
        elif start.static == 0 and (source[axis].static or 0) > 1 and end.coefficient > 0 and not is_opaque(end):
            found[axis] = end.at_most(source[axis].coefficient)
    return found


def _without_padding(known: Known, node: Node, axis: int, taken: slice) -> Dim | None:
    """Return the size of an axis before a Pad, of whose result a Slice leaves as many elements as were added."""
    source = node.input(0)
    pad = None if source is None else source.producer
    if pad is None or not pad.is_a("Pad") or pad.input(3) is not None or taken.step != 1 or taken.start < 0:
        return None
    before, pads = known.shape(pad.input(0)), static_integers(known, pad, 1)
    if before is None or pads is None or len(pads) != 2 * len(before):
        return None
    added = pads[axis], pads[axis + len(before)]
    is_counted_from_the_end = taken.stop < 0 or taken.stop == _LAST
    is_as_many = taken.start - min(taken.stop, 0) == sum(added)
    return before[axis] if min(added) >= 0 and is_counted_from_the_end and is_as_many else None


def _axes_of_unknown_bounds(known: Known, node: Node) -> list[int] | None:
    """Return the constant axes that a Slice cuts at bounds that are no constants, or None."""
    steps = [1] if node.input(4) is None else static_integers(known, node, 4)
    if node.scope.opset < 10 or steps is None or 0 in steps:
        return None
    is_known = None not in [static_integers(known, node, position) for position in (1, 2)]
    return None if is_known else static_integers(known, node, 3)


def slice_ranges(known: Known, node: Node, rank: int) -> dict[int, slice] | None:
    """Return what a Slice takes of each axis that it cuts, as Python's slice; None if its bounds are not constant."""
    if node.scope.opset < 10:
        starts, ends = integers(node, "starts"), integers(node, "ends")
        axes, steps = integers(node, "axes"), None
    else:
        starts, ends = static_integers(known, node, 1), static_integers(known, node, 2)
        axes, steps = static_integers(known, node, 3), static_integers(known, node, 4)
        if (axes is None and node.input(3) is not None) or (steps is None and node.input(4) is not None):
            return None
    if starts is None or ends is None:
        return None
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    if not len(axes) == len(starts) == len(ends) == len(steps) or 0 in steps:
        return None
    if any(not -rank <= axis < rank for axis in axes):
        return None
    bounds = zip(axes, starts, ends, steps, strict=True)
    return {axis % rank: slice(start, end, step) for axis, start, end, step in bounds}


def slice_bounds(known: Known, node: Node, rank: int) -> dict[int, tuple[int, int]] | None:
    """Return the constant bounds of a Slice, `axis → (start, end)` as in Python; None if unknown or a step is not 1."""
    ranges = slice_ranges(known, node, rank)
    if ranges is None or any(taken.step != 1 for taken in ranges.values()):
        return None
    return {axis: (taken.start, taken.stop) for axis, taken in ranges.items()}
