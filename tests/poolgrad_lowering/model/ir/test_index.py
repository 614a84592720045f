# SPDX-License-Identifier: Apache-2.0

"""The graph index: scopes, captures, uses, and work that is linear in the size of the model."""

from __future__ import annotations

import sys

import onnx
import pytest
from onnx import ModelProto

from poolgrad_lowering.model.ir.index import ModelIndex, value_infos_of
from poolgrad_lowering.model.ir.scopes import Scope
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


def test_training_reads_and_sets_values_of_the_main_graph() -> None:
    model = parse("g (float[2] X) => (float[2] Y) <float[2] W = {1.0, 2.0}> { A = Relu(X)  Y = Add(A, W) }")
    training = model.training_info.add()
    training.algorithm.node.add(op_type="Neg", input=["A"], output=["W_next"])
    training.update_binding.add(key="W", value="W_next")
    index = ModelIndex(model)
    assert places(index, "main", "A") == [("main", 1), ("main", -1)]
    assert index.scopes[0].inputs == {"X", "W"}


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
