# SPDX-License-Identifier: Apache-2.0

"""`dX[n, c, i] = Σ dY[n, c, o] / (the elements of window o)` over the windows o of adaptive pooling that contain i.

Graph: PyTorch's _adaptive_avg_pool2d_backward and 3d as `poolgrad_lowering.torch` writes them, for sizes that do not
divide: a table has the numbers of the windows of each element of a plane, the last one repeated, and a mask leaves out
what is repeated.

    mean = Div(dY, elements)
    gathered = Reshape(Gather(Reshape(mean, [N, C, windows]), table, axis = -1), [N, C, elements of a plane, taps])
    dX = Reshape(ReduceSum(Where(mask, gathered, 0), axes = [-1]), shape of X)

What must hold: table, mask and the divisors are constant and, element by element, those of adaptive pooling from X's
sizes to dY's. The operator of Ascend needs a tensor of X's shape, which this form has not: it gets one of zeros.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.analysis.shape_rules import static_integers
from poolgrad_lowering.diagnostics.codes import Code, Refuse
from poolgrad_lowering.families.avg_pool.gradient import AveragePoolGradient
from poolgrad_lowering.families.avg_pool.matching.division import Division, division
from poolgrad_lowering.families.avg_pool.matching.spread import results
from poolgrad_lowering.families.gradient import Pattern
from poolgrad_lowering.ir.attributes import integer, integers
from poolgrad_lowering.ir.dims import static_dims
from poolgrad_lowering.ir.scopes import Node, Value
from poolgrad_lowering.windows.adaptive import AdaptiveWindows
from poolgrad_lowering.windows.axis import adaptive_bounds

Table = npt.NDArray[Any]


def match(facts: Facts, node: Node) -> AveragePoolGradient | None:
    """The gradient that the sum computes; raises `Refuse` where it cannot be lowered. None for any other sum."""
    found = _tables(facts, node)
    if found is None:
        return None
    divided, table, mask = found
    dx, sizes = _result(facts, node, divided, len(table))
    if not _are_windows(divided, table, mask, sizes):
        what = "the tables of '{}' are not those of adaptive pooling from {} to {}"
        raise Refuse(Code.WINDOW_TABLES, what, node.label, list(sizes), list(divided.counts))
    return divided.gradient(facts, dx, sizes, AdaptiveWindows())


def _tables(facts: Facts, node: Node) -> tuple[Division, Table, Table] | None:
    """The division, and table and mask with a row for each element of a plane; None if the node sums anything else."""
    kept = node.input(0)
    choice = None if kept is None else kept.producer
    if choice is None or not choice.is_a("Where") or integer(node, "keepdims") != 0:
        return None
    condition, gathered, nothing = (choice.input(position) for position in range(3))
    if not facts.is_zero(nothing):
        return None
    gather = facts.behind_views(gathered, "Gather")
    if gather is None:
        return None
    means, table, mask = gather.input(0), facts.table(gather.input(1)), facts.table(condition)
    divided, rows = division(facts, means), facts.shape(means)
    if table is None or mask is None or divided is None or rows is None:
        return None
    is_last = integer(gather, "axis") in (-1, len(rows) - 1) and rows[-1].static == divided.divisors.size
    axes = integers(node, "axes") if node.scope.opset < 13 else static_integers(facts, node, 1)
    view, grid = facts.shape(gathered), mask.shape[-2:]
    is_shared = len(grid) == 2 and mask.size == table.size == math.prod(grid)  # by all planes
    if not is_last or not is_shared or view is None or view[-2:] != static_dims(grid):
        return None
    return (divided, table.reshape(grid), mask.reshape(grid)) if axes in ([-1], [len(view) - 1]) else None


def _result(facts: Facts, node: Node, divided: Division, plane: int) -> tuple[Value, tuple[int, ...]]:
    """The last value behind the sums with N, C and as many spatial axes as dY, and its spatial sizes."""
    held = []
    for value, _ in results(facts, node, None):
        sizes = tuple(dim.static or 0 for dim in (facts.shape(value) or ())[2:])
        if math.prod(sizes) == plane and divided.fits(facts, value, sizes):
            held.append((value, sizes))
    if not held:
        what = "no value behind '{}' has the shape of a pooled input of '{}'"
        raise Refuse(Code.DX_SHAPE, what, node.label, divided.grad.name)
    return held[-1]


def _are_windows(divided: Division, table: Table, mask: Table, sizes: Sequence[int]) -> bool:
    """Whether each element's row has the windows that contain it, and each window is divided by its elements."""
    counts = divided.counts
    bounds = [adaptive_bounds(np.arange(count), size, count) for size, count in zip(sizes, counts, strict=True)]
    lengths = functools.reduce(np.multiply.outer, [end - begin for begin, end in bounds])
    if not np.array_equal(lengths, divided.divisors):
        return False
    numbers = np.arange(divided.divisors.size).reshape(counts)
    for row, shown, element in zip(table, mask.astype(bool), product(*map(range, sizes)), strict=True):
        along = [
            np.flatnonzero((begin <= place) & (place < end))
            for place, (begin, end) in zip(element, bounds, strict=True)
        ]
        if not np.array_equal(row[shown], numbers[np.ix_(*along)].reshape(-1)):
            return False
    return True


PATTERN = Pattern(
    name="torch_adaptive_average_pool_grad",
    anchors=(("", "ReduceSum"),),
    summary="PyTorch through poolgrad_lowering.torch: a sum over gathered windows of adaptive pooling",
    match=match,
    priority=60,
)
