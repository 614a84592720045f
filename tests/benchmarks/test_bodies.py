# SPDX-License-Identifier: Apache-2.0

"""Function bodies: what is counted and compared, and how the page shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from onnx import parser

from benchmarks import question_bodies as question
from benchmarks.page_bodies import bodies
from poolgrad_lowering import lower_file


def test_nodes_of_subgraphs_count() -> None:
    graph = parser.parse_graph(
        """g (bool c, float[1] x) => (float[1] y) {
            y = If (c) <
                then_branch = t () => (float[1] p) { p = Neg (x) },
                else_branch = e () => (float[1] q) { r = Abs (x) q = Neg (r) }
            >
        }"""
    )
    assert question.count(graph.node) == 4


def test_opsets_with_the_same_numbers_are_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = {9: (0, 2), 10: (0, 2), 11: (4, 2), 12: (0, 2)}
    monkeypatch.setattr(
        question, "count_nodes", lambda _, opset: dict(zip(("pool", "gradient"), numbers[opset], strict=True))
    )
    rows = question.by_generation("a2", numbers)
    assert [(row["first"], row["last"], row["pool"]) for row in rows] == [(9, 10, 0), (11, 11, 4), (12, 12, 0)]
    assert all((row["target"], row["gradient"]) == ("a2", 2) for row in rows)


def test_an_ordinary_pool_and_its_gradient_have_bodies() -> None:
    for target in question.TARGETS:
        assert all(question.count_nodes(target, question.OPSETS[-1]).values())


def test_the_cases_are_built_models() -> None:
    assert all(question.built(name).exists() for name in question.CASES)


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


def test_section() -> None:
    def row(name: str, size: int, milliseconds: float) -> dict[str, Any]:
        timing = dict.fromkeys(("median", "low", "high"), milliseconds / 1e3)
        return {"name": name, "bytes": size, **timing, "rounds": 3, "ratio": milliseconds / 2}

    counts = [
        {"target": "a2", "first": 9, "last": 11, "pool": 0, "gradient": 7},
        {"target": "a2", "first": 12, "last": 12, "pool": 5, "gradient": 7},
    ]
    rows = [row("original", 2000, 2), row("function bodies", 1500, 3)]
    text = bodies({"counts": counts, "models": [{"name": "net", "remarks": "a net", "rows": rows}]}, Path())
    assert "| a2 | 9–11 | – | 7 | 7 |" in text
    assert "|  | 12 | 5 | 7 | 12 |" in text
    assert "| net: a net | original | 2,000 | 1.00 | 2.00 | 1.00 |" in text
    assert "|  | function bodies | 1,500 | 0.75 | 3.00 | 1.50 |" in text


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
