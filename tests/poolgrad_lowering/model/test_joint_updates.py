# SPDX-License-Identifier: Apache-2.0

"""Which weights are updated as one."""

from __future__ import annotations

from poolgrad_lowering.model.joint_updates import FEWEST, LONGEST, MOST, side_by_side


def vectors(count: int, first: int = 0) -> dict[str, list[int]]:
    return {f"b{number}": [number + 1] for number in range(first, first + count)}


def test_short_vectors_are_side_by_side() -> None:
    assert side_by_side(vectors(FEWEST)) == [[*vectors(FEWEST)]]
    assert side_by_side(vectors(FEWEST - 1)) == [[name] for name in vectors(FEWEST - 1)]


def test_matrices_scalars_and_long_vectors_are_alone() -> None:
    others = {"matrix": [2, 3], "scalar": list[int](), "long": [LONGEST + 1]}
    longest = {"longest": [LONGEST]}
    together = [*vectors(FEWEST), *longest]
    assert side_by_side(others | vectors(FEWEST) | longest) == [*([name] for name in others), together]


def test_many_vectors_are_in_several_lists() -> None:
    first, rest = vectors(MOST), vectors(FEWEST - 1, MOST)
    assert side_by_side(first | rest) == [*([name] for name in rest), [*first]]
    rest = vectors(FEWEST, MOST)
    assert side_by_side(first | rest) == [[*first], [*rest]]
