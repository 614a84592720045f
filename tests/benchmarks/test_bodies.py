# SPDX-License-Identifier: Apache-2.0

"""Function bodies: what is counted and compared, and how the page shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import question_bodies as question
from poolgrad_lowering import lower_file


def test_opsets_with_the_same_numbers_are_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = {9: (0, 2), 10: (0, 2), 11: (4, 2), 12: (0, 2)}
    monkeypatch.setattr(
        question, "count_nodes", lambda _, opset: dict(zip(("pool", "gradient"), numbers[opset], strict=True))
    )
    rows = question.by_generation("a2", numbers)
    assert [(row["first"], row["last"], row["pool"]) for row in rows] == [(9, 10, 0), (11, 11, 4), (12, 12, 0)]
    assert all((row["target"], row["gradient"]) == ("a2", 2) for row in rows)


def test_a_model_is_compared_with_its_lowered_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question, "ROUNDS", 1)
    file = question.built(question.README_EXAMPLE)
    found = question.compare(file, tmp_path)
    assert found["lowered"] == 2
    rows = {row["name"]: row for row in found["rows"]}
    assert rows["original"]["ratio"] == 1
    assert rows["original"]["bytes"] == rows["original again"]["bytes"] == file.stat().st_size
    assert rows["function bodies"]["bytes"] == (tmp_path / "lowered.onnx").stat().st_size
    assert all(row["median"] > 0 for row in rows.values())


@pytest.mark.parametrize("target", question.TARGETS)
def test_bodies_of_a_pool_and_its_gradient_have_at_most_twelve_nodes(target: str) -> None:
    for opset in question.OPSETS[-3:]:
        counts = question.count_nodes(target, opset)
        assert all(counts.values())
        assert sum(counts.values()) <= 12, (opset, counts)


def test_the_example_of_the_readme_is_smaller_after_lowering(tmp_path: Path) -> None:
    original, lowered = question.built(question.README_EXAMPLE), tmp_path / "lowered.onnx"
    lower_file(original, lowered)
    assert lowered.stat().st_size < original.stat().st_size
