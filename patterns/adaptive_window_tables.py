# SPDX-License-Identifier: Apache-2.0

"""`dX[n, c].flat[p(n, c, o)] += dY[n, c, o]`, p the position of the first maximum in window o of plane (n, c).

Along each axis, window o spans ⌊o·in/out⌋ … ⌈(o+1)·in/out⌉ − 1: PyTorch's AdaptiveMaxPool. ONNX has no operator for it
where the sizes do not divide, so decompositions write the windows out by constant tables:

    windows = Gather(x as rows, table of windows)        # all as long as the longest one
    k = ArgMax(Where(mask, windows, −inf))
    p = GatherElements(table of positions, k)
    dX = Reshape(ScatterElements(zeros, p, dY, reduction="add"))

What must hold is proven value by value: each window reads what adaptive pooling pools, in row-major order, and the
table of positions tells where element k of the window was read. Where an optimiser has removed the sizes of the plane,
they are found again as sizes whose adaptive windows are those of the table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from poolgrad_lowering.compiler.analysis.evaluation import static_shape
from poolgrad_lowering.compiler.families.gradient import Operand, form
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.max_pool.matching import axis_maximum, window_tables
from poolgrad_lowering.compiler.families.max_pool.matching.forward import Pooled
from poolgrad_lowering.compiler.families.max_pool.matching.scatter import Scatter, plane_gradient
from poolgrad_lowering.compiler.families.shared.checks import known_element_type
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.dims import static_dims
from poolgrad_lowering.model.ir.scopes import Node, Value
from poolgrad_lowering.model.windows import factorisations


@form(
    ("", "ScatterElements"),
    summary="AdaptiveMaxPool written out: ScatterElements(reduction=add) by an ArgMax over windows gathered by a table",
    priority=10,
)
def match(facts: Facts, node: Node) -> MaxPoolGradient | None:
    """The gradient that a ScatterElements node computes, None where no table is read."""
    scatter = Scatter.read(node)
    lookup = facts.behind_views(scatter.recorded, "GatherElements")
    reducer = None if lookup is None else facts.behind_views(lookup.input(1), "ArgMax")
    if reducer is None:
        return None
    pooled, is_filled_behind = _pooled(facts, axis_maximum.FirstMaximum.read(facts, reducer), scatter.recorded)
    found = plane_gradient(facts, scatter, pooled)
    found = replace(found, x=Operand.of(pooled.x, facts.shape(pooled.x), pooled.x_shape))
    return axis_maximum.with_gathered_reduction(facts, found, reducer, is_adaptive=is_filled_behind)


def _pooled(facts: Facts, maximum: axis_maximum.FirstMaximum, recorded: Value) -> tuple[Pooled, bool]:
    """The pool that the tables prove, and whether −inf fills the same places as in `adaptive_table`."""
    rows = _gathered_rows(facts, maximum)
    shape = static_shape(facts, rows)
    is_read = shape is not None and len(shape) > 1 and 0 not in shape and maximum.axis == len(maximum.shape) - 1
    if rows is None or shape is None or not is_read:
        raise Refuse(Code.WINDOW_TABLES, "ArgMax '{}' is not over windows gathered by a table", maximum.node.label)
    element_type = known_element_type(facts, rows)
    table = window_tables.written_windows(facts, maximum, recorded, rows, math.prod(shape[:-1]))
    for x, x_shape in _planes(facts, rows, shape):
        counts = window_tables.adaptive_counts(table, x_shape[2:])
        if counts is not None:
            pooled = Pooled(x, element_type, static_dims(x_shape), static_dims(x_shape[:2] + counts))
            return pooled, np.array_equal(table, window_tables.adaptive_table(x_shape[2:], counts))
    raise Refuse(Code.WINDOW_TABLES, "the windows of '{}' are not those of adaptive pooling", rows.name)


def _gathered_rows(facts: Facts, maximum: axis_maximum.FirstMaximum) -> Value | None:
    """The planes as rows, from which a Gather takes the windows behind a mask and a view."""
    mask = facts.behind_views(maximum.data, "Where")
    gather = facts.behind_views(maximum.data if mask is None else mask.input(1), "Gather")
    return None if gather is None else gather.input(0)


def _planes(facts: Facts, rows: Value, shape: tuple[int, ...]) -> Iterator[tuple[Value, tuple[int, ...]]]:
    """Tensors whose (n, c) planes are the rows, with their shapes: values of the graph first, then the rows themselves
    in each shape that they may have had.
    """
    for source in reversed(list(rows.sources(facts.is_view))):
        found = static_shape(facts, source)
        if found is not None and len(found) in axis_maximum.RANKS and math.prod(found[2:]) == shape[-1]:
            yield source, found
    if len(shape) == 3:
        yield from ((rows, shape[:2] + sizes) for sizes in factorisations(shape[-1], 2))
