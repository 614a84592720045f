# SPDX-License-Identifier: Apache-2.0

"""What graph mode does to a lowered model besides its rewrites."""

from __future__ import annotations

from onnx import ModelProto, TensorProto, helper

from poolgrad_lowering import export_cann
from poolgrad_lowering.ge.graph_mode import GraphModeEdits, inline_functions, prepare_for_graph_mode
from poolgrad_lowering.model.io.external_data import ExternalData
from tests.pool_graphs import parse
from tests.poolgrad_lowering.ge.test_rewrites import operators


def prepared(model: ModelProto) -> tuple[ModelProto, GraphModeEdits]:
    found = ModelProto()
    found.CopyFrom(model)
    return found, prepare_for_graph_mode(found, ExternalData()).edits


def test_what_is_no_longer_there_is_no_longer_declared() -> None:
    model = parse("g (float[1,1,8,8] X) => (Y) { Y, I = MaxPool<kernel_shape = [2, 2]>(X) }")
    for name in "XI":
        model.graph.value_info.append(helper.make_tensor_value_info(name, TensorProto.INT64, None))
    found, edits = prepared(model)
    assert [value.name for value in found.graph.value_info] == ["X"]
    assert edits.text == (
        "0 nodes rewritten, 0 values of rank 0 with an axis, 1 Indices output dropped, 1 node renamed"
    )


def test_nodes_are_sorted_and_have_names_that_no_value_of_another_node_has() -> None:
    found, edits = prepared(parse("g (float[2] X) => (Y) { [A] Y = Neg(A) [B] A = Abs(X) }"))
    assert [(node.op_type, node.name) for node in found.graph.node] == [("Abs", "B"), ("Neg", "A/Neg")]
    assert edits.renamed == 1


def test_what_computed_a_shape_that_is_numbers_now_is_gone() -> None:
    found, _ = prepared(parse("g (float[N,2] X, float[N,2] Z) => (Y) { N = Neg(X) S = Shape(Z) Y = Reshape(N, S) }"))
    assert operators(found) == ["Neg", "Reshape"]


def test_a_declared_type_of_a_value_that_nothing_else_tells_is_known() -> None:
    text = "g (float[2] X) => (Y) <float16[2] U> { U = acme.Make(X) Y = CastLike(X, U) }"
    found, _ = prepared(parse(text, imports='"acme": 1'))
    assert operators(found) == ["Make", "Cast"]
    assert found.graph.node[1].attribute[0].i == TensorProto.FLOAT16


def test_a_prototype_is_missed_from_its_opset_on() -> None:
    text = "g (float16[2,3] X) => (Y) { Y = ReduceLogSum<axes = [1]>(X) }"
    codes = {
        opset: [found.code for found in export_cann(parse(text, opset=opset)).report.obstacles] for opset in (12, 13)
    }
    assert codes == {12: [], 13: ["no-open-prototype"]}


TWICE = '<domain: "DOMAIN", opset_import: ["": OPSET]> NAME (x) => (y) { y = Add(x, x) }'


def with_function(domain: str, name: str, opset: int = 16) -> ModelProto:
    text = TWICE.replace("DOMAIN", domain).replace("NAME", name).replace("OPSET", str(opset))
    return parse(f"g (float[2] X) => (Y) {{ Y = {domain}.{name}(X) }}", imports=f'"{domain}": 1', functions=text)


def test_functions_without_a_kernel_are_inlined() -> None:
    for domain, name in (("own", "twice"), ("own", "MaxPool3DGradWithArgmax"), ("npu", "twice")):
        model = with_function(domain, name)
        assert operators(prepared(model)[0]) == ["Add"]
        assert inline_functions(model)
    assert not inline_functions(with_function("own", "twice", opset=15))
    kernel = with_function("npu", "MaxPool3DGradWithArgmax")
    assert not inline_functions(kernel)
    assert operators(kernel) == ["MaxPool3DGradWithArgmax"]
    assert not inline_functions(parse("g (float[2] X) => (Y) { Y = Neg(X) }"))
