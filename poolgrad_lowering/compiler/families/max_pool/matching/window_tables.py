# SPDX-License-Identifier: Apache-2.0

"""The windows of a pool as a table: for each window of a plane, the plane positions that it reads, in order.

A table has one row a window, row-major over the outputs; `NOWHERE` stands for what lies outside the plane. Two tables
mean the same windows where each row has the same positions in the same order, wherever the fill stands.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poolgrad_lowering.compiler.analysis.evaluation import Array
from poolgrad_lowering.compiler.analysis.movement_rules import NOWHERE
from poolgrad_lowering.model.windows.axis import AxisWindow, adaptive_bounds, factorisations


def pool_table(windows: Sequence[AxisWindow], sizes: Sequence[int], counts: Sequence[int]) -> Array:
    """The table of a max pool with these windows, one per spatial axis."""
    return _product([_taps(*axis) for axis in zip(windows, sizes, counts, strict=True)], sizes)


def adaptive_table(sizes: Sequence[int], counts: Sequence[int]) -> Array:
    """The table of PyTorch's adaptive pooling."""
    return _product([_span(*axis) for axis in zip(sizes, counts, strict=True)], sizes)


def same_windows(left: Array, right: Array) -> bool:
    """Whether two tables mean the same windows."""
    in_left, in_right = left != NOWHERE, right != NOWHERE
    as_long = np.array_equal(in_left.sum(axis=1), in_right.sum(axis=1))
    return as_long and np.array_equal(left[in_left], right[in_right])


def adaptive_counts(table: Array, sizes: Sequence[int]) -> tuple[int, ...] | None:
    """The output sizes with which adaptive pooling over these sizes has the table's windows; None where none do."""
    first = table[0][table[0] != NOWHERE]
    for counts in factorisations(len(table), len(sizes)):
        if np.array_equal(first, _first_window(sizes, counts)) and same_windows(table, adaptive_table(sizes, counts)):
            return counts
    return None


def _taps(window: AxisWindow, size: int, count: int) -> Array:
    starts = np.arange(count, dtype=np.int64)[:, None] * window.stride - window.begin
    taps = starts + np.arange(window.kernel, dtype=np.int64) * window.dilation
    return np.where((taps >= 0) & (taps < size), taps, NOWHERE)


def _span(size: int, count: int) -> Array:
    numbers = np.arange(count, dtype=np.int64)
    starts, ends = adaptive_bounds(numbers, size, count)
    taps = starts[:, None] + np.arange((ends - starts).max(), dtype=np.int64)
    return np.where(taps < ends[:, None], taps, NOWHERE)


def _first_window(sizes: Sequence[int], counts: Sequence[int]) -> Array:
    """The elements of the first adaptive window: they exclude most output sizes at little cost."""
    extents = [adaptive_bounds(0, size, count)[1] for size, count in zip(sizes, counts, strict=True)]
    return np.asarray(_product([np.arange(extent, dtype=np.int64)[None] for extent in extents], sizes)[0])


def _product(axes: Sequence[Array], sizes: Sequence[int]) -> Array:
    """The table of a plane from those of its axes."""
    plane: Array = np.zeros((1, 1), np.int64)
    for table, size in zip(axes, sizes, strict=True):
        outer, inner = plane[:, None, :, None], table[:, None, :]
        taps = np.where((outer != NOWHERE) & (inner != NOWHERE), outer * size + inner, NOWHERE)
        plane = taps.reshape(len(plane) * len(table), plane.shape[1] * table.shape[1])
    return plane
