# SPDX-License-Identifier: Apache-2.0

"""Tables of windows against the windows counted out, and against each other."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from poolgrad_lowering.compiler.families.max_pool.matching.window_tables import (
    NOWHERE,
    adaptive_counts,
    adaptive_table,
    pool_table,
    same_windows,
)
from poolgrad_lowering.model.windows import AxisWindow
from tests.oracles import max_pool_indices


def listed(table: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> list[list[int]]:
    return [[position for position in row if position != NOWHERE] for row in table.tolist()]


def test_windows_of_three_axes_hold_the_maxima() -> None:
    sizes, counts = (5, 4, 6), (3, 3, 2)
    windows = [AxisWindow(3, 2, 1, 1, 1), AxisWindow(2, 1, 0, 0, 1), AxisWindow(2, 3, 0, 0, 2)]
    x = np.random.default_rng(0).permutation(120).reshape(1, 1, *sizes).astype(np.float32)
    recorded = max_pool_indices(x, [3, 2, 2], [2, 1, 3], [1, 0, 0, 1, 0, 0], [1, 1, 2])
    for row, index in zip(listed(pool_table(windows, sizes, counts)), recorded.reshape(-1), strict=True):
        assert row[int(np.argmax(x.reshape(-1)[row]))] == index


@pytest.mark.parametrize("sizes", [(1,), (7,), (5, 3), (2, 3, 4)])
def test_adaptive_windows(sizes: tuple[int, ...]) -> None:
    for counts in itertools.product(*(range(1, size + 3) for size in sizes)):
        expected = [
            [
                int(np.ravel_multi_index(at, sizes))
                for at in itertools.product(
                    *(
                        range(math.floor(o * size / count), math.ceil((o + 1) * size / count))
                        for o, size, count in zip(output, sizes, counts, strict=True)
                    )
                )
            ]
            for output in itertools.product(*map(range, counts))
        ]
        table = adaptive_table(sizes, counts)
        assert listed(table) == expected
        found = adaptive_counts(table, sizes)
        assert found is not None
        assert same_windows(adaptive_table(sizes, found), table)


def test_no_counts_for_other_windows() -> None:
    table = adaptive_table((5, 7), (3, 4))
    assert adaptive_counts(table, (7, 5)) is None
    table[4, 0] += 1
    assert adaptive_counts(table, (5, 7)) is None


def test_fill_may_stand_anywhere_but_order_counts() -> None:
    table = np.array([[0, 1, NOWHERE], [2, 3, 4]])
    assert same_windows(table, np.array([[NOWHERE, 0, 1], [2, 3, 4]]))
    assert same_windows(table, np.array([[0, NOWHERE, NOWHERE, 1], [2, 3, 4, NOWHERE]]))
    assert not same_windows(table, np.array([[1, 0, NOWHERE], [2, 3, 4]]))
    assert not same_windows(table, np.array([[0, 1, NOWHERE], [2, 3, NOWHERE]]))
    assert not same_windows(table, table[:1])
    assert not same_windows(np.array([[0, 1], [2, NOWHERE]]), np.array([[0, NOWHERE], [1, 2]]))
