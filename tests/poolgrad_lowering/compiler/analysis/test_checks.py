# SPDX-License-Identifier: Apache-2.0

"""Checks of one value: what is known to differ is refused, with what was found and what was expected."""

from __future__ import annotations

import pytest
from onnx import TensorProto

from poolgrad_lowering.compiler.families.shared.checks import check_shape, known_element_type
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.ir.dims import Dim, Shape
from tests.patterns.lowering_checks import refuses
from tests.pool_graphs import main_value, parse

SHAPES = {
    "equal": ("[2, 3]", (Dim(2), Dim(3)), False, False),
    "another order": ("[3, 2]", (Dim(2), Dim(3)), True, False),
    "another rank": ("[6]", (Dim(2), Dim(3)), True, False),
    "another number": ("[2, 4]", (Dim(2), Dim(3)), True, True),
    "a symbol": ("[N, 3]", (Dim(2), Dim(3)), False, False),
    "a symbol beside what differs": ("[N, 4]", (Dim(2), Dim(3)), True, False),
    "a symbol in both": ("[3, N]", (Dim(1, ("N",)), Dim(3)), False, False),
    "not known": ("[]", (Dim(2), Dim(3)), False, False),
}


@pytest.mark.parametrize(("declared", "expected", "differs", "differs_flat"), SHAPES.values(), ids=SHAPES)
def test_shapes(declared: str, expected: Shape, differs: bool, differs_flat: bool) -> None:
    facts, x = main_value(parse(f"g (float{declared} X) => (Y) {{ Y = Neg(X) }}"), "X")
    for flat, refused in ((False, differs), (True, differs_flat)):
        if not refused:
            check_shape(facts, Code.GRAD_SHAPE, x, expected, flat=flat)
            continue
        with refuses(Code.GRAD_SHAPE, names="X"):
            check_shape(facts, Code.GRAD_SHAPE, x, expected, flat=flat)


def test_a_shape_is_that_of_a_pool_unless_it_is_flat() -> None:
    facts, x = main_value(parse("g (float[6] X) => (Y) { Y = Neg(X) }"), "X")
    with pytest.raises(Refuse):
        check_shape(facts, Code.DX_SHAPE, x, (Dim(2), Dim(3)))


def test_element_types() -> None:
    facts, y = main_value(parse("g (float16[6] X) => (Y) { Y = Neg(X) }"), "Y")
    assert known_element_type(facts, y) == TensorProto.FLOAT16
    facts, y = main_value(parse("g (float16[6] X) => (Y) { Y = other.Neg(X) }", imports='"other": 1'), "Y")
    with refuses(Code.UNKNOWN_DTYPE, names="Y"):
        known_element_type(facts, y)
