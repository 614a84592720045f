# SPDX-License-Identifier: Apache-2.0

"""Element types that follow from operators, held against onnx's own inference."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto

import poolgrad_lowering.analysis.facts as facts_module
from poolgrad_lowering.analysis.type_rules import KEEPS_TYPE
from tests.pool_graphs import main_value, parse

STATED = [
    "Y = Cast<to = 10>(X)",
    "Y = Shape(X)",
    "Y = Size(X)",
    "Y = ArgMax(X)",
    "y, Y = MaxPool<kernel_shape = [2]>(X)",
    "Y = Constant<value = int32[1] {1}>()",
    "s = Shape(X) Y = ConstantOfShape(s)",
    "s = Shape(X) Y = ConstantOfShape<value = int64[1] {1}>(s)",
]
NODES = {
    "Expand": "s = Shape(X) Y = Expand(X, s)",
    "MaxPool": "Y, i = MaxPool<kernel_shape = [2]>(X)",
    "Pad": "p = Constant<value_ints = [0,0,0,0,0,1]>() Y = Pad(X, p)",
    "ScatterElements": "i = ArgMax<keepdims = 1>(X) u = ReduceMax(X) Y = ScatterElements(X, i, u)",
    "ScatterND": "i = Constant<value = int64[1,3] {0,0,0}>() u = Constant<value_floats = [1.0]>() "
    "Y = ScatterND(X, i, u)",
    "Slice": "s = Constant<value_ints = [0]>() e = Constant<value_ints = [1]>() Y = Slice(X, s, e)",
    **{name: f"Y = {name}(X)" for name in ("Neg", "Relu", "Sum", "Transpose")},
    **{name: f"Y = {name}(X, X)" for name in ("Add", "Mul", "Sub")},
    "Mod": "Y = Mod<fmod = 1>(X, X)",
}


@pytest.fixture(autouse=True)
def _without_inference(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a rule does not tell stays unknown."""
    monkeypatch.setattr(facts_module, "inferred_types", lambda *_: {})
    monkeypatch.setattr(facts_module, "infer_type", lambda *_: None)


def test_every_operator_has_a_case() -> None:
    assert set(NODES) == set(KEEPS_TYPE)


@pytest.mark.parametrize("nodes", [*STATED, *NODES.values()])
def test_same_as_onnx_infers(nodes: str) -> None:
    model = parse(f"g (float[2,3,4] X) => (Y) {{ {nodes} }}")
    [inferred] = [v for v in onnx.shape_inference.infer_shapes(model).graph.output if v.name == "Y"]
    facts, value = main_value(model, "Y")
    assert facts.element_type(value) == inferred.type.tensor_type.elem_type != 0


POSITIONS = (
    'ATen<operator = "max", overload_name = "dim">',
    'ATen<operator = "max_pool2d_with_indices">',
    'ATen<operator = "max_pool3d_with_indices">',
    'ATen<operator = "adaptive_max_pool2d">',
    'ATen<operator = "adaptive_max_pool3d">',
    "max",
    "max_pool2d_with_indices",
)


@pytest.mark.parametrize("operator", POSITIONS)
def test_positions_of_maxima_by_pytorch_are_int64(operator: str) -> None:
    graph = f"g (float[2,3,4] X) => (Y) {{ y, Y = org.pytorch.aten.{operator} (X) }}"
    facts, value = main_value(parse(graph, imports='"org.pytorch.aten": 1'), "Y")
    assert facts.element_type(value) == TensorProto.INT64
    assert value.producer is not None
    y = value.producer.output(0)
    assert y is not None
    assert facts.element_type(y) is None


@pytest.mark.parametrize(
    "node", ['ATen<operator = "std_mean">(X)', "other.max(X)"], ids=["another operator", "another domain"]
)
def test_second_output_of_another_operator(node: str) -> None:
    call = node if node.startswith("other") else f"org.pytorch.aten.{node}"
    model = parse(f"g (float[2,3,4] X) => (Y) {{ y, Y = {call} }}", imports='"org.pytorch.aten": 1, "other": 1')
    facts, value = main_value(model, "Y")
    assert facts.element_type(value) is None


def test_a_model_may_define_an_operator_of_pytorch_itself() -> None:
    function = """<domain: "org.pytorch.aten", opset_import: ["": 16]> max (x) => (y, Y) {
        y = Neg (x)
        Y = Cast <to = 10> (x)
    }"""
    graph = "g (float[2,3,4] X) => (Y) { y, Y = org.pytorch.aten.max (X) }"
    facts, value = main_value(parse(graph, imports='"org.pytorch.aten": 1', functions=function), "Y")
    assert facts.element_type(value) is None


@pytest.mark.parametrize("nodes", [nodes for nodes in STATED if "Constant<" not in nodes])
def test_the_operator_states_it(nodes: str) -> None:
    """Whatever the operands are."""
    facts, stated = main_value(parse(f"g (float[2,3,4] X) => (Y) {{ {nodes} }}"), "Y")
    unknown, value = main_value(parse(f"g () => (Y) {{ X = other.Foo() {nodes} }}", imports='"other": 1'), "Y")
    assert unknown.element_type(value) == facts.element_type(stated) != 0


@pytest.mark.parametrize(
    "nodes",
    [
        "Y = Cast(X)",
        'Y = Cast<to = "FLOAT">(X)',
        "y, Y = Dropout(X)",
        "y, Y = Split(X)",
        "Y = Constant()",
        "Y = Constant<value_floats = [1.0]>()",
        "Y = Constant<value = 1.0>()",
        "Y = ConstantOfShape<value = 1.0>(s)",
        "Y = EyeLike(X)",
        "Y = other.Shape(X)",
        "Y = other.Relu(X)",
        "Y = other.Foo<value = int64[1] {1}>(X)",
        "Y = Softplus(X)",
        "Y = Relu()",
        "Y = Relu(nobody)",
        "y, Y = BatchNormalization(X)",
    ],
)
def test_nothing_is_stated(nodes: str) -> None:
    facts, value = main_value(parse(f"g (float[2,3,4] X, int64[2] s) => (Y) {{ {nodes} }}", imports='"other": 1'), "Y")
    assert facts.element_type(value) is None
