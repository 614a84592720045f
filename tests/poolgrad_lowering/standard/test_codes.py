# SPDX-License-Identifier: Apache-2.0

"""Each reason for which an operator of a training runtime stays, in the smallest model that has it."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import parser

import poolgrad_lowering
from poolgrad_lowering.model.diagnostics.definition_codes import DefinitionCode
from poolgrad_lowering.standard.definition import DEFINITIONS, defines
from tests.poolgrad_lowering.standard.standard_models import WITHOUT_OPERATORS
from tests.texts import Says

HEAD = '<ir_version: 10, opset_import: ["": {opset}, "com.microsoft": 1, "org.pytorch.aten": 1, "acme": 1]>'


def left(code: str, label: str, opset: int, text: str) -> Any:
    """A row: the code, and the model."""
    return pytest.param(code, opset, text, marks=pytest.mark.undefined(code), id=f"{code}: {label}")


LOSS = "g (float d, float[2,C] p, int64[2] l) => (float[2,C] dX) {{ [n] dX = com.microsoft.{} (d, p, l) }}"
SLICE = """g (float[N,2] dY, int64[2] {given}) => (float[N,H] dX)
    <int64[2] s = {{2, 6}}, int64[1] starts = {{1}}, int64[1] ends = {{3}}, int64[1] axes = {{1}},
    int64[1] steps = {{2}}> {{ {more} [n] dX = com.microsoft.SliceGrad (dY, shape, starts, ends, axes, steps) }}"""
CONV = """g (float[N,4,{y}] dY, float[N,{c},{x}] X, float[4,{w},3] W) => (float[4,{w},3] dW) {{
    [n] dX, dW = com.microsoft.{op} {at} (dY, X, W) }}"""
POOL = """g (float[N,{c},{h}] X, float[N,{c},H] dY) => (float[N,{c},{h}] dX, float[N,{c},P] Y) {{
    {pool} [n] dX = AveragePoolGrad <kernel_shape = [2]> (dY) }}"""
RESIZE = """g (float[N,2,6] dY, float[N,2,3] X{more}) => (float[N,2,3] dX) <float[3] s = {{1.0, 1.0, 2.0}}> {{
    [n] dX = com.microsoft.ResizeGrad <{at}> (dY, X, , {s}) }}"""
RESIZE_OF_ANY = """g (float[N,2,K] dY, float[N,2,L] X) => (float[N,2,L] dX) <float[3] s = {{1.0, 1.0, {by}}}> {{
    [n] dX = com.microsoft.ResizeGrad <{at}> (dY, X, , s) }}"""
FLOOR = 'coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"'
TENSORFLOW = """g (float[2,5,5,2] x, float[2,3,3,4] dY{more}) => (float[3,3,2,4] dW) <int32[4] s = {{3, 3, 2, 4}}> {{
    [n] dW = Conv2DBackpropFilter <{at}> (x, {s}, dY) }}"""
SCATTER = """g (int64[2] s, int64[3,4] i, float[3,4] dY) => (float[A,B] dX) {
    [n] dX = com.microsoft.GatherElementsGrad <axis = 0> (dY, s, i) }"""
ATEN = 'g (float[2,3] X) => (float[2,3] Y) {{ [n] Y = org.pytorch.aten.ATen <operator = "{}"> (X) }}'
UNARY = "g (float[4] X) => (float[4] Y) {{ [n] Y = {} (X) }}"

ROWS = [
    left("aten-function", "a sort", 18, ATEN.format("sort")),
    left("aten-function", "a maximum of all", 18, ATEN.format("max")),
    left("no-definition", "an operator of its own", 18, UNARY.format("acme.Op")),
    left("no-definition", "a name like ONNX's", 18, UNARY.format("Rleu")),
    left("old-opset", "a scatter that adds", 15, SCATTER),
    left("old-opset", "an operator", 8, SCATTER),
    left(
        "old-opset", "axes that are computed", 12,
        "g (float[3,4] X, int64[1] a) => (float[R,S] Y) { [n] Y = com.microsoft.ReduceSumTraining (X, a) }"),
    left("old-opset", "opset 10", 10, UNARY.format("com.microsoft.Gelu")),
    left("outside-of-the-graph", "processes", 18, UNARY.format("com.microsoft.MegatronF")),
    left("outside-of-the-graph", "Python", 18, UNARY.format("com.microsoft.PythonOp")),
    left("outside-of-the-graph", "CUDA", 18, UNARY.format("com.microsoft.FakeQuant")),
    left("part-of-a-step", "a cut", 18, UNARY.format("com.microsoft.YieldOp")),
    left("part-of-a-step", "an optimizer", 18, UNARY.format("com.microsoft.SGDOptimizerV2")),
    left(
        "uncovered-operand", "a reduction", 18,
        LOSS.format('SoftmaxCrossEntropyLossGrad <reduction = "max">').replace("C]", "3]")),
    left(
        "uncovered-operand",
        "batch_dims",
        18,
        """g (int64[2] s, int64[2,1] i, float[2] dY) => (float[A,B] dX) {
        [n] dX = com.microsoft.GatherNDGrad <batch_dims = 1> (s, i, dY) }""",
    ),
    left("uncovered-operand", "a shape that is computed", 18, SLICE.format(given="shape", more="")),
    left(
        "uncovered-operand",
        "an activation",
        18,
        """g (float[N,2,5] X, float[4,2,3] W) => (float[N,4,3] Y) {
        [n] Y = com.microsoft.FusedConv <activation = "Elu"> (X, W) }""",
    ),
    left("uncovered-operand", "antialias", 18, RESIZE.format(more="", s="s", at='mode = "linear", antialias = 1')),
    left("uncovered-operand", "a mode", 18, RESIZE.format(more="", s="s", at='mode = "area"')),
    left(
        "uncovered-operand", "coordinates", 18,
        RESIZE.format(more="", s="s", at='mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize"')),
    left(
        "uncovered-operand", "scales that are computed", 18,
        RESIZE.format(more=", float[3] t", s="t", at='mode = "linear"')),
    left(
        "uncovered-operand", "auto_pad of a transposed convolution", 18,
        CONV.format(y=5, c=4, x=5, w=4, op="ConvTransposeGrad", at='<auto_pad = "SAME_UPPER">')),
    left(
        "uncovered-operand", "groups that do not divide", 18,
        CONV.format(y=3, c=6, x=5, w=2, op="ConvGrad", at="<group = 3>")),
    left(
        "uncovered-operand", "padding of TensorFlow", 18, TENSORFLOW.format(more="", s="s", at='padding = "EXPLICIT"')
    ),
    left(
        "uncovered-operand", "a layout of TensorFlow", 18,
        TENSORFLOW.format(more="", s="s", at='padding = "SAME", data_format = "CHWN"')),
    left(
        "uncovered-operand", "sizes of TensorFlow that are computed", 18,
        TENSORFLOW.format(more=", int32[4] t", s="t", at='padding = "SAME"')),
    left(
        "uncovered-operand",
        "no training",
        18,
        """g (float[N,2,3] X, float[2] s) => (float[N,2,3] Y) {
        [n] Y = com.microsoft.BatchNormInternal <training_mode = 0> (X, s, s, s, s) }""",
    ),
    left(
        "uncovered-operand", "Indices of no pool", 18,
        "g (double[2] dY, int64[2] i) => (double[A] dX) { [n] dX = MaxPoolGrad <kernel_shape = [2]> (dY, i) }"),
    left(
        "uncovered-operand",
        "a ratio",
        18,
        """g (float[4] dY, bool[4] mask) => (float[4] dX) <float ratio = {1.0}> {
        [n] dX = com.microsoft.DropoutGrad (dY, mask, ratio) }""",
    ),
    left(
        "uncovered-operand", "a missing input", 18,
        "g (float[4] dY) => (float[4] dX) { [n] dX = com.microsoft.ReluGrad (dY) }"),
    left(
        "uncovered-operand", "an axis", 18,
        "g (float[3,4] dY) => (float[3,4] dX) { [n] dX = com.microsoft.SoftmaxGrad_13 <axis = 2> (dY, dY) }"),
    left(
        "uncovered-operand",
        "a divisor of PyTorch's pool",
        18,
        """g (float[1,2,4,4] x) => (float[1,2,2,2] y)
        <int64[2] k = {2, 2}, int64[2] z = {0, 0}, bool no = {0}, int64 d = {3}> {
        [n] y = org.pytorch.aten.ATen <operator = "avg_pool2d"> (x, k, k, z, no, no, d) }""",
    ),
    left("unknown-sizes", "classes", 18, LOSS.format("SoftmaxCrossEntropyLossGrad")),
    left(
        "unknown-sizes", "auto_pad over a symbolic image", 18,
        CONV.format(y="L", c=4, x="H", w=4, op="ConvGrad", at='<auto_pad = "SAME_UPPER", strides = [2]>')),
    left("unknown-sizes", "a weight", 18, CONV.format(y=3, c="C", x=5, w="C", op="ConvGrad", at="")),
    left("unknown-sizes", "no pool", 18, POOL.format(c=2, h=4, pool="Y = Identity (X)")),
    left(
        "unknown-sizes", "the pool of another gradient", 18,
        POOL.format(c=2, h=4, pool="Y = AveragePool <kernel_shape = [2]> (X)").replace("2,H]", "2,7]")),
    left(
        "unknown-sizes", "a symbolic pool", 18, POOL.format(c=2, h="H", pool="Y = AveragePool <kernel_shape = [2]> (X)")
    ),
    left("unknown-sizes", "a linear resize of any size", 18, RESIZE_OF_ANY.format(at='mode = "linear"', by=2.0)),
    left("unknown-sizes", "a resize to a half of any size", 18, RESIZE_OF_ANY.format(at=FLOOR, by=0.5)),
    left(
        "unknown-sizes", "a resize of any size in float64", 18,
        RESIZE_OF_ANY.format(at=FLOOR, by=2.0).replace("(float[", "(double[").replace(" float[N", " double[N")),
    left(
        "unknown-sizes", "a resize that rounds up", 18,
        RESIZE_OF_ANY.format(at=FLOOR.replace("floor", "ceil"), by=2.0)),
    left(
        "unknown-sizes", "a slice in steps of a symbolic axis", 18,
        SLICE.format(given="unread", more="shape = Shape (Z)").replace("int64[2] unread", "float[N,H] Z")),
    left(
        "unknown-sizes",
        "broadcasting",
        18,
        """g (float[N,4] dY, float[N,4] A, float[M,4] B) => (float[N,4] dA) {
        [n] dA = com.microsoft.DivGrad (dY, A, B) }""",
    ),
    left(
        "unknown-sizes",
        "a rank",
        18,
        """g (float[4] dY, int64[R] s) => (float[A] dX) {
        Y = Reshape (dY, s) [n] dX = com.microsoft.SoftmaxGrad_13 (dY, Y) }""",
    ),
    left(
        "unknown-sizes", "an element type", 18,
        """g (float[4] dY) => (float[4] dX) { Y = acme.Op (dY) [n] dX = com.microsoft.ReluGrad (dY, Y) }"""),
    left(
        "unknown-sizes",
        "a forward pool of PyTorch",
        18,
        """g (float[1,2,H,W] dY, float[1,2,4,4] x) => (float[1,2,4,4] dx) {
        [n] dx = org.pytorch.aten.ATen <operator = "_adaptive_avg_pool2d_backward"> (dY, x) }""",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("code", "opset", "text"), ROWS)
def test_a_node_is_left(code: str, opset: int, text: str, says: Says) -> None:
    """It stays as it is, and so does all of the model around it: no initializer is left behind, and no import gone."""
    model = parser.parse_model(HEAD.format(opset=opset) + text)
    lowered = poolgrad_lowering.lower(model, target=WITHOUT_OPERATORS, standard=True)
    assert lowered.report.standard is not None
    [found] = [node for node in lowered.report.standard.left if node.node == "n"]
    assert DefinitionCode(found.code) is DefinitionCode(code)
    says(found.reason)
    assert found.operator.rpartition(".")[2] == model.graph.node[-1].op_type
    assert lowered.model.SerializeToString() == model.SerializeToString()
    assert not lowered.report.standard.is_standard
    assert lowered.report.standard.growth == 0


@pytest.mark.parametrize(
    ("code", "opset", "text"), [row for row in ROWS if row.values[0] == "old-opset" and row.values[1] > 10]
)
def test_a_node_is_left_beside_one_that_is_not(code: str, opset: int, text: str) -> None:
    """What its definition had written before it was refused is not there, also where others are replaced."""
    model = parser.parse_model(HEAD.format(opset=opset) + text.replace("(", "(float[2] d, float[2] y, ", 1))
    other = "g (float[2] d, float[2] y) => (float[2] beside) { beside = com.microsoft.ReluGrad (d, y) }"
    beside = parser.parse_model(HEAD.format(opset=opset) + other)
    model.graph.node.extend(beside.graph.node)
    model.graph.output.extend(beside.graph.output)
    lowered = poolgrad_lowering.lower(model, target=WITHOUT_OPERATORS, standard=True)
    assert lowered.report.standard is not None
    assert lowered.report.standard.replaced == {"com.microsoft.ReluGrad": 1}
    assert [node.code for node in lowered.report.standard.left] == [code]
    assert [tensor.name for tensor in lowered.model.graph.initializer] == ["beside/constant"]
    assert lowered.model.graph.node[0] == model.graph.node[0]


def test_an_operator_has_one_definition() -> None:
    before = DEFINITIONS["com.microsoft", "ReluGrad"]
    with pytest.raises(ValueError, match="'dict' defines ReluGrad, which has a definition already"):
        defines("ReluGrad", "0")(dict)
    assert DEFINITIONS["com.microsoft", "ReluGrad"] is before
