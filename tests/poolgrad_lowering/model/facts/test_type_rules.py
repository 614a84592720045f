# SPDX-License-Identifier: Apache-2.0

"""Element types that follow from operators, held against onnx's own inference."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto

from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.index import ModelIndex
from tests.pool_graphs import main_value, parse
from tests.poolgrad_lowering.model.facts.inferred import without_inference

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
    "Softplus": "Y = Softplus(X)",
    "Dropout": "y, Y = Dropout(X)",
    "Split": "y, Y = Split<axis = 2>(X)",
    "Where": "c = Equal(X, X) Y = Where(c, X, X)",
    "CastLike": "s = Shape(X) Y = CastLike(X, s)",
    "TopK": "k = Constant<value = int64[1] {1}>() y, Y = TopK(X, k)",
    "BatchNormalization": "v = Constant<value_floats = [1.0, 1.0, 1.0]>() Y = BatchNormalization(X, v, v, v, v)",
    "Concat": "Y = Concat<axis = 0>(X, X)",
    "NonZero": "Y = NonZero(X)",
    "IsNaN": "Y = IsNaN(X)",
}


@pytest.fixture(autouse=True)
def _without_inference(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a rule does not tell stays unknown."""
    without_inference(monkeypatch)


@pytest.mark.parametrize("nodes", [*STATED, *NODES.values()])
def test_same_as_onnx_infers(nodes: str) -> None:
    model = parse(f"g (float[2,3,4] X) => (Y) {{ {nodes} }}")
    [inferred] = [v for v in onnx.shape_inference.infer_shapes(model).graph.output if v.name == "Y"]
    facts, value = main_value(model, "Y")
    assert facts.element_type(value) == inferred.type.tensor_type.elem_type != 0


FOREIGN = '"org.pytorch.aten": 1, "ai.onnx.converters.tensorflow": 1, "other": 1'
"""The operator sets of producers."""


@pytest.mark.parametrize("value", ["Y", "Z"])
@pytest.mark.parametrize(
    "node", ['org.pytorch.aten.ATen<operator = "std_mean">', "other.max", "other.MaxPoolGrad", "org.pytorch.aten.std"]
)
def test_operators_of_which_nothing_is_known(node: str, value: str) -> None:
    model = parse(f"g (float[2,3,4] X) => (Y) {{ Y, Z = {node} (X) }}", imports=FOREIGN)
    facts, found = main_value(model, value)
    assert facts.element_type(found) is None


@pytest.mark.parametrize(
    ("node", "expected"),
    [("org.pytorch.aten.max", TensorProto.FLOAT16), ("MaxPoolGrad", TensorProto.FLOAT16), ("other.Op", 1)],
)
def test_a_function_that_still_declares_the_types_before_a_conversion(node: str, expected: int) -> None:
    """Converters to float16 leave the types that functions declare; only of an unknown operator they are all there is.

    The model's own declarations are checked by runtimes, those of functions are not.
    """
    function = f"""<domain: "l", opset_import: ["": 16, "org.pytorch.aten": 1, "other": 1]> f (x) => (z) {{
        y = {node} (x)
        z = Identity (y)
    }}"""
    graph = "g (float16[2,3,4] X) => (Z) { Z = l.f (X) }"
    model = parse(graph, ir=10, imports=f'"l": 1, {FOREIGN}', functions=function)
    model.functions[0].value_info.append(onnx.helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3, 4]))
    index = ModelIndex(model)
    y = index.scopes[1].resolve("y")
    assert y is not None
    assert Facts(index).element_type(y) == expected


@pytest.mark.parametrize(
    "nodes",
    [
        "Y = Cast(X)",
        'Y = Cast<to = "FLOAT">(X)',
        "Y = Constant()",
        "Y = Constant<value_floats = [1.0]>()",
        "Y = Constant<value = 1.0>()",
        "Y = ConstantOfShape<value = 1.0>(s)",
        "Y = EyeLike(X)",
        "Y = other.Shape(X)",
        "Y = other.Relu(X)",
        "Y = other.Foo<value = int64[1] {1}>(X)",
        "Y = Relu()",
        "Y = Relu(nobody)",
        "y, Y = BatchNormalization(X)",
    ],
)
def test_nothing_is_stated(nodes: str) -> None:
    facts, value = main_value(parse(f"g (float[2,3,4] X, int64[2] s) => (Y) {{ {nodes} }}", imports='"other": 1'), "Y")
    assert facts.element_type(value) is None


@pytest.mark.parametrize("to", [99, 2**31])
def test_a_type_that_onnx_does_not_have_is_unknown(to: int) -> None:
    facts, value = main_value(parse(f"g (float[2] X) => (Y) {{ Y = Cast<to = {to}>(X) }}"), "Y")
    assert facts.element_type(value) is None
