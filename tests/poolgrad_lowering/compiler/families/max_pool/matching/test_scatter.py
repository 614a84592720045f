# SPDX-License-Identifier: Apache-2.0

"""The conditions of a scatter, each held against shapes, reductions and types that meet it or just do not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from onnx import TensorProto

from poolgrad_lowering.compiler.analysis.provenance import Numbering
from poolgrad_lowering.compiler.families.gradient import Operand
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.max_pool.matching.forward import Pooled
from poolgrad_lowering.compiler.families.max_pool.matching.scatter import (
    Scatter,
    check_adds_to_zeros,
    check_rows,
    check_rows_are_planes,
)
from poolgrad_lowering.model.diagnostics.codes import Code
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.dims import Dim, Shape
from poolgrad_lowering.model.ir.scopes import Value
from poolgrad_lowering.patterns.torch_scatter_add import match
from tests.patterns.lowering_checks import refuses
from tests.pool_graphs import main_value, parse, torch_gradient

SYMBOLIC, STATIC, ONE_PLANE = "N 3 9 12 to N 3 5 6", "2 3 9 12 to 2 3 5 6", "1 1 9 12 to 1 1 5 6"


def shape(sizes: str) -> Shape:
    return tuple(map(Dim.parse, sizes.split()))


def scattered(
    attributes: str = 'axis = 1, reduction = "add"',
    *,
    base: str = "float[2] base = {0, 0}",
    inputs: str = "int64[2] recorded, float[2] updates",
    opset: int = 18,
) -> tuple[Facts, Scatter]:
    zeros = "" if base in inputs else f"<{base}>"
    model = parse(
        f"g ({inputs}) => (out) {zeros} {{ out = ScatterElements<{attributes}>(base, recorded, updates) }}", opset=opset
    )
    facts, value = main_value(model, "out")
    assert value.producer is not None
    return facts, Scatter.read(value.producer)


def pooled(scatter: Scatter, pool: str) -> Pooled:
    x_shape, pooled_shape = map(shape, pool.split(" to "))
    return Pooled(scatter.updates, TensorProto.FLOAT, x_shape, pooled_shape)


ROWS = {  # the shapes of positions and base; those of x and the maxima; numbering; the code of the refusal
    "planes": ("N*3 30 onto N*3 108", SYMBOLIC, Numbering.PLANE, None),
    "planes_by_batch_and_channel": ("N 3 30 onto N 3 108", SYMBOLIC, Numbering.PLANE, None),
    "planes_of_a_volume": ("6 4 onto 6 24", "2 3 2 3 4 to 2 3 1 2 2", Numbering.PLANE, None),
    "planes_of_symbolic_size": ("6 OH*6 onto 6 H*12", "2 3 H 12 to 2 3 OH 6", Numbering.PLANE, None),
    "planes_turned": ("3 N 30 onto 3 N 108", SYMBOLIC, Numbering.PLANE, None),
    "another_number_of_positions": ("N*3 29 onto N*3 108", SYMBOLIC, Numbering.PLANE, Code.ROWS_NOT_PLANES),
    "a_symbol_of_positions": ("N*3 K onto N*3 108", SYMBOLIC, Numbering.PLANE, Code.ROWS_NOT_PLANES),
    "fewer_rows_of_positions": ("N*2 30 onto N*3 108", SYMBOLIC, Numbering.PLANE, Code.ROWS_NOT_PLANES),
    "rows_otherwise_split": ("3 N 30 onto N 3 108", SYMBOLIC, Numbering.PLANE, Code.ROWS_NOT_PLANES),
    "fewer_rows": ("N*2 30 onto N*2 108", SYMBOLIC, Numbering.PLANE, Code.ROWS_NOT_PLANES),
    "longer_rows": ("N*3 30 onto N*3 109", SYMBOLIC, Numbering.PLANE, Code.ROW_LENGTH),
    "several_planes_a_row": ("N 90 onto N 324", SYMBOLIC, Numbering.PLANE, Code.ROWS_NOT_PLANES),
    "one_plane": ("1 30 onto 1 108", ONE_PLANE, Numbering.PLANE, None),
    "one_plane_by_the_whole_tensor": ("1 30 onto 1 108", ONE_PLANE, Numbering.TENSOR, None),
    "a_longer_row_of_one_plane": ("1 30 onto 1 109", ONE_PLANE, Numbering.TENSOR, Code.ROW_LENGTH),
    "other_positions_of_one_plane": ("1 29 onto 1 108", ONE_PLANE, Numbering.TENSOR, Code.ROWS_NOT_PLANES),
    "whole": ("180 onto 648", STATIC, Numbering.TENSOR, None),
    "whole_of_symbolic_size": ("N*90 onto N*324", SYMBOLIC, Numbering.TENSOR, None),
    "one_row": ("1 180 onto 1 648", STATIC, Numbering.TENSOR, None),
    "one_row_of_several_axes": ("1 1 180 onto 1 1 648", STATIC, Numbering.TENSOR, None),
    "two_rows": ("2 90 onto 2 648", STATIC, Numbering.TENSOR, Code.INDICES_NUMBERING),
    "a_symbol_of_rows": ("N 180 onto N 648", STATIC, Numbering.TENSOR, Code.INDICES_NUMBERING),
    "a_longer_row": ("1 180 onto 1 649", STATIC, Numbering.TENSOR, Code.INDICES_NUMBERING),
    "planes_by_the_whole_tensor": ("N*3 30 onto N*3 108", SYMBOLIC, Numbering.TENSOR, Code.INDICES_NUMBERING),
    "a_row_a_batch_by_the_whole_tensor": ("2 90 onto 2 324", STATIC, Numbering.TENSOR, Code.INDICES_NUMBERING),
}


@pytest.mark.parametrize(("rows", "pool", "numbering", "code"), ROWS.values(), ids=ROWS)
def test_rows(rows: str, pool: str, numbering: Numbering, code: Code | None) -> None:
    _, scatter = scattered()
    recorded, base = map(shape, rows.split(" onto "))
    check = (scatter.node, base, recorded, pooled(scatter, pool), numbering)
    if code is None:
        check_rows(*check)
        return
    with refuses(code):
        check_rows(*check)


def test_the_length_of_a_row_is_that_of_its_last_axis() -> None:
    _, scatter = scattered()
    with refuses(Code.ROW_LENGTH):
        check_rows(scatter.node, shape("N 3 109"), shape("N 3 30"), pooled(scatter, SYMBOLIC), Numbering.PLANE)


AXES = {  # the axis, base and recorded as inputs; code of the refusal
    "last": ("1", "float[6,108] base", "int64[6,30] recorded", None),
    "last_from_the_end": ("-1", "float[6,108] base", "int64[6,30] recorded", None),
    "first": ("0", "float[6,108] base", "int64[6,30] recorded", Code.ROWS_NOT_PLANES),
    "last_but_one": ("-2", "float[6,108] base", "int64[6,30] recorded", Code.ROWS_NOT_PLANES),
    "first_of_three": ("1", "float[2,3,108] base", "int64[2,3,30] recorded", Code.ROWS_NOT_PLANES),
    "last_of_three": ("2", "float[2,3,108] base", "int64[2,3,30] recorded", None),
    "fewer_axes_of_positions": ("1", "float[6,108] base", "int64[180] recorded", Code.ROWS_NOT_PLANES),
    "more_axes_of_positions": ("1", "float[6,108] base", "int64[2,3,30] recorded", Code.ROWS_NOT_PLANES),
    "no_axes": ("-1", "float base", "int64 recorded", Code.ROWS_NOT_PLANES),
    "unknown_base": ("1", "base", "int64[6,30] recorded", Code.UNKNOWN_SHAPE),
    "unknown_positions": ("1", "float[6,108] base", "recorded", Code.UNKNOWN_SHAPE),
}


@pytest.mark.parametrize(("axis", "base", "recorded", "code"), AXES.values(), ids=AXES)
def test_axis(axis: str, base: str, recorded: str, code: Code | None) -> None:
    facts, scatter = scattered(f"axis = {axis}", base=base, inputs=f"{base}, {recorded}, updates")
    check = (facts, scatter, pooled(scatter, STATIC), Numbering.PLANE)
    if code is None:
        check_rows_are_planes(*check)
        return
    with refuses(code, names="out"):
        check_rows_are_planes(*check)


@pytest.mark.parametrize("accepted", [("add",), ("none",), ("add", "none")])
@pytest.mark.parametrize(
    ("reduction", "opset", "written"),
    [("add", 18, "add"), ("none", 18, "none"), ("", 18, "none"), ("max", 18, "max"), ("", 13, "None")],
)
def test_reduction(accepted: Sequence[str], reduction: str, opset: int, written: str) -> None:
    """Before there was a reduction, every scatter overwrote."""
    attributes = f'reduction = "{reduction}"' if reduction else "axis = 0"
    facts, scatter = scattered(attributes, opset=opset)
    if written.lower() in accepted:
        check_adds_to_zeros(facts, scatter, tuple(accepted))
        return
    with refuses(Code.REDUCTION, names="out"):
        check_adds_to_zeros(facts, scatter, tuple(accepted))


BASES = {
    "zeros": ("float[2] base = {0, 0}", "float[2] updates", None),
    "a_one": ("float[2] base = {0, 1}", "float[2] updates", Code.BASE_NOT_ZERO),
    "a_negative_zero": ("float[2] base = {0, -0.0}", "float[2] updates", Code.BASE_NOT_ZERO),
    "updates_of_another_type": ("float[2] base = {0, 0}", "float16[2] updates", Code.DTYPE_MIX),
    "updates_of_unknown_type": ("float[2] base = {0, 0}", "updates", None),
}


@pytest.mark.parametrize(("base", "updates", "code"), BASES.values(), ids=BASES)
def test_base(base: str, updates: str, code: Code | None) -> None:
    facts, scatter = scattered(base=base, inputs=f"int64[2] recorded, {updates}")
    if code is None:
        check_adds_to_zeros(facts, scatter)
        return
    with refuses(code, names="base"):
        check_adds_to_zeros(facts, scatter)


def test_the_gradient_of_a_max_pool() -> None:
    """Before the views of its operands, and behind that of its sums."""
    model = torch_gradient([2, 3, 9, 12], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    facts, sums = main_value(model, "sums")
    scope = sums.scope
    assert sums.producer is not None
    found = match(facts, sums.producer)
    y = scope.resolve("Y")
    assert y is not None
    pool = y.producer
    assert pool is not None
    windows = facts.pool(pool)
    assert windows is not None
    assert found == MaxPoolGradient(
        x=Operand(Value(scope, "X")),
        grad=Operand(Value(scope, "dY")),
        argmax=Operand(Value(scope, "local")),
        dx=Operand(Value(scope, "dX")),
        numbering=Numbering.PLANE,
        element_type=TensorProto.FLOAT,
        windows=windows,
        x_shape=shape("2 3 9 12"),
        pooled_shape=shape("2 3 5 6"),
        pool=pool,
    )
