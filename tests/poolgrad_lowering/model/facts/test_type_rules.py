# SPDX-License-Identifier: Apache-2.0

"""Element types that follow from operators, held against onnx's own inference."""

from __future__ import annotations

import onnx
import pytest

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


@pytest.mark.parametrize("to", [99, 2**31])
def test_a_type_that_onnx_does_not_have_is_unknown(to: int) -> None:
    facts, value = main_value(parse(f"g (float[2] X) => (Y) {{ Y = Cast<to = {to}>(X) }}"), "Y")
    assert facts.element_type(value) is None
