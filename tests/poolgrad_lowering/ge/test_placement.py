# SPDX-License-Identifier: Apache-2.0

"""Where nodes run beside the CANN provider, on graphs that are small enough to count by hand.

tests/cann_ep compares the same with sessions.
"""

from __future__ import annotations

from collections import Counter

import onnx
import pytest
from onnx import ModelProto

from poolgrad_lowering import export_cann
from poolgrad_lowering.ge.graph_mode import inline_functions, rewrite_nodes
from poolgrad_lowering.ge.placement import Placement
from poolgrad_lowering.ge.values import value_types
from poolgrad_lowering.model.gate.gate import Gate
from poolgrad_lowering.model.io.external_data import ExternalData
from poolgrad_lowering.model.ir.graphs import HOLDERS
from poolgrad_lowering.model.ir.order import operands, session_order
from tests.heads import head
from tests.pool_graphs import parse
from tests.runtime.device_models import model_of


def placed(model: ModelProto) -> Placement:
    inline_functions(model)
    types = value_types(model, Gate().index(model), ExternalData())
    return rewrite_nodes(model, types)[1]


def parts(text: str) -> list[list[str]]:
    """The names of the nodes of each sub-model, in their order."""
    found: dict[int, list[str]] = {}
    for node in placed(model_of(text)).nodes:
        if node.sub_model is not None:
            found.setdefault(node.sub_model, []).append(node.operator)
    return [found[number] for number in sorted(found)]


def counts(placement: Placement) -> tuple[int, ...]:
    return tuple(count.nodes for count in placement.report.places)


def test_a_value_is_copied_once_however_often_it_is_read() -> None:
    """LayerNormalization is on the CPU: one value goes up to two readers, two go down."""
    text = """m (float[2, 8] x, float[8] w) => (float[2, 8] y, float[2, 8] z) {
      a = Relu (x)
      v = Exp (w)
      n = LayerNormalization (a, v)
      y = Tanh (n)
      z = Neg (n)
    }"""
    found = placed(model_of(text))
    assert (counts(found), found.report.sub_models, found.copies) == ((0, 4, 1), 2, 3)


def test_inputs_and_outputs_of_the_graph_are_no_copies_inside_a_step() -> None:
    text = """m (float[2, 8] x, float[8] w) => (float[2, 8] y) { y = LayerNormalization (x, w) }"""
    found = placed(model_of(text))
    assert (counts(found), found.copies) == ((0, 0, 1), 0)


NOT_RUN = {
    "constants": "m (float[2] x) => (float[2] y) <float[2] c = {1, 2}> { d = Exp (c) e = Neg (d) y = Add (x, e) }",
    "a shape": "m (float[2, 3] x) => (float[N] y) { s = Shape (x) t = Cast <to = 1> (s) y = Neg (t) z = Relu (x) }",
    "what only a shape reads": "m (float[2] x) => (int64[1] y) { a = Exp (x) s = Shape (a) t = Neg (s) "
    "b = Unsqueeze (s, t) y = NonZero (x) }",
    "an Identity": "m (float[2] x) => (float[2] y) { a = Identity (x) y = Neg (a) }",
    "joined Reshapes": "m (float[6] x) => (float[2, 3] y) <int64[1] k = {6}, int64[2] l = {2, 3}, int64[2] j = {3, 2}> "
    "{ a = Reshape (x, j) b = Reshape <allowzero = 1> (a, k) y = Reshape (b, l) }",
    "Reshapes behind one with allowzero": "m (float[6] x) => (float[2, 3] y) "
    "<int64[1] k = {6}, int64[2] l = {2, 3}, int64[2] j = {3, 2}> "
    "{ a = Reshape <allowzero = 1> (x, j) b = Reshape (a, k) y = Reshape (b, l) }",
}
RUN = {
    "constants": ["Add"],
    "a shape": ["Relu"],
    "what only a shape reads": ["NonZero"],
    "an Identity": ["Neg"],
    "joined Reshapes": ["Reshape"],
    "Reshapes behind one with allowzero": ["Reshape", "Reshape"],
}


@pytest.mark.parametrize("name", NOT_RUN)
def test_what_does_not_run_in_a_step(name: str) -> None:
    assert Counter(node.operator for node in placed(model_of(NOT_RUN[name])).nodes) == Counter(RUN[name])


def test_random_numbers_are_drawn_in_each_step() -> None:
    text = "m (int64 n) => (float[2] y) { a = RandomUniform <shape = [2]> () y = Abs (a) }"
    assert counts(placed(model_of(text))) == (0, 1, 1)


def test_random_numbers_are_drawn_on_the_device_if_an_input_has_an_element() -> None:
    text = "m (float[2] x) => (float[2] y) { a = RandomUniform <shape = [2]> () y = Add (x, a) }"
    assert counts(placed(model_of(text))) == (0, 5, 0)


def test_an_operator_of_the_domain_that_nobody_has_runs_as_its_function() -> None:
    text = (
        head(17, "npu")
        + """
      m (float[2] x) => (float[2] y) { y = npu.Foo (x) }
      <domain: "npu", opset_import: ["": 17]> Foo (a) => (c) { b = Relu (a) c = Exp (b) }"""
    )
    assert counts(placed(onnx.parser.parse_model(text))) == (0, 2, 0)


def test_sizes_that_are_not_known_are_counted() -> None:
    found = placed(model_of("m (float[N] x, float[2] b) => (float[2] y) { a = Exp (x) y = Add (a, b) }"))
    assert found.unknown_sizes == 2
    assert found.report.places[1].bytes == 16


READ_BEFORE = "f = Cast<to = 1> (t) s = Add (x, f)"
BOUNDS = {
    "a size": ("s = Neg (x)", "d = Abs (c) t = Shape<start = 0> (d)", []),
    "a number of elements": ("s = Neg (x)", "d = Abs (c) n = Size (d) t = Reshape (n, one)", []),
    "a constant": ("s = Neg (x)", "t = Identity (one)", []),
    "twice a size, which the other part reads too": (
        f"n = Shape<start = 0> (q) t = Add (n, n) {READ_BEFORE}",
        "",
        ["t"],
    ),
    "an input": ("s = Neg (x)", "t = Add (k, k)", ["t"]),
    "a number of an input": ("s = Neg (x)", "n = ArgMax<axis = 0> (k) t = Reshape (n, one)", ["t"]),
}


@pytest.mark.parametrize(("before", "behind", "far"), BOUNDS.values(), ids=BOUNDS)
def test_bounds_that_need_numbers_of_another_part(before: str, behind: str, far: list[str]) -> None:
    """A Tan, which is on the CPU, cuts the graph."""
    text = f"""
    m (float[2] x, float[n] q, int64[1] k) => (float[m] y) <int64[1] zero = {{0}}, int64[1] one = {{1}}> {{
      {before}
      c = Tan (s)
      {behind}
      y = Slice (c, zero, t, zero)
    }}"""
    assert [name for _, name in placed(model_of(text)).far_bounds] == far


def test_the_table_of_operators_with_subgraphs_is_onnx_s() -> None:
    graphs = (onnx.defs.OpSchema.AttrType.GRAPH, onnx.defs.OpSchema.AttrType.GRAPHS)
    assert {
        schema.name
        for schema in onnx.defs.get_all_schemas_with_history()
        if not schema.domain and any(attribute.type in graphs for attribute in schema.attributes.values())
    } == HOLDERS


def test_values_that_subgraphs_read_are_operands() -> None:
    model = onnx.parser.parse_model(
        head(17)
        + """
      m (bool c, float[2] x) => (float[2] y) {
        a = Exp (x)
        b = Neg (x)
        y = If (c) <
          then_branch = t () => (float[2] u) { u = Relu (a) }, else_branch = e () => (float[2] v) { v = Relu (b) }
        >
      }"""
    )
    assert operands(model.graph.node) == [[], [], [0, 1]]
    assert session_order(operands(model.graph.node)) == [1, 0, 2]


def test_a_function_of_another_opset_stays() -> None:
    """onnx inlines none, and the model is valid."""
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18, "l": 1]> g (float[2] x) => (float[2] y) { y = l.twice (x) }'
        '<domain: "l", opset_import: ["": 15]> twice (a) => (b) { b = Add (a, a) }'
    )
    onnx.checker.check_model(model)
    assert counts(placed(model)) == (0, 0, 1)


@pytest.mark.parametrize(
    ("bias", "is_joined"), [("[2]", True), ("[1, 2]", True), ("[4, 1]", False), ("[3, 4, 2]", False)]
)
def test_a_product_and_a_sum_are_one_node_behind_all_others(bias: str, is_joined: bool) -> None:
    found = parts(
        f"m (float[4, 3] x, float[3, 2] w, float{bias} b) => (float[] y, float[] z) {{"
        " p = MatMul (x, w) s = Add (b, p) n = Neg (b) y = Exp (s) z = Add (n, s) }"
    )
    assert found == [["Gemm", "Neg", "Add", "Exp"] if is_joined else ["Neg", "MatMul", "Add", "Add", "Exp"]]


SELECTIONS = {
    "in another part": ("", "c = Tan (x)", "n = NonZero (x) t = Transpose (n) y = GatherND (c, t)", ["t"]),
    "in one part, of what stands first": (
        "n = NonZero (x) t = Transpose (n)",
        "c = Tan (x)",
        "y = GatherND (c, t)",
        [],
    ),
    "a sum": (
        "n = NonZero (x) t = Transpose (n) g = GatherND (x, t) s = ReduceSum (g)",
        "c = Tan (s)",
        "y = Add (x, s)",
        [],
    ),
}


@pytest.mark.parametrize(("before", "between", "behind", "far"), SELECTIONS.values(), ids=SELECTIONS)
def test_values_of_another_part_whose_shape_numbers_decide(
    before: str, between: str, behind: str, far: list[str]
) -> None:
    """A Tan, which is on the CPU, cuts the graph. onnxruntime runs what stands last first."""
    text = f"m (float[N] x) => (float[m] y) {{ {before} {between} {behind} }}"
    assert [name for _, name in placed(model_of(text)).far_selections] == far


@pytest.mark.obstacle("selected-size")
def test_a_selection_in_another_part_is_named() -> None:
    model = model_of("m (float[N] x) => (float[m] y) { c = Tan (x) n = NonZero (x) y = Gather (c, n) }")
    found = export_cann(model).report.obstacles
    assert [(each.operator, each.code) for each in found] == [("Tan", "on-the-cpu"), ("Gather", "selected-size")]


def test_operators_of_other_domains_are_on_the_cpu() -> None:
    """Sub-models are counted from 0 on."""
    names = ("Relu", "CastLike", "MaxPool3DGradWithArgmax", "Identity", "MatMul")
    nodes = " ".join(f"v{at} = other.{name} (x, x)" for at, name in enumerate(names))
    text = f"m (float[2, 2] x) => (y) {{ {nodes} s = Sum (v0, v1, v2, v3, v4) y = Add (v4, s) }}"
    found = placed(parse(text, imports='"other": 1'))
    places = {(node.operator, node.place.value, node.sub_model) for node in found.nodes}
    assert places == {*((f"other.{name}", "cpu", None) for name in names), ("Sum", "cann", 0), ("Add", "cann", 0)}
