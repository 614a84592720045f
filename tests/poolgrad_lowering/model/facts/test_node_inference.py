# SPDX-License-Identifier: Apache-2.0

"""What onnx infers for one node of a function, against what it infers where the node is in the main graph."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto

from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.node_inference import NodeInference, defines
from poolgrad_lowering.model.facts.shape_rules import is_opaque
from poolgrad_lowering.model.ir.dims import Dim, Shape, size, static_dims
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
    "Y = DepthToSpace<blocksize = 2>(X)",
    "Y = SpaceToDepth<blocksize = 2>(S)",
    "Y = Clip(X, , )",
    "Y = Size(X)",
    "Y = If(B) <then_branch = t () => (T) { T = Neg(X) }, else_branch = e () => (E) { E = Abs(X) }>",
]
NOTHING = [
    "Y = other.Softmax(X)",
    "Y = Softmax(nobody)",
    "Y = Softmax()",
    "Y = Pow(X, nobody)",
    "q = other.Foo(X) Y = Pow(X, q)",
    "Y = Conv(X, I)",
    "Y = Conv(X)",
    "Y = DepthToSpace<blocksize = -2>(X)",
    "Y = AveragePool<kernel_shape = [12, 3]>(X)",
    "Y = AveragePool<kernel_shape = [3, 12]>(X)",
    "Y = SequenceConstruct(X)",
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


def inferred_type(nodes: str) -> onnx.TypeProto | None:
    facts, _, value = last_node(nodes)
    return NodeInference(facts._index).type(facts, value)


def inferred_shape(nodes: str) -> Shape | None:
    facts, _, value = last_node(nodes)
    return NodeInference(facts._index).shape(facts, value)


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


@pytest.mark.parametrize("nodes", NOTHING)
def test_nothing_is_inferred(nodes: str) -> None:
    """What onnx cannot infer, what a model can only claim, and what cannot run."""
    facts, _, value = last_node(nodes)
    assert NodeInference(facts._index).shape(facts, value) is None
    assert facts.shape(value) is None


@pytest.mark.parametrize("nodes", ["q = other.Foo(X) Y = Pow(X, q)", "q = other.Foo(X) Y = IsNaN(q)"])
def test_an_operand_without_a_type(nodes: str) -> None:
    """Onnx, which would refuse it, is not asked."""
    assert inferred_type(nodes) is None


def test_an_operand_without_a_shape() -> None:
    """One is no matter; where there is none with a shape, onnx is not asked, which would take time."""
    unknown = "q = other.Foo(X) r = Cast<to = 1>(q)"
    assert derived(f"{unknown} Y = Clip(X, r)") == static_dims((2, 3, 8, 8))
    assert inferred_shape(f"{unknown} Y = Size(r)") is None


def test_sizes_that_nothing_tells() -> None:
    facts, _, value = last_node("Y = NonZero(S)")
    shape = NodeInference(facts._index).shape(facts, value)
    assert shape is not None
    assert (shape[0], shape[1]) == (Dim(4), Dim(1, ("?function local.f:Y[1]",)))


def test_sizes_of_two_operands_stay_apart() -> None:
    """Those that differ, though none has a number; and products of symbols are sizes as others are."""
    assert derived("Y = MatMul(S, X)") == symbols("2", "3", "L", "8")
    assert derived("f = Flatten<axis = 2>(S) Y = Softmax(f)") == symbols("3*N", "8*L")
    assert derived("c = Concat<axis = 2>(S, S) Y = Softmax(c)")[2] == Dim(1, ("?function local.f:c[2]",))


def symbols(*names: str) -> Shape:
    return tuple(map(Dim.parse, names))


def derived(nodes: str) -> Shape:
    facts, _, value = last_node(nodes)
    shape = facts.shape(value)
    assert shape is not None
    return shape


def test_the_other_outputs() -> None:
    """Each output has what is inferred for it."""
    facts, node, _ = last_node("k = Constant<value = int64[1] {2}>() v, Y = TopK(X, k)")
    inference = NodeInference(facts._index)
    types = [inference.type(facts, output) for output in node.outputs if output is not None]
    assert [found.tensor_type.elem_type for found in types if found is not None] == [
        TensorProto.FLOAT,
        TensorProto.INT64,
    ]
    assert inference.type(facts, Value(node.scope, "elsewhere")) is None


@pytest.mark.parametrize("op", ["Flatten<axis: int = @axis>(X)", "Hardmax<axis: int = @axis>(X)"])
def test_an_attribute_of_the_caller(op: str) -> None:
    """No shape is inferred, since calls may differ in it; the type does not depend on it."""
    model = parse(
        "g (float[2,3,4] X) => (Y) { Y = local.f<axis = 2>(X) }",
        imports='"local": 1',
        functions=f'<domain: "local", opset_import: ["": 16]> f <axis> (X) => (Y) {{ Y = {op} }}',
    )
    index = ModelIndex(model)
    value = Value(index.scopes[1], "Y")
    facts = Facts(index)
    assert (facts.shape(value), facts.element_type(value)) == (None, TensorProto.FLOAT)


@pytest.mark.parametrize(("version", "expected"), [(9, (2, 3)), (13, (2, 3, 4)), (0, None)])
def test_the_operator_set_of_the_function(version: int, expected: tuple[int, ...] | None) -> None:
    """Not that of the main graph: before opset 13 a ReduceSum has its axes in an attribute."""
    nodes = {9: "Y = ReduceSum<axes = [2], keepdims = 0>(X)"}.get(version, "Y = Hardmax(X)")
    imports = f'["": {version}]' if version else '["other": 1]'
    model = parse(
        "g (float[2,3,4] X) => (Y) { Y = local.f(X) }",
        imports='"local": 1',
        functions=f'<domain: "local", opset_import: {imports}> f (X) => (Y) {{ {nodes} }}',
    )
    index = ModelIndex(model)
    shape = Facts(index).shape(Value(index.scopes[1], "Y"))
    assert shape == (None if expected is None else static_dims(expected))


def test_other_operators() -> None:
    assert [defines(last_node(nodes)[1]) for nodes in ("Y = Relu(X)", "Y = other.Relu(X)", "Y = Foo(X)")] == [
        True,
        False,
        False,
    ]
    assert is_opaque(size(derived("Y = NonZero(S)")))
