# SPDX-License-Identifier: Apache-2.0

"""`dX[n, c, i] = Σ dY[n, c, o] / (the elements of window o)` over the windows o of adaptive pooling that contain i.

Graph: PyTorch's _adaptive_avg_pool2d_backward and 3d as `poolgrad_lowering.torch` writes them, for sizes that do not
divide: a table has the numbers of the windows of each element of a plane, the last one repeated, and a mask leaves out
what is repeated.

    mean = Div(dY, elements)
    gathered = Reshape(Gather(Reshape(mean, [N, C, windows]), table, axis = -1), [N, C, elements of a plane, taps])
    dX = Reshape(ReduceSum(Where(mask, gathered, 0), axes = [-1]), shape of X)

What must hold: table, mask and the divisors are computed from constants and, element by element, those of adaptive
pooling from X's sizes to dY's. Where no value has X's sizes, as between tokens and images, those are taken with which
the tables are such. The operator of Ascend needs a tensor of X's shape, which this form has not: it gets one of zeros.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from poolgrad_lowering.compiler.analysis.constant_values import constant_value
from poolgrad_lowering.compiler.families.avg_pool.gradient import AveragePoolGradient
from poolgrad_lowering.compiler.families.avg_pool.matching.planes import Quotient, quotients, written_gradient
from poolgrad_lowering.compiler.families.avg_pool.matching.spread import results
from poolgrad_lowering.compiler.families.gradient import form
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.known import by_rule, need, require, static_integers
from poolgrad_lowering.model.ir.attributes import integer, integers
from poolgrad_lowering.model.ir.dims import is_static, static_dims
from poolgrad_lowering.model.ir.scopes import Node, Value
from poolgrad_lowering.model.windows import AdaptiveWindows, adaptive_bounds, factorisations

Sizes = tuple[int, ...]


class _Tables(NamedTuple):
    """The planes of quotients, the numbers of the windows of each element, a row each, and which of them count."""

    means: Value
    windows: int
    numbers: npt.NDArray[Any]
    mask: npt.NDArray[Any]


@form(
    ("", "ReduceSum"),
    summary="PyTorch through poolgrad_lowering.torch: a sum over gathered windows of adaptive pooling",
    priority=60,
)
def match(facts: Facts, node: Node) -> AveragePoolGradient | None:
    """The gradient that the sum computes; raises `Refuse` where it cannot be lowered. None for any other sum."""
    tables = by_rule(_tables, facts, node)
    if tables is None:
        return None
    sums = [value for value, _ in results(facts, node, None)]
    tried: tuple[Sizes, Sizes] | None = None
    for quotient, counts in _divided(facts, tables):
        for sizes in _plane_sizes(facts, sums, len(tables.numbers), len(counts)):
            if _are_windows(quotient, tables, sizes, counts):
                extents = static_dims(counts), static_dims(sizes)
                found = written_gradient(facts, quotient.dividends, sums, extents, AdaptiveWindows())
                if found is None:
                    what = "no value behind '{}' has the element type of '{}'"
                    raise Refuse(Code.DX_SHAPE, what, node.label, quotient.dividends[0].name)
                return found
            tried = tried or (sizes, counts)
    if tried is None:
        return None
    what = "the tables of '{}' are not those of adaptive pooling from {} to {}"
    raise Refuse(Code.WINDOW_TABLES, what, node.label, *map(list, tried))


def _tables(facts: Facts, node: Node) -> _Tables:
    """The tables of a sum over gathered windows; a rule that does not apply if the node sums anything else."""
    choice = need(need(node.input(0)).producer)
    require(choice.is_a("Where") and integer(node, "keepdims") == 0)
    condition, gathered, nothing = (choice.input(position) for position in range(3))
    require(facts.is_zero(nothing))
    gather = need(facts.behind_views(gathered, "Gather"))
    means, numbers = need(gather.input(0)), need(constant_value(facts, gather.input(1)))
    mask, view = need(constant_value(facts, condition)), need(facts.shape(gathered))
    rows = need(facts.shape(means))
    require(rows and integer(gather, "axis") in (-1, len(rows) - 1))
    axes = integers(node, "axes") if node.scope.opset < 13 else static_integers(facts, node, 1)
    grid = mask.shape[-2:]
    require(len(grid) == 2 and mask.size == numbers.size == math.prod(grid) > 0)  # shared by all planes
    require(view[-2:] == static_dims(grid) and axes in ([-1], [len(view) - 1]))
    return _Tables(means, need(rows[-1].static), numbers.reshape(grid), mask.reshape(grid).astype(bool))


def _divided(facts: Facts, tables: _Tables) -> Iterator[tuple[Quotient, Sizes]]:
    """Yield the divisions of the planes' windows, with each number of windows along each of one to three axes."""
    node = tables.means.behind(facts.is_view).producer
    shape = None if node is None or not node.is_a("Div", "Mul") else facts.shape(node.output(0))
    for axes in (1, 2, 3):
        last = (shape or ())[-axes:]
        counts = tuple(dim.coefficient for dim in last)
        if len(last) == axes and is_static(last) and math.prod(counts) == tables.windows:
            yield from ((found, counts) for found in quotients(facts, tables.means, counts) if found.scaled_by)


def _plane_sizes(facts: Facts, sums: Iterable[Value], plane: int, axes: int) -> Iterable[Sizes]:
    """The sizes of a plane as a value has them behind N and C, or else all that it can have."""
    shapes = [facts.shape(value) for value in sums]
    known = [shape[2:] for shape in shapes if shape is not None and len(shape) == axes + 2 and is_static(shape[2:])]
    sizes = [tuple(dim.coefficient for dim in last) for last in known]
    return [each for each in sizes if math.prod(each) == plane][-1:] or factorisations(plane, axes)


def _are_windows(quotient: Quotient, tables: _Tables, sizes: Sizes, counts: Sizes) -> bool:
    """Whether each element's row has the windows that contain it, and each window is divided by its elements."""
    bounds = [adaptive_bounds(np.arange(count), size, count) for size, count in zip(sizes, counts, strict=True)]
    lengths = functools.reduce(np.multiply.outer, [end - begin for begin, end in bounds])
    if not quotient.scale.is_division_by(lengths):
        return False
    numbers = np.arange(tables.windows).reshape(counts)
    for row, shown, element in zip(tables.numbers, tables.mask, product(*map(range, sizes)), strict=True):
        along = [
            np.flatnonzero((begin <= place) & (place < end))
            for place, (begin, end) in zip(element, bounds, strict=True)
        ]
        if not np.array_equal(row[shown], numbers[np.ix_(*along)].reshape(-1)):
            return False
    return True
