# SPDX-License-Identifier: Apache-2.0

"""A pool that a producer wrote out: windows gathered from x, an ArgMax over each, an index computed from its result.

Both halves are finite, so both are proven by computing them: the first on positions instead of values, the second once
for every result that ArgMax can have. Where they agree, the result is the table of the pool's windows.
"""

from __future__ import annotations

import numpy as np

from poolgrad_lowering.compiler.analysis.arithmetic_rules import ARITHMETIC_RULES
from poolgrad_lowering.compiler.analysis.evaluation import MAX_ELEMENTS, Array, Evaluation, is_affordable, static_shape
from poolgrad_lowering.compiler.analysis.movement_rules import MOVEMENT_RULES, NOWHERE
from poolgrad_lowering.compiler.families.max_pool.matching.axis_maximum import FirstMaximum
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.scopes import Value


def written_windows(facts: Facts, maximum: FirstMaximum, recorded: Value, x: Value, rows: int) -> Array:
    """Return the table of the windows of x. `recorded` holds the indices; all `rows` planes of x have the same windows.

    Proven: window [plane, o] reads plane `plane` of x alone, by the same positions for all planes; and where ArgMax
    answers k, `recorded` holds the position of the k-th element read, at [plane, o] in row-major order.
    """
    read = _read(facts, maximum, x, rows)
    reported = _reported(facts, maximum, recorded, read.shape[1], rows)
    if reported is None:
        raise Refuse(Code.WINDOW_TABLES, "'{}' does not follow from ArgMax '{}'", recorded.name, maximum.node.label)
    if (reported[read != NOWHERE] != read[read != NOWHERE]).any():
        what = "'{}' holds other positions than those where ArgMax '{}' looks"
        raise Refuse(Code.WINDOW_TABLES, what, recorded.name, maximum.node.label)
    return read


def _read(facts: Facts, maximum: FirstMaximum, x: Value, rows: int) -> Array:
    """The plane positions that each window reads."""
    shape, windows = static_shape(facts, x), static_shape(facts, maximum.data)
    if shape is None or windows is None or not is_affordable(windows) or not is_affordable(shape):
        what = "the windows of '{}' are not known to be {} elements at most"
        raise Refuse(Code.WINDOW_TABLES, what, maximum.data.name, MAX_ELEMENTS)
    numbers = np.arange(np.prod(shape, dtype=np.int64)).reshape(shape)
    found = Evaluation(facts, MOVEMENT_RULES, {x: numbers}).value(maximum.data)
    unread = Refuse(Code.WINDOW_TABLES, "'{}' is not proven to be windows of '{}'", maximum.data.name, x.name)
    if found is None or found.shape != windows or not found.size or numbers.size % rows:
        raise unread
    plane = numbers.size // rows
    by_row = found.reshape(rows, -1, found.shape[-1]) if found.size % (rows * found.shape[-1]) == 0 else None
    if by_row is None:
        raise unread
    local = np.where(by_row == NOWHERE, NOWHERE, by_row - np.arange(rows)[:, None, None] * plane)
    alike = (local == local[0]).all() and ((local == NOWHERE) | ((local >= 0) & (local < plane))).all()
    if not alike:
        raise unread
    return np.asarray(local[0])


def _reported(facts: Facts, maximum: FirstMaximum, recorded: Value, width: int, rows: int) -> Array | None:
    """The indices for each result of ArgMax, one column a result; None if they depend on anything else."""
    answer = maximum.node.output(0)
    shape = static_shape(facts, answer)
    if answer is None or shape is None:
        return None
    columns = []
    for number in range(width):
        given = {answer: np.full(shape, number, np.int64)}
        found = Evaluation(facts, ARITHMETIC_RULES, given).value(recorded)
        if found is None or found.dtype.kind != "i" or found.size != given[answer].size or found.size % rows:
            return None
        by_row = found.reshape(rows, -1)
        if (by_row != by_row[0]).any():
            return None
        columns.append(by_row[0])
    return np.stack(columns, axis=1)
