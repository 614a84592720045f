# SPDX-License-Identifier: Apache-2.0

"""The graph index: scopes, captures, uses, and work that is linear in the size of the model."""

from __future__ import annotations

import itertools
import sys

import onnx
import pytest
from onnx import ModelProto, helper

from poolgrad_lowering.model.ir.index import ModelIndex, value_infos_of
from poolgrad_lowering.model.ir.scopes import Scope, Use, canonical_domain
from tests.pool_graphs import parse

NESTED = parse(
    """g (float[2] X, bool c, int64 n) => (float[2] Y) <float[2] W = {1.0, 2.0}> {
        A = Relu(X)
        [choose] Y = If(c) <
            then_branch = yes () => (float[2] T) {
                B = Add(A, W)
                [again] T = Loop(n, c, B) <body = step (int64 i, bool go, float[2] s) => (bool on, float[2] t) {
                    on = Identity(go)
                    t = Add(s, A)
                }>
            },
            else_branch = no () => (float[2] A) { }
        >
    }"""
)


def scope(index: ModelIndex, path: str) -> Scope:
    return next(candidate for candidate in index.scopes if candidate.path == path)


def places(index: ModelIndex, path: str, name: str) -> list[tuple[str, int]]:
    value = scope(index, path).resolve(name)
    assert value is not None
    return [(use.scope.path, use.position) for use in value.uses]


def test_scopes_are_named_by_their_place() -> None:
    index = ModelIndex(NESTED)
    yes = "main/choose.then_branch"
    assert [scope.path for scope in index.scopes] == ["main", yes, f"{yes}/again.body", "main/choose.else_branch"]
    assert all(candidate.root is index.scopes[0] for candidate in index.scopes)


def test_captures_resolve_to_the_scope_that_makes_them() -> None:
    index = ModelIndex(NESTED)
    main, body = index.scopes[0], scope(index, "main/choose.then_branch/again.body")
    for name in ("A", "W", "X"):
        value = body.resolve(name)
        assert value is not None
        assert value.scope is main
    local = body.resolve("s")
    assert local is not None
    assert local.scope is body
    assert body.resolve("no_such") is body.resolve("") is None
    assert main.resolve("s") is None


def test_uses_count_captures_and_subgraph_outputs() -> None:
    index = ModelIndex(NESTED)
    assert places(index, "main", "A") == [
        ("main/choose.then_branch", 0),
        ("main/choose.then_branch/again.body", 1),
        ("main/choose.else_branch", -1),
    ]
    assert places(index, "main", "W") == [("main/choose.then_branch", 0)]
    assert places(index, "main", "X") == [("main", 0)]


def test_an_inner_value_hides_an_outer_one() -> None:
    index = ModelIndex(
        parse(
            """g (float[2] X, bool c) => (float[2] Y) {
                A = Relu(X)
                Y = If(c) <then_branch = yes () => (float[2] T) { A = Neg(X)  T = Relu(A) },
                           else_branch = no () => (float[2] E) { E = Relu(A) }>
            }"""
        )
    )
    assert places(index, "main", "A") == [("main/Y.else_branch", 0)]
    assert places(index, "main/Y.then_branch", "A") == [("main/Y.then_branch", 1)]


def test_functions_see_nothing_of_the_graph() -> None:
    index = ModelIndex(
        parse(
            "g (float[2] X) => (float[2] Y) { A = Relu(X)  Y = l.f(X) }",
            imports='"l": 1',
            functions='<domain: "l", opset_import: ["": 13]> f (P) => (Q) { Q = Add(P, A) }',
        )
    )
    function = scope(index, "function l.f")
    assert function.resolve("A") is None
    assert function.opset == 13
    assert index.opset == 16
    value = function.resolve("Q")
    assert value is not None
    assert value.is_output


def test_readers_of_one_value_twice() -> None:
    index = ModelIndex(parse("g (float[2] X) => (float[2] Y) { A = Relu(X)  Y = Mul(A, A) }"))
    assert places(index, "main", "A") == [("main", 1), ("main", 1)]


def test_node() -> None:
    index = ModelIndex(
        parse("g (float[1,1,4] X) => (I) { [pool] Y, I = MaxPool<kernel_shape = [2]>(X)  Z = Clip(X, , Y) }")
    )
    pool, clip = (index.scopes[0].node(position) for position in range(2))
    assert (pool.label, clip.label) == ("pool", "Z")
    assert pool.is_a("Relu", "MaxPool")
    assert not pool.is_a("Relu")
    output = pool.output(1)
    assert output is not None
    assert output.is_output
    assert output.producer == pool
    assert pool.output(2) is clip.input(1) is clip.input(3) is None
    assert clip.input(2) == pool.output(0)


def test_origin() -> None:
    nodes = (
        "A = Relu(X)  B = Identity(A)  C = Identity(B)  D = other.Identity(C)  Y = Identity(Y)  Z = Identity(nobody)"
    )
    index = ModelIndex(parse(f"g (float[2] X) => (Y) {{ {nodes} }}", imports='"other": 1'))
    origins = {name: value.origin.name for name in "ABCDYZ" if (value := index.scopes[0].resolve(name)) is not None}
    assert origins == {"A": "A", "B": "A", "C": "A", "D": "D", "Y": "Y", "Z": "Z"}


def test_default_domain_has_two_names() -> None:
    model = parse("g (float[2] X) => (float[2] Y) { Y = Relu(X) }")
    model.graph.node[0].domain = "ai.onnx"
    model.opset_import[0].domain = "ai.onnx"
    index = ModelIndex(model)
    assert index.scopes[0].by_op == {("", "Relu"): [0]}
    assert index.scopes[0].node(0).is_a("Relu")
    assert index.opset == 16
    assert canonical_domain("ai.onnx.ml") == "ai.onnx.ml"


def test_by_op_is_in_order_and_by_domain() -> None:
    index = ModelIndex(
        parse("g (float[2] X) => (float[2] Y) { A = Relu(X)  B = other.Relu(A)  Y = Relu(B) }", imports='"other": 1')
    )
    assert index.scopes[0].by_op == {("", "Relu"): [0, 2], ("other", "Relu"): [1]}


@pytest.mark.parametrize("domain", ["", "other"])
def test_only_the_operator_itself_is_redefined(domain: str) -> None:
    """A function of another domain redefines nothing, and a node of another domain is not redefined."""
    index = ModelIndex(
        parse(
            "g (float[2] X) => (float[2] Y) { A = other.Relu(X)  B = Neg(A)  Y = Relu(B) }",
            imports='"other": 1',
            functions=f'<domain: "{domain}", opset_import: ["": 16]> Relu (P) => (Q) {{ Q = Neg(P) }}',
        )
    )
    assert [index.scopes[0].node(position).op[0] for position in range(3)] == [
        "other",
        "",
        "" if domain else "local function",
    ]


def test_calls() -> None:
    """The calls of a function in any scope, by domain, name and overload."""
    texts = [
        f'<domain: "{domain}", overload: "{overload}", opset_import: ["": 16]> f (P) => (Q) {{ Q = Neg(P) }}'
        for domain, overload in (("", ""), ("l", ""), ("l", "o"))
    ]
    index = ModelIndex(
        parse(
            """g (float[2] X, bool c) => (float[2] Z) {
                A = f(X)
                B = l.f(A)
                C = l.f:o(B)
                Y = If(c) <then_branch = yes () => (float[2] T) { T = l.f:o(C) },
                           else_branch = no () => (float[2] E) { E = f(C) }>
                D = k.f(Y)
                Z = l.f(D)
            }""",
            imports='"l": 1, "k": 1',
            functions=" ".join(texts),
        )
    )
    functions = [scope for scope in index.scopes if scope.path.startswith("function")]
    assert [scope.path for scope in functions] == ["function .f", "function l.f", "function l.f"]
    assert [[node.label for node in index.calls(scope)] for scope in functions] == [["A", "E"], ["B", "Z"], ["C", "T"]]
    assert index.calls(index.scopes[0]) == []


def test_value_infos() -> None:
    model = parse("g (float[2] X) => (float[2] Y) { A = Relu(X)  Y = Relu(A) }")
    for number, name in enumerate("ABCA"):
        scope = ModelIndex(model).scopes[0]
        if number == 3:
            assert value_infos_of(scope, ["C", "Y", "A"]) == [2, 0]
            assert value_infos_of(scope, []) == []
        model.graph.value_info.add(name=name)
    scope = ModelIndex(model).scopes[0]
    assert value_infos_of(scope, ["C", "Y", "A"]) == [0, 2, 3]
    assert value_infos_of(scope, ["Y"]) == []
    assert scope.declared("A") is model.graph.value_info[3]


@pytest.mark.parametrize("order", [*itertools.permutations(range(2)), *itertools.permutations(range(3))])
def test_a_value_that_is_declared_more_than_once(order: tuple[int, ...]) -> None:
    """Optimisers add declarations without a type to those that are there: the one that says most counts."""
    declarations = [
        helper.make_value_info("A", onnx.TypeProto()),
        helper.make_tensor_value_info("A", onnx.TensorProto.FLOAT, None),
        helper.make_tensor_value_info("A", onnx.TensorProto.FLOAT, [2]),
    ]
    model = parse("g (float[2] X) => (float[2] Y) { A = local.F(X)  B = local.G(X)  Y = Add(A, B) }")
    model.graph.value_info.extend(declarations[position] for position in order)
    assert ModelIndex(model).scopes[0].declared("A") == declarations[max(order)]


def test_sparse_initializers_are_values_from_outside() -> None:
    model = parse("g (float[2] X) => (float[2] Y) { Y = Add(X, S) }")
    sparse = model.graph.sparse_initializer.add(dims=[2])
    sparse.values.CopyFrom(onnx.helper.make_tensor("S", onnx.TensorProto.FLOAT, [1], [1.0]))
    value = ModelIndex(model).scopes[0].resolve("S")
    assert value is not None
    assert value.producer is None
    assert value.name in value.scope.inputs


def test_training_reads_and_sets_values_of_the_main_graph() -> None:
    model = parse("g (float[2] X) => (float[2] Y) <float[2] W = {1.0, 2.0}> { A = Relu(X)  Y = Add(A, W) }")
    training = model.training_info.add()
    training.algorithm.node.add(op_type="Neg", input=["A"], output=["W_next"])
    training.update_binding.add(key="W", value="W_next")
    index = ModelIndex(model)
    assert places(index, "main", "A") == [("main", 1), ("main", -1)]
    assert index.scopes[0].inputs == {"X", "W"}


def test_training_binds_what_the_main_graph_stores() -> None:
    model = parse("g (float[2] X) => (float[2] Y) <float[2] W = {1.0, 2.0}> { Y = Add(X, W) }")
    model.training_info.add().initialization_binding.add(key="nobody", value="v")
    index = ModelIndex(model)
    assert index.scopes[0].inputs == {"X"}
    assert [scope.path for scope in index.scopes] == ["main"]


@pytest.mark.parametrize("count", [3, 300])
def test_each_node_is_visited_once_per_pass(count: int) -> None:
    """Ten times the nodes take at most ten times the calls."""
    few, many = (_calls(_chain(size)) for size in (count, 10 * count))
    assert many <= 10 * few


def _chain(count: int) -> ModelProto:
    nodes = [onnx.helper.make_node("Relu", [f"a{number}"], [f"a{number + 1}"]) for number in range(count)]
    sparse = [onnx.SparseTensorProto(values=onnx.TensorProto(name=f"s{number}")) for number in range(count)]
    graph = onnx.GraphProto(name="g", node=nodes, sparse_initializer=sparse)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 16)])


def _calls(model: ModelProto) -> int:
    """The number of Python and C calls of indexing, which does not vary as times do."""
    counted = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        index = ModelIndex(model)
    finally:
        sys.setprofile(None)
    assert sum(len(scope.use_lists.names) + len(scope.producers) for scope in index.scopes) < 3 * len(model.graph.node)
    return counted


def test_use_of_a_value_that_nobody_makes() -> None:
    index = ModelIndex(parse("g (float[2] X) => (float[2] Y) { Y = Add(X, nobody) }"))
    node = index.scopes[0].node(0)
    assert node.input(1) is None
    assert Use(index.scopes[0], 0) in (node.input(0) or pytest.fail("X")).uses


def test_outputs_that_nobody_makes() -> None:
    """They are names that the graph uses, sorted, also where one is not text."""
    content = ModelProto(graph=onnx.GraphProto(output=[onnx.ValueInfoProto(name=name) for name in "c#a"]))
    index = ModelIndex(ModelProto.FromString(content.SerializeToString().replace(b"#", b"\xff")))
    assert list(index.scopes[0].free_names) == ["a", b"\xff", "c"]
