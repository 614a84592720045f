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


def scope(index: ModelIndex, path: str) -> Scope:
    return next(candidate for candidate in index.scopes if candidate.path == path)


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
