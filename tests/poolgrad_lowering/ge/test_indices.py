# SPDX-License-Identifier: Apache-2.0

"""Which indices of gradients are proven to be in their planes, so that the provider need not copy and check them."""

from __future__ import annotations

import itertools

import onnx
import pytest
from onnx import TensorProto

from poolgrad_lowering.ge.graph_mode import prepare_for_graph_mode
from poolgrad_lowering.ge.indices import indices_are_proven
from poolgrad_lowering.ge.placement import find_placement
from poolgrad_lowering.ge.values import value_types
from poolgrad_lowering.model.io.external_data import ExternalData
from poolgrad_lowering.model.ir.index import ModelIndex
from tests.pool_graphs import parse
from tests.poolgrad_lowering.ge.test_kept_indices import ANY_SIZE, in_planes
from tests.runtime.device_models import GRADIENT, POOL


def nested(op_type: str, times: int) -> str:
    """Nodes, each of which reads the one before it, from a table of zeros to the indices."""
    names = ["zero", *(f"v{number}" for number in range(1, times)), "argmax"]
    read = "({0}, {0})" if op_type == "Add" else "({0})"
    return " ".join(f"{new} = {op_type}{read.format(old)}" for old, new in itertools.pairwise(names))


PROVEN = {
    "a table": ("argmax = Identity(last)", True),
    "a table of one number": ("argmax = Add(five, same)", True),
    "a sum": ("argmax = Add(table, five)", True),
    "a sum just outside of the plane": ("argmax = Add(last, one)", False),
    "a sum with a negative number": ("argmax = Add(table, minus)", False),
    "a sum with an input": ("argmax = Add(table, given)", False),
    "a difference": ("argmax = Sub(table, five)", False),
    "an input": ("argmax = Identity(given)", False),
    "floats": ("argmax = Cast<to = 6>(floats)", False),
    "a cast": ("w = Cast<to = 7>(last) argmax = Cast<to = 6>(w)", True),
    "a cast that may wrap": ("w = Cast<to = 3>(last) argmax = Cast<to = 6>(w)", False),
    "an operator of the name of a view": ("argmax = npu.Identity(last)", False),
    "places along the first axis": ("A = ArgMax<keepdims = 0>(scores) argmax = Cast<to = 6>(A)", True),
    "places along an axis": ("A = ArgMax<axis = -1, keepdims = 0>(scores) argmax = Cast<to = 6>(A)", False),
    "places along no axis": ("A = ArgMax<axis = 5, keepdims = 0>(scores) argmax = Cast<to = 6>(A)", False),
    "a sum of five sums": (nested("Add", 5), True),
    "a sum of many sums": (nested("Add", 8), False),
    "some views": (nested("Identity", 40), True),
    "many views": (nested("Identity", 70), False),
    "a pool of x": (f"y, argmax = {POOL} (x)", True),
    "a pool of another value": (f"o = Neg(x) y, argmax = {POOL} (o)", False),
    "an operator of the name of a pool": (f"y, argmax = {POOL} (x)".replace("npu.", "acme."), False),
    "another operator of the domain": ("y, argmax = npu.Other (x)", False),
    "a plane of unknown size": ("argmax = Identity(last)", False),
}


@pytest.mark.parametrize("name", PROVEN)
def test_indices_are_proven_to_be_in_their_plane(name: str) -> None:
    node, is_proven = PROVEN[name]
    text = f"""
    g (float[1,1,4,4] x, float[1,1,2,2] dy, int32[1,1,2,2] given, float[16,1,1,2,17] scores) => (dx) <
        int32[1,1,2,2] table = {{0, 2, 8, 10}}, int32[1,1,2,2] last = {{0, 2, 8, 15}}, int32 five = {{5}},
        float[1,1,2,2] floats = {{0.0, 2.0, 8.0, 10.0}}, int32[1,1,2,2] zero = {{0, 0, 0, 0}}, int32 one = {{1}},
        int32[1,1,2,2] same = {{3, 3, 3, 3}}, int32 minus = {{-1}}
    > {{ {node} dx = {GRADIENT} (x, dy, argmax) }}"""
    text = text.replace("[1,1,4,4]", "[1,1,H,4]") if "unknown" in name else text
    model = parse(text, imports='"npu": 1, "acme": 1', opset=18)
    assert prepare_for_graph_mode(model, ExternalData()).has_proven_indices is is_proven


def test_an_operator_of_the_name_of_a_gradient_reads_no_indices() -> None:
    node = GRADIENT.replace("npu.", "acme.")
    text = f"g (float[1,1,4,4] x, float[1,1,2,2] dy, int32[1,1,2,2] given) => (dx) {{ dx = {node} (x, dy, given) }}"
    assert prepare_for_graph_mode(parse(text, imports='"acme": 1'), ExternalData()).has_proven_indices


def test_a_table_that_is_not_read_is_not_proven() -> None:
    text = f"""g (float[1,1,4,4] x, float[1,1,2,2] dy) => (dx) <int32[1,1,2,2] table = {{0, 2, 8, 10}}> {{
        dx = {GRADIENT} (x, dy, table)
    }}"""
    model = parse(text, imports='"npu": 1', opset=18)
    types = value_types(model, ModelIndex(model), ExternalData())
    assert indices_are_proven(model, types)
    types.constants["table"].data_location = TensorProto.EXTERNAL
    assert not indices_are_proven(model, types)


READ = f"""
g (float[N,1,H,W] X, float[N,1,H,W] Z, float[N,1,h,w] dy, int64[4,1] begin, int64[1,4] few, int64[N,1,h,w] n) => (dx)
<int64[3] flat = {{0, 0, -1}}, int64[1] four = {{4}}> {{
    planes = Reshape(X, flat) table = Add(begin, few) windows = Gather<axis = 2>(planes, table)
    numbers = Reshape(few, four) number = Gather(numbers, n) position = Add(number, begin)
    argmax = Cast<to = 6>(position) dx = {GRADIENT} (X, dy, argmax)
}}"""
UNREAD = {
    "another value": ("(X, dy, argmax)", "(Z, dy, argmax)"),
    "another begin": ("Add(number, begin)", "Add(number, few)"),
    "other numbers": ("Reshape(few, four)", "Reshape(begin, four)"),
    "begins and numbers side by side": ("int64[4,1] begin, int64[1,4] few", "int64[4] begin, int64[4] few"),
    "other elements": ("axis = 2", "axis = 1"),
    "parts of planes": ("{0, 0, -1}", "{0, -1, 4}"),
    "a difference": ("table = Add(", "table = Sub("),
    "few bits": ("argmax = Cast<to = 6>(position)", "small = Cast<to = 3>(position) argmax = Cast<to = 6>(small)"),
}


def test_indices_of_any_size_are_proven_where_the_graph_reads_the_elements() -> None:
    assert prepare_for_graph_mode(parse(READ, imports='"npu": 1', opset=18), ExternalData()).has_proven_indices


@pytest.mark.parametrize(("part", "other"), UNREAD.values(), ids=UNREAD)
def test_indices_of_any_size_are_not_proven_by_what_else_it_reads(part: str, other: str) -> None:
    text = READ.replace(part, other)
    assert text != READ
    assert not prepare_for_graph_mode(parse(text, imports='"npu": 1', opset=18), ExternalData()).has_proven_indices


def test_indices_of_a_pool_of_any_size_are_proven_also_in_its_export() -> None:
    model = in_planes(*ANY_SIZE["no overlap"])
    model.graph.input.append(onnx.helper.make_tensor_value_info("dy", onnx.TensorProto.FLOAT, ["N", 3, "h", "w"]))
    graph = parse(f"g (x, dy, i) => (dx) {{ a = Cast<to = 6>(index) dx = {GRADIENT} (X, dy, a) }}", imports='"npu": 1')
    model.graph.node.extend(graph.graph.node)
    model.opset_import.add(domain="npu", version=1)
    for _ in range(2):
        assert prepare_for_graph_mode(model, ExternalData()).has_proven_indices


@pytest.mark.parametrize(("other", "copies"), [("table", 0), ("given", 2)])
def test_indices_that_are_checked_are_copied(other: str, copies: int) -> None:
    """The check is of a whole session; a pool's own indices never need it."""
    text = f"""
    g (float[1,1,4,4] x, float[1,1,2,2] dy, int32[1,1,2,2] given) => (a, b, c)
    <int32[1,1,2,2] table = {{0, 2, 8, 10}}> {{
        y, argmax = {POOL} (x) a = {GRADIENT} (x, dy, argmax)
        b = {GRADIENT} (x, dy, table) c = {GRADIENT} (x, dy, {other})
    }}"""
    model = parse(text, imports='"npu": 1', opset=18)
    types = value_types(model, ModelIndex(model), ExternalData())
    assert find_placement(model, types).copies == copies


IN_BRANCH = f"""If(c) <then_branch = t () => (a) {{ a = {GRADIENT} (x, dy, given) }},
    else_branch = e () => (b) {{ b = Neg(x) }}>"""
IN_FUNCTION = f"""<domain: "own", opset_import: ["": 18, "npu": 1]> f (x, dy, given) => (dx) {{
    dx = {GRADIENT} (x, dy, given) }}"""


@pytest.mark.parametrize(
    ("node", "functions"), [(IN_BRANCH, ""), ("own.f(x, dy, given)", IN_FUNCTION), ("own.f(x, dy, given)", "Neg")]
)
def test_indices_in_a_branch_or_a_function_are_not_proven(node: str, functions: str) -> None:
    text = f"""g (bool c, float[1,1,4,4] x, float[1,1,2,2] dy, int32[1,1,2,2] given) => (dx) {{ dx = {node} }}"""
    is_read = functions != "Neg"
    body = functions if is_read else IN_FUNCTION.replace(f"{GRADIENT} (x, dy, given)", "Neg(x)")
    model = parse(text, imports='"npu": 1, "own": 1', opset=18, functions=body)
    types = value_types(model, ModelIndex(model), ExternalData())
    assert indices_are_proven(model, types) is not is_read
