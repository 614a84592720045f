# SPDX-License-Identifier: Apache-2.0

"""Boxes do not overlap, arrows lead from top to bottom, and the layout is deterministic."""

from __future__ import annotations

import itertools
import random

import pytest

from poolgrad_lowering.report.drawing.layered import GAP, LAYER_GAP, Edge, Placed, place

Size = tuple[float, float]


def random_graph(seed: int) -> tuple[list[Size], list[Edge]]:
    """A random acyclic graph with boxes in random order."""
    rng = random.Random(seed)
    count = rng.randint(1, 24)
    sizes = [(float(rng.randint(20, 200)), float(rng.randint(20, 70))) for _ in range(count)]
    order = rng.sample(range(count), count)
    pairs = [pair for pair in itertools.combinations(order, 2) if rng.random() < 3 / count]
    return sizes, pairs


def check(sizes: list[Size], edges: list[Edge], placed: Placed) -> None:
    boxes = [
        (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
        for (width, height), (x, y) in zip(sizes, placed.centres, strict=True)
    ]
    for left, top, right, bottom in boxes:
        assert left >= -1e-6
        assert top >= 0
        assert right <= placed.width + 1e-6
        assert bottom <= placed.height + 1e-6
    for first, second in itertools.combinations(boxes, 2):
        apart = max(second[0] - first[2], first[0] - second[2])
        assert apart > GAP - 1e-6 or max(second[1] - first[3], first[1] - second[3]) >= LAYER_GAP - 1e-6
    for (source, target), path in zip(edges, placed.paths, strict=True):
        ys = [y for _, y in path]
        assert ys == sorted(ys)
        assert path[0][1] == pytest.approx(boxes[source][3])
        assert boxes[source][0] < path[0][0] < boxes[source][2]
        assert path[-1][1] == pytest.approx(boxes[target][1])
        assert boxes[target][0] < path[-1][0] < boxes[target][2]


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs(seed: int) -> None:
    sizes, edges = random_graph(seed)
    placed = place(sizes, edges)
    check(sizes, edges, placed)
    assert place(sizes, edges) == placed


def test_nothing() -> None:
    assert place([], []) == Placed((), (), 0.0, 0.0)


def test_a_chain_is_a_line() -> None:
    placed = place([(40, 20), (80, 20), (60, 20)], [(0, 1), (1, 2)])
    assert {x for x, _ in placed.centres} == {40}
    assert placed.height == 3 * 20 + 2 * LAYER_GAP


def test_inputs_are_just_above_their_first_use() -> None:
    """The second input of the last box of a chain of three is beside the middle box, not at the top."""
    placed = place([(40, 20)] * 4, [(0, 1), (1, 2), (3, 2)])
    assert placed.centres[3][1] == placed.centres[1][1]


def test_crossings_are_removed() -> None:
    """Two edges whose boxes are given in crossed order are drawn without a crossing."""
    placed = place([(40, 20)] * 4, [(0, 3), (1, 2)])
    (a, _), (b, _), (c, _), (d, _) = placed.centres
    assert (a < b) == (d < c)


def test_a_cycle() -> None:
    with pytest.raises(ValueError, match="cycle"):
        place([(40, 20)] * 3, [(0, 1), (1, 2), (2, 1)])
