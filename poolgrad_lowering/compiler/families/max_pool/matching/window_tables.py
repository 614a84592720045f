# SPDX-License-Identifier: Apache-2.0

"""The windows of a pool as a table: for each window of a plane, the plane positions that it reads, in order.

A table has one row a window, row-major over the outputs; `NOWHERE` stands for what lies outside the plane. Two tables
mean the same windows where each row has the same positions in the same order, wherever the fill stands.

Operators that move elements are evaluated on positions instead of values: every element of the starting tensor is its
own position (≥ 0); `NOWHERE` represents −inf, the value of padding.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poolgrad_lowering.compiler.analysis import evaluation
from poolgrad_lowering.compiler.analysis.constant_values import ARITHMETIC_RULES, constant_value, gather, transpose
from poolgrad_lowering.compiler.analysis.evaluation import Array, Evaluation, Rule
from poolgrad_lowering.compiler.families.max_pool.matching.axis_maximum import FirstMaximum
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.known import by_rule, need, require, static_integers
from poolgrad_lowering.model.ir.attributes import integer, text
from poolgrad_lowering.model.ir.scopes import Node, Value
from poolgrad_lowering.model.windows import AxisWindow, adaptive_bounds, factorisations

NOWHERE = -1


def _pad(known: Evaluation, node: Node) -> Array:
    """ONNX's Pad with −inf on all axes, with pads that are an input (opset 11 and later)."""
    data, pads = need(known.value(node.input(0))), need(static_integers(known.facts, node, 1))
    require(node.input(3) is None and text(node, "mode") == "constant")
    require(pads and len(pads) == 2 * data.ndim and min(pads) >= 0)
    _require_minus_infinity(known, node, 1)
    margins = list(zip(pads[: data.ndim], pads[data.ndim :], strict=True))
    require(evaluation.is_affordable(sum(margin, size) for margin, size in zip(margins, data.shape, strict=True)))
    return np.pad(data, margins, constant_values=NOWHERE)


def _gather_nd(known: Evaluation, node: Node) -> Array:
    data, positions = map(need, (known.value(node.input(0)), constant_value(known.facts, node.input(1))))
    require(positions.ndim and not integer(node, "batch_dims"))
    coordinates = [positions[..., axis] for axis in range(positions.shape[-1])]
    depth = len(coordinates)
    require(0 < depth <= data.ndim and evaluation.is_affordable(positions.shape[:-1] + data.shape[depth:]))
    require(all(evaluation.are_within(*each) for each in zip(coordinates, data.shape, strict=False)))
    return data[tuple(coordinates)]


def _where(known: Evaluation, node: Node) -> Array:
    """ONNX's Where with a constant mask that selects the data or −inf."""
    mask, data = map(need, (constant_value(known.facts, node.input(0)), known.value(node.input(1))))
    require(mask.dtype == np.bool_ and mask.ndim <= data.ndim)
    _require_minus_infinity(known, node, data.ndim)
    aligned = zip(mask.shape[::-1], data.shape[::-1], strict=False)
    require(all(extent in (1, size) for extent, size in aligned))
    return np.where(mask, data, NOWHERE)


def _require_minus_infinity(known: Evaluation, node: Node, rank: int) -> None:
    """Require that the third input is one −inf, of a rank that adds no axis to a tensor of this rank."""
    fill = need(constant_value(known.facts, node.input(2)))
    require(fill.size == 1 and fill.ndim <= rank and fill.dtype.kind == "f" and np.isneginf(fill).all())


MOVEMENT_RULES: dict[str, Rule] = {
    "Gather": gather,
    "GatherND": _gather_nd,
    "Pad": _pad,
    "Transpose": transpose,
    "Where": _where,
}


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


def written_windows(facts: Facts, maximum: FirstMaximum, recorded: Value, x: Value, rows: int) -> Array:
    """Return the table of the windows of x. `recorded` holds the indices; all `rows` planes of x have the same windows.

    Proven: window [plane, o] reads plane `plane` of x alone, by the same positions for all planes; and where ArgMax
    answers k, `recorded` holds the position of the k-th element read, at [plane, o] in row-major order.
    """
    read = _read(facts, maximum, x, rows)
    reported = by_rule(_reported, facts, maximum, recorded, read.shape[1], rows)
    if reported is None:
        raise Refuse(Code.WINDOW_TABLES, "'{}' does not follow from ArgMax '{}'", recorded.name, maximum.node.label)
    if (reported[read != NOWHERE] != read[read != NOWHERE]).any():
        what = "'{}' holds other positions than those where ArgMax '{}' looks"
        raise Refuse(Code.WINDOW_TABLES, what, recorded.name, maximum.node.label)
    return read


def _read(facts: Facts, maximum: FirstMaximum, x: Value, rows: int) -> Array:
    """The plane positions that each window reads."""
    shape, windows = evaluation.static_shape(facts, x), evaluation.static_shape(facts, maximum.data)
    if shape is None or windows is None or not evaluation.is_affordable(windows) or not evaluation.is_affordable(shape):
        what = "the windows of '{}' are not known to be {} elements at most"
        raise Refuse(Code.WINDOW_TABLES, what, maximum.data.name, evaluation.MAX_ELEMENTS)
    numbers = np.arange(np.prod(shape, dtype=np.int64)).reshape(shape)
    found = Evaluation(facts, MOVEMENT_RULES, {x: numbers}).value(maximum.data)
    unread = Refuse(Code.WINDOW_TABLES, "'{}' is not proven to be windows of '{}'", maximum.data.name, x.name)
    if found is None or found.shape != windows or not found.size or numbers.size % rows:
        raise unread
    if found.size % (rows * windows[-1]):
        raise unread
    plane, by_row = numbers.size // rows, found.reshape(rows, -1, windows[-1])
    local = np.where(by_row == NOWHERE, NOWHERE, by_row - np.arange(rows)[:, None, None] * plane)
    alike = (local == local[0]).all() and ((local == NOWHERE) | ((local >= 0) & (local < plane))).all()
    if not alike:
        raise unread
    return np.asarray(local[0])


def _reported(facts: Facts, maximum: FirstMaximum, recorded: Value, width: int, rows: int) -> Array:
    """The indices for each result of ArgMax, one column a result; a rule that applies if they depend on it alone."""
    answer = need(maximum.node.output(0))
    shape = need(evaluation.static_shape(facts, answer))
    columns = []
    for number in range(width):
        given = {answer: np.full(shape, number, np.int64)}
        found = need(Evaluation(facts, ARITHMETIC_RULES, given).value(recorded))
        require(found.dtype.kind == "i" and found.size == given[answer].size and found.size % rows == 0)
        by_row = found.reshape(rows, -1)
        require((by_row == by_row[0]).all())
        columns.append(by_row[0])
    return np.stack(columns, axis=1)
