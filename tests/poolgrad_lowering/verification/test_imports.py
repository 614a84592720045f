# SPDX-License-Identifier: Apache-2.0

"""The import of the dialect that an inliner of its function bodies leaves behind."""

from __future__ import annotations

import pytest
from onnx import ModelProto, helper
from onnx.parser import parse_model

from poolgrad_lowering import verify
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
