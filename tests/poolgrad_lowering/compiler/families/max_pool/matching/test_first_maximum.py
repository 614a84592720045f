# SPDX-License-Identifier: Apache-2.0

"""What an ArgMax reduces: which axis of which shape, and the planes that its rows are a view of."""

from __future__ import annotations

import onnx
import pytest

from poolgrad_lowering.compiler.families.max_pool.matching.axis_maximum import FirstMaximum
from poolgrad_lowering.model.diagnostics.codes import Code
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.scopes import Node
from tests.patterns.lowering_checks import refuses
from tests.pool_graphs import main_value, parse


def arg_max(
    attributes: str = "axis = -1", *, x: str = "float[2,3,4,5] x", view: str = "d = Identity (x)"
) -> onnx.ModelProto:
    return parse(f"g ({x}) => (out) {{ {view} out = ArgMax<{attributes}>(d) }}", opset=18)


def recorder(model: onnx.ModelProto) -> tuple[Facts, Node]:
    facts, out = main_value(model, "out")
    assert out.producer is not None
    return facts, out.producer


@pytest.mark.parametrize("axis", range(-4, 4))
def test_axes(axis: int) -> None:
    maximum = FirstMaximum.read(*recorder(arg_max(f"axis = {axis}")))
    assert (maximum.data.name, maximum.axis) == ("d", axis % 4)
    assert [dim.static for dim in maximum.shape] == [2, 3, 4, 5]


def without_data() -> onnx.ModelProto:
    model = arg_max()
    del model.graph.node[-1].input[:]
    return model


UNREADABLE = {
    "axis_beyond_the_rank": (arg_max("axis = 4"), Code.UNKNOWN_SHAPE),
    "axis_before_the_first": (arg_max("axis = -5"), Code.UNKNOWN_SHAPE),
    "axis_of_another_type": (arg_max("axis = 1.0"), Code.UNKNOWN_SHAPE),
    "axis_of_a_scalar": (arg_max("axis = 0", x="float x"), Code.UNKNOWN_SHAPE),
    "unknown_shape": (arg_max("axis = 0", x="x"), Code.UNKNOWN_SHAPE),
    "no_data": (without_data(), Code.UNKNOWN_SHAPE),
    "last_maximum": (arg_max("axis = 1, select_last_index = 1"), Code.LAST_MAXIMUM),
}


@pytest.mark.parametrize(("model", "code"), UNREADABLE.values(), ids=UNREADABLE)
def test_unreadable(model: onnx.ModelProto, code: Code) -> None:
    facts, node = recorder(model)
    with refuses(code):
        FirstMaximum.read(facts, node)


PLANES = {  # x, its view, the axis; the source of whole planes
    "planes_as_rows": ("2,3,4,5", "6,20", 1, "x"),
    "planes_by_batch_and_channel": ("2,3,4,5", "2,3,20", 2, "x"),
    "planes_of_a_volume": ("2,3,2,2,5", "6,20", 1, "x"),
    "lines": ("2,3,20", "6,20", 1, "x"),
    "without_a_view": ("2,3,4,5", "", 3, None),
    "along_the_rows_of_a_square": ("2,3,6,1", "6,6", 0, None),
    "rows_of_several_planes": ("2,3,4,5", "2,60", 1, None),
    "rows_of_part_of_a_plane": ("2,3,4,5", "24,5", 1, None),
    "rows_of_one_element_of_two_axes": ("6,1", "2,3,1", 2, None),
    "rows_of_one_element_of_one_axis": ("6", "2,3,1", 2, None),
    "four_spatial_axes": ("2,3,1,2,2,5", "6,20", 1, None),
}


@pytest.mark.parametrize(("x", "rows", "axis", "source"), PLANES.values(), ids=PLANES)
def test_planes(x: str, rows: str, axis: int, source: str | None) -> None:
    count = len(rows.split(","))
    view = f"s = Constant <value = int64[{count}] {{{rows}}}> () d = Reshape (x, s)" if rows else "d = Abs (x)"
    facts, node = recorder(arg_max(f"axis = {axis}", x=f"float[{x}] x", view=view))
    found = FirstMaximum.read(facts, node).flattened(facts)
    assert (found and found[0].name) == source
    if found is not None:
        assert ",".join(map(str, found[1])) == x


def test_planes_farthest_up() -> None:
    """Where x itself is a view of planes of the same size."""
    view = """to_volume = Constant <value = int64[5] {2,3,2,2,5}> () v = Reshape (x, to_volume)
        to_rows = Constant <value = int64[2] {6,20}> () d = Reshape (v, to_rows)"""
    facts, node = recorder(arg_max(view=view))
    found = FirstMaximum.read(facts, node).flattened(facts)
    assert found is not None
    assert found[0].name == "x"


def test_planes_behind_an_unknown_shape() -> None:
    view = "to_rows = Constant <value = int64[2] {6,20}> () d = Reshape (x, to_rows)"
    facts, node = recorder(arg_max(x="x", view=view))
    assert FirstMaximum.read(facts, node).flattened(facts) is None


def test_recorder_of_indices() -> None:
    model = parse("g (float[2,3] x) => (out) { i = ArgMax<axis = 1>(x) v = Squeeze(i) j = Identity(v) out = Neg(j) }")
    facts, out = main_value(model, "out")
    behind = out.scope.resolve("j")
    assert behind is not None
    found = facts.behind_views(behind, "ArgMax")
    assert found is not None
    assert found.label == "i"
    assert facts.behind_views(out, "ArgMax") is None
    x = out.scope.resolve("x")
    assert x is not None
    assert facts.behind_views(x, "ArgMax") is None
