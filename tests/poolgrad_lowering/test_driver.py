# SPDX-License-Identifier: Apache-2.0

"""The driver: neither the order in which forms are found nor their names decide anything but ties."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from onnx import ModelProto

from poolgrad_lowering import AnchorReport, driver, lower, patterns
from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.diagnostics.codes import Code, Refusal, refuse
from poolgrad_lowering.gradient import Pattern
from poolgrad_lowering.ir.scopes import Node
from tests.pool_graphs import parse

BUILT = Path(__file__).parents[2] / "models" / "built"
MODELS = sorted(BUILT.glob("*/*.onnx"), key=lambda path: path.stat().st_size)[:40]


def reported(model: ModelProto, monkeypatch: pytest.MonkeyPatch, forms: list[Pattern]) -> list[AnchorReport]:
    monkeypatch.setattr(driver, "all_patterns", lambda: tuple(forms))
    return list(lower(model).report.anchors)


@pytest.mark.parametrize("seed", range(5))
def test_shuffled_forms_report_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    forms = list(patterns.all_patterns())
    shuffled = random.Random(seed).sample(forms, len(forms))
    renamed = [replace(form, name=f"{number:02}") for number, form in enumerate(shuffled)]
    for path in MODELS:
        model = onnx.load(path, load_external_data=False)
        expected = reported(model, monkeypatch, forms)
        assert reported(model, monkeypatch, shuffled) == expected, path
        names = {form.name: other.name for form, other in zip(renamed, shuffled, strict=True)}
        found = [replace(one, pattern=names.get(one.pattern or "")) for one in reported(model, monkeypatch, renamed)]
        assert found == expected, path


def test_forms_with_a_common_anchor_say_their_order() -> None:
    by_anchor = defaultdict(list)
    for form in patterns.own_patterns():
        for anchor in form.anchors:
            by_anchor[anchor].append(form.priority)
    for anchor, priorities in by_anchor.items():
        assert len(set(priorities)) == len(priorities), anchor


RELU = parse("g (float[2] X) => (float[2] Y) { Y = Relu(X) }")


def refusing(name: str, code: Code, priority: int) -> Pattern:
    def match(_facts: Facts, _node: Node) -> Refusal:
        return refuse(code, "by '{}'", name)

    return Pattern(name, (("", "Relu"),), "refuses", match, priority)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (("b", Code.ARITY, 1), ("a", Code.DTYPE, 2), "by 'b'"),  # the lower priority number first
        (("b", Code.ARITY, 1), ("a", Code.DTYPE, 1), "by 'a'"),  # of equals, by name
        (("a", Code.INDICES_SOURCE, 1), ("b", Code.DTYPE, 2), "by 'b'"),  # which knows more of the anchor
    ],
)
def test_which_refusal_is_reported(
    first: tuple[str, Code, int],
    second: tuple[str, Code, int],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for forms in ([refusing(*first), refusing(*second)], [refusing(*second), refusing(*first)]):
        [anchor] = reported(RELU, monkeypatch, forms)
        assert anchor.reason == expected
