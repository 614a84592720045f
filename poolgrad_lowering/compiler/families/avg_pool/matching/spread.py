# SPDX-License-Identifier: Apache-2.0

"""A ConvTranspose with a uniform kernel, and what follows it up to x: it adds each element to its window.

What is added to which elements, and by what it is divided, says which average pool's windows and divisors they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

import numpy as np

from poolgrad_lowering.compiler.families.avg_pool.gradient import AveragePoolGradient
from poolgrad_lowering.compiler.families.avg_pool.matching import planes
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.known import by_rule, need, require, static_integers
from poolgrad_lowering.model.facts.slices import slice_bounds
from poolgrad_lowering.model.facts.type_rules import HALF_TYPES
from poolgrad_lowering.model.ir.attributes import attribute, integer, integers, text
from poolgrad_lowering.model.ir.dims import Dim, Shape, Shown, is_static, size
from poolgrad_lowering.model.ir.scopes import MAX_CHAIN, Node, Value
from poolgrad_lowering.model.windows import AxisWindow, MeanWindows, PoolAttributes

S = TypeVar("S")

_PADS_AS_INPUT = 11
"""The first opset in which the pads of Pad are an input."""

_ANY = 4
"""Stands for a symbolic number of windows: if they fit so many, and strides times as many elements, they fit any."""


@dataclass(frozen=True, eq=False)
class Spread:
    """Sums over planes: element o of an axis is added to o·stride − begin … o·stride − begin + kernel − 1.

    `source` has the planes, whose spatial axes have the sizes `pooled`, as numbers `counts`, with `_ANY` for a symbolic
    one. `sizes` are those of the result. `complete` says whether the result has all elements of the last window,
    `scale` what it is divided by afterwards.
    """

    source: Value
    pooled: Shape
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    counts: tuple[int, ...]
    begins: tuple[int, ...]
    sizes: tuple[int, ...]
    complete: tuple[bool, ...]
    scale: planes.Scale

    @property
    def dims(self) -> tuple[Dim | None, ...]:
        """The sizes of the result; None for one that a symbolic count decides, and is not strides times as many."""
        found: list[Dim | None] = []
        for dim, stride, extent in zip(self.pooled, self.strides, self.sizes, strict=True):
            of_any = size((Dim(stride), dim)) if extent == stride * _ANY else None
            found.append(Dim(extent) if dim.static is not None else of_any)
        return tuple(found)

    def cut(self, bounds: dict[int, tuple[int, int]]) -> Spread | None:
        """Return what a Slice with these bounds of axes takes, axes counted from the last, -1; None if of others."""
        begins, sizes, complete = list(self.begins), list(self.sizes), list(self.complete)
        if any(axis < -len(sizes) for axis in bounds):
            return None
        for axis, (start, end) in bounds.items():
            first, last, _ = slice(start, end).indices(sizes[axis])
            complete[axis] = complete[axis] and last == sizes[axis]
            begins[axis] += first
            sizes[axis] = max(last - first, 0)
        return replace(self, begins=tuple(begins), sizes=tuple(sizes), complete=tuple(complete))

    def padded(self, before: Sequence[int], after: Sequence[int]) -> Spread | None:
        """Return what a Pad of the spatial axes with zeros makes of it; None if zeros would replace elements."""
        axes = range(-len(self.sizes), 0)
        found = self.cut(
            {axis: (max(-before[axis], 0), max(self.sizes[axis] + min(after[axis], 0), 0)) for axis in axes}
        )
        grown = [max(high, 0) for high in after]
        if found is None or any(low > 0 for low in before):
            return None
        if any(more and not whole for more, whole in zip(grown, found.complete, strict=True)):
            return None
        return replace(found, sizes=tuple(size + more for size, more in zip(found.sizes, grown, strict=True)))


def spread(facts: Facts, node: Node, kernel: tuple[int, ...]) -> Spread:
    """Return the windows to which a ConvTranspose with a uniform kernel adds the elements of each plane.

    Raises `Refuse` if its attributes or sizes are of a kind that is not supported.
    """
    source, axes = node.input(0), len(kernel)
    pooled = (facts.shape(source) or ())[2:]
    counts = tuple(_ANY if dim.static is None else dim.static for dim in pooled)
    windows, more = PoolAttributes.read(node, list(kernel)), integers(node, "output_padding", [0] * axes)
    are_windows = windows is not None and windows.auto_pad == "NOTSET" and windows.kernel == kernel
    is_read = are_windows and len(counts) == axes and attribute(node, "output_shape") in (None, [])
    if source is None or not is_read or windows is None or more is None or len(more) != axes:
        what = "ConvTranspose '{}' has attributes with which its windows are not read"
        raise Refuse(Code.POOL_ATTRIBUTES, what, node.label)
    strides = windows.strides
    if any(step > 1 and taps > 1 for step, taps in zip(windows.dilations, kernel, strict=True)):
        raise Refuse(Code.DILATED_AVERAGE, "ConvTranspose '{}' has dilations {}", node.label, list(windows.dilations))
    whole = tuple((count - 1) * stride + taps for count, stride, taps in zip(counts, strides, kernel, strict=True))
    full = Spread(source, pooled, kernel, strides, counts, (0,) * axes, whole, (True,) * axes, planes.Scale(np.ones(1)))
    behind = [extra - pad for extra, pad in zip(more, windows.ends, strict=True)]
    cut = full.padded([-pad for pad in windows.begins], behind) if min(counts) > 0 else None
    if cut is None or min(cut.sizes) < 1:
        what = "ConvTranspose '{}' has no element along an axis: {} windows"
        raise Refuse(Code.OUTPUT_SIZE, what, node.label, list(counts))
    if None in cut.dims:
        what = "the sizes of ConvTranspose '{}' are no multiples of the symbolic sizes {} of its input"
        raise Refuse(Code.UNKNOWN_SHAPE, what, node.label, Shown(pooled))
    return cut


def results(
    facts: Facts, node: Node, made: S, change: Callable[[Facts, Node, S], S | None] = lambda *_: None
) -> Iterator[tuple[Value, S]]:
    """Yield the values that hold the result, nearest first: changed, viewed, or at last cast to a half type.

    `made` describes the first one, `change` returns what a node makes of it, None if nothing of the kind. Each is read
    by one node only. There is at most one cast: what is behind it would read rounded values.
    """
    value, is_cast = node.output(0), False
    for _ in range(MAX_CHAIN):
        if value is None:
            return
        yield value, made
        reader = value.only_reader
        if reader is None:
            return
        if reader.is_a("Cast") and integer(reader, "to") in HALF_TYPES and not is_cast:
            is_cast = True
        elif not facts.is_view(reader) or reader.input(0) != value:
            changed = None if is_cast else change(facts, reader, made)
            if changed is None:
                return
            made = changed
        value = reader.output(0)


def changed(facts: Facts, node: Node, made: Spread) -> Spread | None:
    """What a node makes of the result, as `cropped` or `scaled`; None for any other node."""
    return by_rule(cropped, facts, node, made) or scaled(facts, node, made)


def scaled(facts: Facts, node: Node, made: Spread) -> Spread | None:
    """What a Mul or Div by one number makes of the result; None for any other node."""
    constants = [values for _, values in planes.scaled_operands(facts, node) if values.size]
    found = [values.reshape(-1)[:1] for values in constants if (values == values.flat[0]).all()]
    return replace(made, scale=made.scale.by(found[0], divides=node.is_a("Div"))) if found else None


def cropped(facts: Facts, node: Node, made: Spread) -> Spread | None:
    """What a Slice or a Pad with zeros makes of planes; a rule that does not apply to any other node."""
    shape, axes = need(facts.shape(node.input(0))), len(made.kernel)
    require(len(shape) >= axes and shape[-axes:] == made.dims)
    if node.is_a("Slice"):
        bounds = need(slice_bounds(facts, node, len(shape)))
        require(is_static(tuple(shape[axis] for axis in bounds)))
        return made.cut({axis - len(shape): each for axis, each in bounds.items()})
    require(node.is_a("Pad") and text(node, "mode", "constant") == "constant" and node.input(3) is None)
    pads = need(integers(node, "pads") if node.scope.opset < _PADS_AS_INPUT else static_integers(facts, node, 1))
    fill, outer = node.input(2), len(shape) - axes
    require(len(pads) == 2 * len(shape) and (fill is None or facts.is_zero(fill)))
    before, after = pads[: len(shape)], pads[len(shape) :]
    require(not any(before[:outer] + after[:outer]))
    return made.padded(before[outer:], after[outer:])


Stage = tuple[Spread, list[Value]]
"""Sums, and the values that have them."""


def stages(results: Iterable[tuple[Value, Spread]]) -> list[Stage]:
    """Return the stages of a result, from what is cut most to what is not cut."""
    grouped = groupby(results, itemgetter(1))
    return [(made, [value for value, _ in pairs]) for made, pairs in grouped][::-1]


def average(facts: Facts, found: Sequence[Stage], divided: Sequence[planes.Quotient]) -> AveragePoolGradient | None:
    """Return the gradient of the first stage that is divided by the numbers of elements of its windows, else None."""
    for made, values in found:
        if (pool := pool_of(made)) is None:
            continue
        for quotient in divided:
            padded = _counted(pool, made, quotient.scale.then(made.scale))
            gradient = None if padded is None else written(facts, quotient, made, values, pool, padded=padded)
            if gradient is not None:
                return gradient
    return None


def written(
    facts: Facts,
    quotient: planes.Quotient,
    made: Spread,
    values: list[Value],
    pool: PoolAttributes,
    *,
    padded: bool = False,
    divisor: int = 0,
) -> AveragePoolGradient | None:
    """Return the gradient of a pool between what is divided and the values that have the sums; None if there is none.

    `padded` and `divisor` are those of `planes.written_gradient`.
    """
    extents = tuple(dim for dim in made.dims if dim is not None)
    if len(extents) < len(made.dims):
        return None
    own, sizes = quotient.dividends, (made.pooled, extents)
    return planes.written_gradient(facts, own, values, sizes, pool, padded=padded, divisor=divisor)


def pool_of(made: Spread) -> PoolAttributes | None:
    """Return the windows as an ONNX pool: PyTorch's, whose pads are equal at both ends, or with an end that fits.

    None if they are more or fewer than a pool has.
    """
    rows = list(zip(made.kernel, made.strides, made.begins, made.sizes, made.counts, strict=True))
    fitting = tuple(max((count - 1) * stride + kernel - begin - size, 0) for kernel, stride, begin, size, count in rows)
    for ends, ceil in ((made.begins, False), (made.begins, True), (fitting, False)):
        windows = [AxisWindow(*row[:3], end, 1) for row, end in zip(rows, ends, strict=True)]
        counts = [window.output_size(size, ceil=ceil) for window, size in zip(windows, made.sizes, strict=True)]
        behind = (window.starts_behind(row[4] - 1, row[3]) for window, row in zip(windows, rows, strict=True))
        if tuple(counts) == made.counts and not any(behind):
            return PoolAttributes.of(windows, ceil=ceil)
    return None


def _counted(pool: PoolAttributes, made: Spread, scale: planes.Scale) -> bool | None:
    """Whether each element is divided by those of its window, the padding's too (True) or without them (False).

    None if by anything else.
    """
    own = pool.windows, made.sizes, made.counts
    divisors = {padded: MeanWindows(*own, padded).divisors() for padded in (False, True)}
    return next((padded for padded, numbers in divisors.items() if scale.is_division_by(numbers)), None)
