# SPDX-License-Identifier: Apache-2.0

"""What onnx infers for one node of a function, against what it infers where the node is in the main graph."""

from __future__ import annotations

import onnx
import pytest

from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.node_inference import defines
from poolgrad_lowering.model.ir.dims import Dim
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import Node, Value
from tests.pool_graphs import parse

INPUTS = "float[2,3,8,8] X, float[N,3,L,8] S, float[4,3,3,3] W, int64[K] I, bool[2,3] B"
NODES = [
    "Y = Softmax(X)",
    "Y = Softmax(S)",
    "Y = Conv(X, W)",
    "Y = Conv<strides = [2, 2]>(S, W)",
    "Y = AveragePool<kernel_shape = [3, 3]>(X)",
    "Y = AveragePool<kernel_shape = [9, 3]>(X)",
    "Y = GlobalMaxPool(S)",
    "Y = ReduceSum(X)",
    "r = Constant<value = int64[4] {1, 2, 3, 1}>() Y = Tile(X, r)",
    "r = Constant<value = int64[4] {1, 2, 3, 1}>() Y = Tile(S, r)",
    "p = Constant<value = int64[8] {0, 0, 1, 1, 0, 0, 2, 2}>() Y = Pad(X, p)",
    "p = Constant<value = int64[8] {0, 0, 1, 1, 0, 0, 2, 2}>() Y = Pad(S, p)",
    "s = Constant<value = float[4] {1, 1, 2, 2}>() Y = Resize(X, , s)",
    "k = Constant<value = int64[1] {2}>() Y, i = TopK(X, k)",
    "k = Constant<value = int64[1] {2}>() v, Y = TopK(S, k)",
    "Y, b = Split<axis = 0>(B)",
    "a, Y = Dropout(X)",
    "Y = MatMul(X, S)",
    "Y = MatMul(S, X)",
    "Y = Equal(I, I)",
    "Y = Equal(X, S)",
    "Y = GatherND(X, I)",
    "d = Constant<value = int64 {5}>() v = Constant<value = float[2] {0, 1}>() Y = OneHot(I, d, v)",
    "Y = Pow(S, X)",
    "Y = ReduceMax<axes = [1]>(S)",
    "Y = ReduceMax<axes = [1], keepdims = 0>(S)",
    "C = Concat<axis = 1>(X, X, X, X) Y = DepthToSpace<blocksize = 2>(C)",
    "Y = SpaceToDepth<blocksize = 2>(S)",
    "Y = Clip(X, , )",
    "Y = Size(X)",
    "Y = If(B) <then_branch = t () => (T) { T = Neg(X) }, else_branch = e () => (E) { E = Abs(X) }>",
]


def last_node(nodes: str, *, called: bool = True) -> tuple[Facts, Node, Value]:
    """The last of some nodes in a function, or in the main graph, with Y."""
    names = ", ".join(name.split()[-1] for name in INPUTS.split(", "))
    graph = f"g ({INPUTS}) => (Z) {{ Z = local.f({names}) }}" if called else f"g ({INPUTS}) => (Y) {{ {nodes} }}"
    function = f'<domain: "local", opset_import: ["": 16, "other": 1]> f ({names}) => (Y) {{ {nodes} }}'
    index = ModelIndex(parse(graph, ir=10, imports='"local": 1, "other": 1', functions=function if called else ""))
    scope = index.scopes[1] if called else index.scopes[0]
    node = scope.node(len(scope.proto.node) - 1)
    return Facts(index), node, Value(scope, "Y")


def inferred(nodes: str) -> onnx.TypeProto.Tensor:
    """What onnx infers of Y in a main graph of these nodes."""
    model = parse(f"g ({INPUTS}) => (Y) {{ {nodes} }}")
    [found] = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph.output
    return found.type.tensor_type


@pytest.mark.parametrize("nodes", NODES)
def test_same_as_in_the_main_graph(nodes: str) -> None:
    expected = inferred(nodes)
    assert expected.elem_type
    facts, node, value = last_node(nodes)
    assert facts.element_type(value) == expected.elem_type
    shape = facts.shape(value)
    if not expected.HasField("shape"):
        assert shape is None
        return
    assert shape is not None
    assert len(shape) == len(expected.shape.dim)
    for found, dim in zip(shape, expected.shape.dim, strict=True):
        if dim.HasField("dim_value"):
            assert found == Dim(dim.dim_value)
        elif dim.dim_param in ("N", "L", "K"):
            assert found == Dim.parse(dim.dim_param)
        else:
            assert found.static is None
    assert defines(node)
