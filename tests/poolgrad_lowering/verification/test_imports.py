# SPDX-License-Identifier: Apache-2.0

"""Imports of the dialect: that an inliner of its function bodies leaves behind, and that onnxruntime writes unused."""

from __future__ import annotations

import pytest
from onnx import ModelProto, helper
from onnx.parser import parse_model

from poolgrad_lowering import lower, verify
from poolgrad_lowering.dialect import DOMAIN, VERSION
from tests.patterns.lookalikes.scatter import gradient


def importing(*imports: tuple[str, int]) -> ModelProto:
    model = parse_model(gradient())
    model.opset_import.extend(helper.make_opsetid(*entry) for entry in imports)
    return model


def test_an_import_that_nothing_uses_is_no_difference() -> None:
    assert verify(importing(), importing((DOMAIN, VERSION))).proven


@pytest.mark.parametrize(
    "imports", [[(DOMAIN, VERSION + 1)], [("other", 1)], [(DOMAIN, VERSION), (DOMAIN, VERSION)]], ids=str
)
def test_other_imports_are_differences(imports: list[tuple[str, int]]) -> None:
    found = verify(importing(), importing(*imports))
    assert [difference.where for difference in found.differences] == ["model"]


def test_the_version_of_an_import_that_nothing_used() -> None:
    """onnxruntime-training imports every domain that the process has registered, with this version."""
    original = importing((DOMAIN, 1000))
    lowered = lower(original).model
    assert [entry.version for entry in lowered.opset_import if entry.domain == DOMAIN] == [VERSION]
    assert verify(original, lowered).proven


@pytest.mark.parametrize(("before", "after"), [(VERSION, VERSION + 1), (1000, 1001)])
def test_another_version_of_an_unused_import(before: int, after: int) -> None:
    found = verify(importing((DOMAIN, before)), importing((DOMAIN, after)))
    assert [difference.where for difference in found.differences] == ["model"]


def test_the_version_of_an_import_that_a_node_uses() -> None:
    """Which is of no operator of the dialect."""
    models = [importing((DOMAIN, version)) for version in (1000, VERSION)]
    for model in models:
        model.graph.node.add(op_type="Own", domain=DOMAIN, input=[model.graph.input[0].name], output=["own"])
    found = verify(*models, whole_model=False)
    assert "model" in [difference.where for difference in found.differences]
