# SPDX-License-Identifier: Apache-2.0

"""Inference finds the same types if nodes with subgraphs are in functions of their own."""

from __future__ import annotations

from collections.abc import Iterable

import onnx
import pytest
from onnx import ModelProto, NodeProto, TensorProto

from poolgrad_lowering.analysis.inference import InferredTypes
from poolgrad_lowering.ir.index import ModelIndex, subgraphs
from tests.pool_graphs import parse

BODY = """(int64 i, bool k, float[] p) => (bool k2, float[] q, float[] s) {
    k2 = Identity(c)  q = Add(p, A)  s = Softplus(W) }"""
WHOLE = {
    "branches": """A = Relu(X)
        Y = If(c) <then_branch = t () => (float[] T) { T = Neg(A) },
                   else_branch = e () => (float[] E) { E = Abs(X) }>""",
    "sizes without a name": """Z = NonZero(X)
        B = If(c) <then_branch = t () => (float[] T) { Q = NonZero(X)  T = Cast<to = 1>(Q) },
                   else_branch = e () => (float[] E) { Q = NonZero(X)  E = Cast<to = 1>(Q) }>
        N = NonZero(B)  Y = Cast<to = 1>(N)""",
    "values without a type": """A = other.Foo(X)
        Y = If(c) <then_branch = t () => (float[] T) { T = Neg(A) },
                   else_branch = e () => (float[] E) { E = Abs(X) }>""",
    "captured values as results": """A = Relu(X)
        Y = If(c) <then_branch = t () => (float[] A) {}, else_branch = e () => (float[] X) {}>""",
    "branches in a branch": """A = Relu(X)
        Y = If(c) <then_branch = t () => (float[] T) {
            K = Relu(A)
            T = If(c) <then_branch = t2 () => (float[] T2) { T2 = Add(A, K) },
                       else_branch = e2 () => (float[] E2) { E2 = Neg(K) }>
        }, else_branch = e () => (float[] E) { E = Abs(X) }>""",
    "a loop": f"A = Relu(X)  Y, S = Loop(n, , A) <body = b {BODY}>",
    "a loop with one result": f"A = Relu(X)  , Y = Loop(n, , A) <body = b {BODY}>",
    "a scan": """Y = Scan<num_scan_inputs = 1, body = b (float[] p) => (float[] s) { s = Add(p, W) }>(X)""",
    "a function with branches": "Y = local.f(X, c)",
    "a call in a branch": """Y = If(c) <then_branch = t () => (float[] T) { T = local.f(X, c) },
                                       else_branch = e () => (float[] E) { E = Abs(X) }>""",
    "branches of unequal types": """A = If(c) <then_branch = t () => (float[] T) { T = Neg(X) },
        else_branch = e () => (int64[] E) { E = Shape(X) }> Y = Relu(X)""",
}
"""Of these models no subgraph is left."""
LEFT = {
    "a branch that hides a value": """x = other.Foo(X)
        Y = If(c) <then_branch = t () => (float[] T) { T = Neg(x) },
                   else_branch = e () => (float[] E) <float[2] x = {1, 2}> { E = Softplus(x) }>""",
    "a branch in a branch that hides a value": """x = other.Foo(X)
        Y = If(c) <then_branch = t () => (float[] T) {
            T = If(c) <then_branch = t2 () => (float[] T2) { T2 = Neg(x) },
                       else_branch = e2 () => (float[] E2) <float[2] x = {1, 2}> { E2 = Softplus(x) }>
        }, else_branch = e () => (float[] E) { E = Abs(X) }>""",
    "a branch that uses its own result": """Y = If(c) <then_branch = t () => (float[] T) { T = Neg(Y) },
                                                     else_branch = e () => (float[] E) { E = Abs(X) }>""",
}
"""Nodes that stay: in functions, onnx 1.19 would crash, since it finds values without a type defined again."""
FUNCTION = """<domain: "local", opset_import: ["": 16]> f {} (Z, c) => (W) {{
    V = Relu(Z)
    W = If(c) <then_branch = t () => (T) {{ T = {}(V) }},
               else_branch = e () => (E) {{ E = {}(Z) }}>
}}"""


def model_of(text: str, attributes: str = "", op_type: str = "Neg") -> ModelProto:
    graph = f"g (float[N,3] X, bool c, float[3] W) => (Y) <int64 n = {{7}}> {{ {text} }}"
    function = FUNCTION.format(attributes, op_type, op_type)
    return parse(graph, imports='"local": 1, "other": 1', functions=function)


def types(model: ModelProto) -> dict[str, onnx.TypeProto]:
    graph = onnx.shape_inference.infer_shapes(model).graph
    return {value.name: value.type for value in (*graph.value_info, *graph.output)}


def has_subgraphs(nodes: Iterable[NodeProto]) -> bool:
    return any(any(subgraphs(attribute)) for node in nodes for attribute in node.attribute)


@pytest.mark.parametrize("text", WHOLE.values(), ids=WHOLE)
def test_the_types_stay_the_same(text: str, copies: list[ModelProto]) -> None:
    model = model_of(text)
    expected = types(model)
    copies.clear()
    assert InferredTypes(ModelIndex(model)).all() == expected
    [copy] = copies
    assert not has_subgraphs(copy.graph.node)
    assert all(len(function.node) == 1 for function in copy.functions if has_subgraphs(function.node))
    assert all(name for function in copy.functions for name in (*function.input, *function.output))


@pytest.mark.parametrize("text", LEFT.values(), ids=LEFT)
def test_nodes_that_stay(text: str, copies: list[ModelProto]) -> None:
    model = model_of(text)
    assert InferredTypes(ModelIndex(model)).all().keys() == types(model).keys()
    assert has_subgraphs(copies[0].graph.node)


def test_an_attribute_of_the_caller() -> None:
    """A node that reads one stays in its function."""
    model = model_of("Y = local.f<kind = 7>(X, c)", "<kind>", "Cast<to: int = @kind>")
    found = InferredTypes(ModelIndex(model)).all()
    assert found == types(model)
    assert found["Y"].tensor_type.elem_type == TensorProto.INT64


def test_a_domain_of_its_own() -> None:
    """The model calls what looks like the functions that are made; nothing defines that."""
    model = model_of(f"{WHOLE['branches']}  S = F(X)  U = Softplus(S)")
    call = model.graph.node[-2]
    call.domain, call.op_type = "0", str(len(model.functions))
    model.opset_import.add(domain="0", version=1)
    found = InferredTypes(ModelIndex(model)).all()
    assert found == types(model)
    assert found.keys().isdisjoint({"S", "U"})


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_domains_that_the_model_has(taken: int, copies: list[ModelProto]) -> None:
    """A function that nobody calls is not copied."""
    model = model_of(f"{WHOLE['branches']}  V = local.f(X, c)")
    for number in range(taken):
        model.opset_import.add(domain=str(number), version=1)
    model.functions.add(domain="unused", name="f", opset_import=model.opset_import[:1])
    expected = types(model)
    copies.clear()
    assert InferredTypes(ModelIndex(model)).all() == expected
    called, *made = copies[0].functions
    assert called.name == "f"
    assert [(function.domain, function.name) for function in made] == [(str(taken), "1"), (str(taken), "2")]
    for imports in (copies[0].opset_import, called.opset_import):
        assert [entry.version for entry in imports if entry.domain == str(taken)] == [1]
