# SPDX-License-Identifier: Apache-2.0

"""`dX[n, c].flat[p(n, c, o)] += dY[n, c, o]`, p the position of the first maximum in window o of plane (n, c).

The windows are those of a MaxPool, written out by index arithmetic as torch decomposes `max_pool2d_with_indices` where
it is told to:

    windows = GatherND(Transpose(Pad(x, −inf)), table of canvas coordinates)
    k = ArgMax(Reshape(Transpose(windows)))              # one window a row
    p = arithmetic on k: row and column of the tap, then the position in the plane
    dX = Reshape(ScatterElements(zeros, p, dY, reduction="add"))

What must hold is proven by computing it: each window, read off the table and the pads, reads what that MaxPool pools,
in its order; and for every answer of ArgMax the arithmetic gives the position that was read. A window of nothing but
−inf may choose its padding, whose position means nothing; CANN takes no −inf either.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from poolgrad_lowering.compiler.analysis.constant_values import ARITHMETIC_RULES, constant_value
from poolgrad_lowering.compiler.analysis.evaluation import Array, static_shape
from poolgrad_lowering.compiler.families.gradient import form
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.max_pool.matching import axis_maximum, window_tables
from poolgrad_lowering.compiler.families.max_pool.matching.forward import Pooled
from poolgrad_lowering.compiler.families.max_pool.matching.scatter import Scatter, plane_gradient
from poolgrad_lowering.compiler.families.shared.checks import known_element_type
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.known import by_rule, need, require, static_integers
from poolgrad_lowering.model.ir.dims import static_dims
from poolgrad_lowering.model.ir.scopes import MAX_CHAIN, Node, Value
from poolgrad_lowering.model.windows import AxisWindow, PoolAttributes


class _Gathered(NamedTuple):
    """The GatherND that takes the windows: from x (N, C, spatial…), padded, by canvas coordinates.

    `coordinates` is (out, kernel, out, kernel, …, axis), `pads` are those of a Pad over all axes, begins first.
    """

    x: Value
    sizes: tuple[int, ...]
    pads: tuple[int, ...]
    coordinates: Array


@form(
    ("", "ScatterElements"),
    summary="MaxPool written out: ScatterElements(reduction=add) by arithmetic on an ArgMax over GatherND's windows",
    priority=20,
)
def match(facts: Facts, node: Node) -> MaxPoolGradient | None:
    """The gradient that a ScatterElements node computes, None where nothing was computed."""
    scatter = Scatter.read(node)
    reducer = _computed_from(facts, scatter.recorded)
    if reducer is None:
        return None
    transpose = facts.behind_views(reducer.input(0), "Transpose")
    gather = facts.behind_views((transpose or reducer).input(0), "GatherND")
    if gather is None:
        return None
    maximum = axis_maximum.FirstMaximum.read(facts, reducer)
    gathered = by_rule(_gathered, facts, gather)
    if gathered is None or maximum.axis != len(maximum.shape) - 1:
        raise Refuse(Code.WINDOW_TABLES, "GatherND '{}' is not proven to take windows", gather.label)
    windows = [_window(gathered, axis) for axis in range(len(gathered.sizes) - 2)]
    pooled, is_adaptive = _pooled(facts, maximum, scatter.recorded, gathered, windows)
    gradient = plane_gradient(facts, scatter, pooled)
    return axis_maximum.with_gathered_reduction(facts, gradient, reducer, is_adaptive=is_adaptive)


def _computed_from(facts: Facts, recorded: Value) -> Node | None:
    """The ArgMax from whose result the indices are computed by arithmetic; None for views of the result."""
    pending, computed = [recorded], False
    for _ in range(MAX_CHAIN):
        if not pending:
            return None
        made = pending.pop().producer
        if made is None:
            continue
        if made.is_a("ArgMax"):
            return made if computed else None
        is_arithmetic = made.is_a(*ARITHMETIC_RULES)
        if is_arithmetic or facts.is_view(made):
            computed = computed or is_arithmetic
            pending += [operand for operand in made.inputs if operand is not None]
    return None


def _gathered(facts: Facts, gather: Node) -> _Gathered:
    """The GatherND as a record; a rule that applies if it reads planes of one tensor by a table of coordinates."""
    coordinates, transpose = need(constant_value(facts, gather.input(1))), need(need(gather.input(0)).origin.producer)
    require(transpose.is_a("Transpose"))
    canvas = need(transpose.input(0))
    made = canvas.origin.producer
    pad = made if made is not None and made.is_a("Pad") else None
    x = canvas if pad is None else need(pad.input(0))
    sizes = need(static_shape(facts, x))
    require(len(sizes) in axis_maximum.RANKS and 0 not in sizes)
    pads = [0] * 2 * len(sizes) if pad is None else need(static_integers(facts, pad, 1))
    spatial = len(sizes) - 2
    require(len(pads) == 2 * len(sizes) and coordinates.size)
    require(coordinates.ndim == 2 * spatial + 1 and coordinates.shape[-1] == spatial)
    return _Gathered(x, sizes, tuple(pads), coordinates)


def _window(gathered: _Gathered, axis: int) -> AxisWindow:
    """A guess of the windows along a spatial axis, from a few entries of the table; the caller proves them."""
    rank = len(gathered.sizes)
    begin, end = gathered.pads[2 + axis], gathered.pads[rank + 2 + axis]
    others = tuple(other for other in range(2 * (rank - 2)) if other // 2 != axis)
    taps = gathered.coordinates[..., axis].min(axis=others)
    count, kernel = taps.shape
    # Of a single window no stride is seen: one beyond the canvas makes no second one.
    stride = int(taps[1, 0] - taps[0, 0]) if count > 1 else begin + gathered.sizes[2 + axis] + end
    return AxisWindow(kernel, stride, begin, end, int(taps[0, 1] - taps[0, 0]) if kernel > 1 else 1)


def _pooled(
    facts: Facts, maximum: axis_maximum.FirstMaximum, recorded: Value, gathered: _Gathered, windows: list[AxisWindow]
) -> tuple[Pooled, bool]:
    """The pool, its windows proven to be those of a MaxPool, and whether they are those of adaptive pooling."""
    sizes, counts = gathered.sizes, gathered.coordinates.shape[::2][:-1]
    table = window_tables.written_windows(facts, maximum, recorded, gathered.x, math.prod(sizes[:2]))
    positive = all(min(window.stride, window.dilation) > 0 for window in windows)
    if not positive or not window_tables.same_windows(table, window_tables.pool_table(windows, sizes[2:], counts)):
        raise Refuse(Code.WINDOW_TABLES, "the windows of '{}' are not those of a max pool", gathered.x.name)
    element_type = known_element_type(facts, gathered.x)
    shapes = static_dims(sizes), static_dims(sizes[:2] + counts)
    pooled = Pooled(gathered.x, element_type, *shapes, PoolAttributes.of(windows))
    return pooled, np.array_equal(table, window_tables.adaptive_table(sizes[2:], counts))
