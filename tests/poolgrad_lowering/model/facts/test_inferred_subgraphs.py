# SPDX-License-Identifier: Apache-2.0

"""What is known behind nodes with subgraphs and calls of functions, against what onnx infers for the whole model."""

from __future__ import annotations

import pytest
from onnx import ModelProto, TensorProto, helper

from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.dims import static_dims
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import Value
from tests.pool_graphs import main_value, parse
from tests.poolgrad_lowering.model.facts.inferred import inferred, known

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
HIDING = {
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
"""A name means another value inside."""
FUNCTION = """<domain: "local", opset_import: ["": 16]> f {} (Z, c) => (W) {{
    V = Relu(Z)
    W = If(c) <then_branch = t () => (T) {{ T = {}(V) }},
               else_branch = e () => (E) {{ E = {}(Z) }}>
}}"""


def model_of(text: str, attributes: str = "", op_type: str = "Neg") -> ModelProto:
    graph = f"g (float[N,3] X, bool c, float[3] W) => (Y) <int64 n = {{7}}> {{ {text} }}"
    function = FUNCTION.format(attributes, op_type, op_type)
    return parse(graph, imports='"local": 1, "other": 1', functions=function)


@pytest.mark.parametrize("text", [*WHOLE.values(), *HIDING.values()], ids=[*WHOLE, *HIDING])
def test_the_types_are_those_of_the_whole_model(text: str) -> None:
    model = model_of(text)
    found = known(model)
    for name, (kind, sizes) in inferred(model).items():
        own_kind, own = found[name]
        assert own_kind == kind
        assert sizes is None or own is not None
        assert all(size in (mine, "?") for mine, size in zip(own or (), sizes or (), strict=sizes is not None))


def test_an_attribute_of_the_caller() -> None:
    """Decides the type of a call."""
    model = model_of("Y = local.f<kind = 7>(X, c)", "<kind>", "Cast<to: int = @kind>")
    assert known(model)["Y"][0] == TensorProto.INT64


@pytest.mark.parametrize("operator", ["Cast<to: int = @kind>", "Flatten<axis: int = @kind>"])
def test_an_attribute_of_the_caller_in_a_branch(operator: str) -> None:
    """Of the function's own values nothing is known that depends on it; onnx would take its default."""
    index = ModelIndex(model_of("Y = local.f<kind = 7>(X, c)", "<kind>", operator))
    scope = next(scope for scope in index.scopes if "W" in scope.producers)
    facts, value = Facts(index), Value(scope, "W")
    assert (facts.element_type(value), facts.shape(value)) == (None, None)


@pytest.mark.parametrize(("count", "is_known"), [(100, True), (2047, True), (2048, False), (9_000, False)])
def test_a_function_that_calls_many(count: int, is_known: bool) -> None:
    """So many are inferred; more would take onnx too long."""
    model = parse("g (float[2,3] x) => (y) { y = l.all(x) }", imports='"l": 1')
    opsets = [helper.make_opsetid("", 16), helper.make_opsetid("l", 1)]
    calls = [helper.make_node(f"f{number}", [f"a{number}"], [f"a{number + 1}"], domain="l") for number in range(count)]
    model.functions.append(helper.make_function("l", "all", ["a0"], [f"a{count}"], calls, opsets))
    for number in range(count):
        body = [helper.make_node("Softmax", ["a"], ["b"])]
        model.functions.append(helper.make_function("l", f"f{number}", ["a"], ["b"], body, opsets))
    facts, value = main_value(model, "y")
    assert facts.shape(value) == (static_dims((2, 3)) if is_known else None)
