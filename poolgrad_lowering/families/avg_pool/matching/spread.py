# SPDX-License-Identifier: Apache-2.0

"""A ConvTranspose with a kernel of ones, and the nodes that cut its result to x: it adds each element to its window."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.analysis.shape_rules import slice_bounds, static_integers
from poolgrad_lowering.analysis.type_rules import HALF_TYPES
from poolgrad_lowering.diagnostics.codes import Code, Refuse
from poolgrad_lowering.ir.attributes import attribute, integer, integers, text
from poolgrad_lowering.ir.dims import is_static
from poolgrad_lowering.ir.scopes import MAX_CHAIN, Node, Value
from poolgrad_lowering.windows.onnx_pool import PoolAttributes

S = TypeVar("S")

_PADS_AS_INPUT = 11
"""The first opset in which the pads of Pad are an input."""


@dataclass(frozen=True)
class Spread:
    """A ConvTranspose over planes: element o of an axis is added to o·stride − begin … o·stride − begin + kernel − 1.

    `source` has the planes, as (N·C, 1, spatial…), or as (N, C, spatial…) with one group for each channel. `counts` and
    `sizes` are the sizes of its spatial axes and of those of the result. `complete` says whether the result has all
    elements of the last window.
    """

    source: Value
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    counts: tuple[int, ...]
    begins: tuple[int, ...]
    sizes: tuple[int, ...]
    complete: tuple[bool, ...]

    def cut(self, bounds: dict[int, tuple[int, int]]) -> Spread | None:
        """Return what a Slice of the spatial axes with these bounds takes; None if it cuts another axis."""
        begins, sizes, complete = list(self.begins), list(self.sizes), list(self.complete)
        for axis, (start, end) in bounds.items():
            number = axis - 2
            if number < 0:
                return None
            first, last, _ = slice(start, end).indices(sizes[number])
            complete[number] = complete[number] and last == sizes[number]
            begins[number] += first
            sizes[number] = max(last - first, 0)
        return replace(self, begins=tuple(begins), sizes=tuple(sizes), complete=tuple(complete))

    def padded(self, pads: list[int]) -> Spread | None:
        """Return what a Pad with zeros makes of it; None if it pads another axis, or zeros would replace elements."""
        rank = 2 + len(self.kernel)
        if len(pads) != 2 * rank or any(pads[:2]) or any(pads[rank : rank + 2]):
            return None
        before, after = pads[2:rank], pads[rank + 2 :]
        cut = {
            2 + axis: (max(-low, 0), self.sizes[axis] - max(-high, 0))
            for axis, (low, high) in enumerate(zip(before, after, strict=True))
        }
        found = self.cut(cut)
        grown = [max(high, 0) for high in after]
        if found is None or any(low > 0 for low in before):
            return None
        if any(more and not whole for more, whole in zip(grown, found.complete, strict=True)):
            return None
        return replace(found, sizes=tuple(size + more for size, more in zip(found.sizes, grown, strict=True)))


def spread(facts: Facts, node: Node) -> Spread | None:
    """Return the windows to which a ConvTranspose with a constant kernel of ones adds; None for another weight.

    Raises `Refuse` if its attributes are of a kind that is not supported.
    """
    source, weight = node.input(0), node.input(1)
    ones = () if weight is None or node.input(2) is not None else _shape_of_ones(facts, weight)
    if source is None or len(ones) < 3:
        return None
    shape, group = facts.shape(source), integer(node, "group")
    axes = len(ones) - 2
    if shape is None or len(shape) != len(ones) or ones[1] != 1 or group != ones[0]:
        return None
    if shape[1].static != group:
        return None
    known = [dim.static for dim in shape[2:] if dim.static is not None]
    windows, more = PoolAttributes.read(node, list(ones[2:])), integers(node, "output_padding", [0] * axes)
    are_windows = windows is not None and windows.auto_pad == "NOTSET" and windows.kernel == ones[2:]
    is_read = are_windows and len(known) == axes and attribute(node, "output_shape") in (None, [])
    if not is_read or windows is None or more is None or len(more) != axes:
        what = "ConvTranspose '{}' has symbolic spatial sizes, or attributes with which its windows are not read"
        raise Refuse(Code.POOL_ATTRIBUTES, what, node.label)
    kernel, strides = windows.kernel, windows.strides
    if any(step > 1 and taps > 1 for step, taps in zip(windows.dilations, kernel, strict=True)):
        raise Refuse(Code.DILATED_AVERAGE, "ConvTranspose '{}' has dilations {}", node.label, list(windows.dilations))
    rows = zip(known, strides, kernel, strict=True)
    whole = tuple((count - 1) * stride + taps for count, stride, taps in rows)
    full = Spread(source, kernel, strides, tuple(known), (0,) * axes, whole, (True,) * axes)
    behind = [extra - pad for extra, pad in zip(more, windows.ends, strict=True)]
    return full.padded([0, 0, *(-pad for pad in windows.begins), 0, 0, *behind])


def _shape_of_ones(facts: Facts, weight: Value) -> tuple[int, ...]:
    """The shape of a constant whose elements are all one; empty for any other value."""
    held, shape = facts.constant(weight), facts.shape(weight)
    filled = facts.fill(weight) if held is None else held
    if filled is None or not filled.size or not (filled == 1).all() or shape is None or not is_static(shape):
        return ()
    return tuple(dim.coefficient for dim in shape)


def results(
    facts: Facts, node: Node, made: S, change: Callable[[Facts, Node, S], S | None] = lambda *_: None
) -> Iterator[tuple[Value, S]]:
    """Yield the values that hold the result, nearest first: changed, then viewed, or cast to a half type.

    `made` describes the first one, `change` returns what a node makes of it, None if nothing of the kind. Each is read
    by one node only. There is at most one cast: a second one would read rounded values.
    """
    value, is_viewed, is_cast = node.output(0), False, False
    for _ in range(MAX_CHAIN):
        reader = None if value is None else value.only_reader
        if value is not None:
            yield value, made
        if reader is None or reader.input(0) != value:
            return
        if facts.is_view(reader):
            is_viewed = True
        elif reader.is_a("Cast") and integer(reader, "to") in HALF_TYPES and not is_cast:
            is_viewed = is_cast = True
        elif (changed := change(facts, reader, made)) is not None and not is_viewed:
            made = changed
        else:
            return
        value = reader.output(0)


def cropped(facts: Facts, node: Node, made: Spread) -> Spread | None:
    """What a Slice or a Pad with zeros makes of the result; None for any other node."""
    if node.is_a("Slice"):
        bounds = slice_bounds(facts, node, 2 + len(made.kernel))
        return None if bounds is None else made.cut(bounds)
    if not node.is_a("Pad") or text(node, "mode", "constant") != "constant" or node.input(3) is not None:
        return None
    pads = integers(node, "pads") if node.scope.opset < _PADS_AS_INPUT else static_integers(facts, node, 1)
    fill = node.input(2)
    return None if pads is None or not (fill is None or facts.is_zero(fill)) else made.padded(pads)
