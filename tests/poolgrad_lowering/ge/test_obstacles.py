# SPDX-License-Identifier: Apache-2.0

"""Every obstacle is named at its node, and a model next to it has none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import ModelProto, TensorProto

from poolgrad_lowering import export_atc, export_cann, lower
from poolgrad_lowering.dialect.targets import TARGETS, Support
from poolgrad_lowering.model.diagnostics.obstacles import Obstacle
from tests.pool_graphs import graph_table, parse, torch_gradient
from tests.texts import Says

BUILT = Path(__file__).parents[3] / "models" / "built"

GRADIENT = torch_gradient([2, 3, 6, 8], kernel_shape=[2, 2], strides=[2, 2])
ON_950 = lower(GRADIENT, target="ascend950").model
INT64 = lower(GRADIENT).model
for _node in INT64.graph.node:
    for _attribute in _node.attribute:
        if _attribute.name == "dtype":
            _attribute.i = 9

NO_RANK = parse(
    """g (float[] x, float[] grad, int32[] argmax) => (float[] y) {
        [gradient] y = npu.MaxPool3DGradWithArgmax<ksize = [1, 2, 2], strides = [1, 2, 2], pads = [0, 0, 0],
            dilation = [1, 1, 1], ceil_mode = 0, data_format = "NCDHW">(x, grad, argmax)
    }""",
    imports='"npu": 1',
)
for _value in (*NO_RANK.graph.input, *NO_RANK.graph.output):
    _value.type.tensor_type.ClearField("shape")


DILATED = lower(GRADIENT, forward=False).model
for _node in DILATED.graph.node:
    for _attribute in _node.attribute:
        if _attribute.name == "dilation":
            _attribute.ints[:] = [1, 1, 2]
HALF = """g (float16[1,1,S] dy) => (float16[1,1,X] dx) <int32[3] sizes = {1, 1, X}> {
    [gradient] dx = npu.AvgPool3DGrad<ksize = [1, 1, 2], strides = [1, 1, 1], pads = [0, 0, 0, 0, 1, 1],
        ceil_mode = 0, count_include_pad = 1, divisor_override = 0, data_format = "NCDHW",
        onnx_kernel_shape = [2], onnx_strides = [1], onnx_pads = [1, 0], onnx_output_padding = [0],
        onnx_counted_pads = [1, 1], onnx_uncounted_pads = [0, 0], onnx_divisor = 0.0>(sizes, dy)
}"""


def half_average(elements: int) -> ModelProto:
    """The dialect's gradient of an average pool with one more window than elements."""
    return parse(HALF.replace("X", str(elements)).replace("S", str(elements + 1)), imports='"npu": 1')


def without_names(graph: str) -> ModelProto:
    """A model whose values of the name `none` are left out."""
    model = parse(graph)
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = ["" if name == "none" else name for name in names]
    return model


def without_shapes(graph: str) -> ModelProto:
    """A model whose inputs and outputs have no shape."""
    model = parse(graph)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.ClearField("shape")
    return model


WRONG = graph_table(
    """
opset 19: opset
    g (float[2] X) => (float[2] Y) { Y = Relu(X) }
opset 7: opset
    g (float[2] X) => (float[2] Y) { Y = Relu(X) }
no input: no-input
    g () => (float[2] Y) <float[2] W = {1.0, 2.0}> { Y = Relu(W) }
an operator of onnxruntime: unregistered-operator
    g (float[2] X) => (float[2] Y) { [n] Y = com.microsoft.Gelu(X) }
an operator of ONNX, opset 18: unregistered-operator
    g (float[2,2,2,2] X, int64[4] S) => (Y) { [n] Y = CenterCropPad(X, S) }
Indices: kept-indices
    g (float[1,1,M,8] X) => (Y, I) { [pool] Y, I = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(X) }
dilation: dropped-dilation
    g (float[1,1,M,8] X) => (float[1,1,A,B] Y) { [pool] Y = MaxPool<kernel_shape = [2, 2], dilations = [1, 2],
        pads = [1, 0, 0, 0]>(X) }
SAME_LOWER: same-lower
    g (float[1,1,M,8] X) => (float[1,1,A,B] Y) { [pool] Y = MaxPool<kernel_shape = [2, 2], auto_pad = "SAME_LOWER">(X) }
dilation of one axis: dropped-dilation
    g (float[1,1,M] X) => (Y) { [pool] Y = MaxPool<kernel_shape = [2], dilations = [2], pads = [1, 1]>(X) }
four axes: pool-axes
    g (float[1,1,4,4,4,4] X) => (Y) { [pool] Y = MaxPool<kernel_shape = [2, 2, 2, 2]>(X) }
a large padded window: large-window
    g (float[1,1,8,8] X) => (float[1,1,A,B] Y) { [pool] Y = MaxPool<kernel_shape = [16, 16], pads = [4, 4, 4, 4]>(X) }
a large stride with ceil_mode: large-window
    g (float[1,1,8,8] X) => (float[1,1,A,B] Y) { [pool] Y = MaxPool<kernel_shape = [2, 2], strides = [64, 1],
        ceil_mode = 1>(X) }
storage order: storage-order
    g (float[1,1,8,8] X) => (float[1,1,A,B] Y) { [pool] Y = MaxPool<kernel_shape = [2, 2], storage_order = 1>(X) }
a transposed convolution without a kernel: kernel-shape
    g (float[1,2,4,4] X, float[2,2,K,3] W) => (Y) { [conv] Y = ConvTranspose(X, W) }
a convolution with no attribute of windows: kernel-shape
    g (float[1,2,4,4] X, float[2,2,K,3] W) => (Y) { [conv] Y = Conv<auto_pad = "VALID">(X, W) }
SAME_LOWER without a kernel: same-lower
    g (float[1,2,4,4] X, float[2,2,K,3] W) => (Y) { [conv] Y = Conv<auto_pad = "SAME_LOWER", strides = [2, 1]>(X, W) }
training mode: training-mode
    g (float16[2,3,4,4] X, float[3] s, float[3] b, float[3] m, float[3] v) => (float16[2,3,4,4] Y, A, B) {
        [norm] Y, A, B = BatchNormalization<training_mode = 1>(X, s, b, m, v)
    }
pads over axes, opset 18: pad-axes
    g (float[2,3] X, int64[2] P, float v, int64[1] A) => (Y) { [pad] Y = Pad(X, P, v, A) }
negative pads of edges: negative-pads
    g (float[4] X) => (Y) <int64[2] P = {-1, 0}> { [pad] Y = Pad<mode = "edge">(X, P) }
negative pads of an old opset, opset 10: negative-pads
    g (float[4] X) => (Y) { [pad] Y = Pad<pads = [-1, 0]>(X) }
a sum into unknown sizes: scatter-reduction
    g (float[N] X, int64[2,1] I, float[2] U) => (float[N] Y) { [scatter] Y = ScatterND<reduction = "add">(X, I, U) }
the last maximum: last-index
    g (float[4] X) => (Y) { [arg] Y = ArgMax<select_last_index = 1>(X) }
alpha without C: dropped-alpha
    g (int32[2,2] X, int32[2,2] Z) => (int32[2,2] Y) { [gemm] Y = Gemm<alpha = 2.0>(X, Z) }
an element type, opset 19: element-type
    g (float[2] X) => (float[2] Y) { [narrow] N = Cast<to = 18>(X) Y = Cast<to = 1>(N) }
""",
    imports='"com.microsoft": 1',
)

MADE: dict[str, tuple[ModelProto, str, str, str]] = {
    "a function": (
        parse(
            "g (float[2] X) => (float[2] Y) { [n] Y = local.twice(X) }",
            imports='"local": 1',
            functions='<domain: "local", opset_import: ["": 16]> twice (x) => (y) { y = Add(x, x) }',
        ),
        "n",
        "local.twice",
        "function-call",
    ),
    "names left out": (
        without_names(
            "g (float[4] X, int64[1] S) => (A, I) { A = Slice(X, S, S, none, S) [unique] none, I = Unique(X) }"
        ),
        "unique",
        "Unique",
        "empty-names",
    ),
    "a transposition of an unknown rank": (
        without_shapes("g (float[2] X) => (float[2] Y) { [turn] Y = Transpose(X) }"),
        "turn",
        "Transpose",
        "unknown-rank",
    ),
    "no rank": (NO_RANK, "gradient", "npu.MaxPool3DGradWithArgmax", "unknown-rank"),
    "int64": (INT64, "Y/MaxPool3DWithArgmaxV2", "npu.MaxPool3DWithArgmaxV2", "argmax-type"),
    "a dilated gradient": (DILATED, "dX/MaxPool3DGradWithArgmax", "npu.MaxPool3DGradWithArgmax", "dilation"),
    "fewer elements than cores": (half_average(47), "gradient", "npu.AvgPool3DGrad", "few-elements"),
    "another target": (ON_950, "Y/MaxPoolWithArgmaxV3", "npu.MaxPoolWithArgmaxV3", "wrong-target"),
}


WEAK = graph_table(
    """
a large kernel: large-kernel
    g (float[1,1,300,4] X, float[1,1,256,4] W) => (Y) { [conv] Y = Conv(X, W) }
a large stride: large-kernel
    g (float[1,1,300] X, float[1,1,3] W) => (Y) { [conv] Y = Conv<strides = [64]>(X, W) }
a large average: large-kernel
    g (float[1,1,16,17] X) => (Y) { [pool] Y = AveragePool<kernel_shape = [16, 16]>(X) }
dilations of a transposed convolution over three axes: transposed-volume
    g (float[1,1,3,3,3] X, float[1,1,2,2,2] W) => (Y) { [up] Y = ConvTranspose<dilations=[2,1,1]>(X, W) }
more output_padding than pads: transposed-volume
    g (float[1,1,3,3,3] X, float[1,1,2,2,2] W) => (Y) { [up] Y = ConvTranspose<strides = [2,2,2],
        output_padding = [1,0,0]>(X, W) }
a large maximum over three axes: large-kernel
    g (float[1,1,64,2,4] X) => (Y) { [pool] Y = MaxPool<kernel_shape = [33, 2, 4]>(X) }
bfloat16 of a maximum over three axes: kernel-type
    g (bfloat16[1,1,4,4,4] X) => (Y) { [pool] Y = MaxPool<kernel_shape = [2, 2, 2]>(X) }
bfloat16 of a linear Resize, opset 13: kernel-type
    g (bfloat16[1,1,2,2] X, float[0] r) => (Y) <float[4] s = {1.0, 1.0, 2.0, 2.0}> { [up] Y = Resize<mode = "linear">(X,
        r, s) }
nine axes: large-rank
    g (float[1,1,1,1,1,1,1,2,3] X) => (Y) { [deep] Y = Relu(X) }
a product of seven axes: large-rank
    g (float[1,1,1,1,1,2,2] X) => (Y) { [deep] Y = MatMul(X, X) }
bfloat16: kernel-type
    g (bfloat16[1,2,3,3] X) => (Y) { [mean] Y = GlobalAveragePool(X) }
statistics of float16: kernel-type
    g (float16[1,2,3,3] X, float16[2] s) => (Y) { [norm] Y = BatchNormalization(X, s, s, s, s) }
float64: float64
    g (float[2] X) => (float[2] Y) { [wide] D = Cast<to = 11>(X) [back] Y = Cast<to = 1>(D) }
no open prototype: no-open-prototype
    g (float[2,2] X) => (float Y) { [det] Y = Det(X) }
the type of a value of unknown type: no-open-prototype
    g (float[2] X) => (Y) { U = npu.NPUMish(X) [like] Y = CastLike(X, U) }
""",
    imports='"npu": 1',
)


def cases(table: dict[str, tuple[ModelProto, str]]) -> dict[str, tuple[ModelProto, str, str, str]]:
    """The rows with the name and the operator of the obstacle, which is the node with a name."""
    found = {}
    for name, (model, code) in table.items():
        named = next((node for node in model.graph.node if node.name), onnx.NodeProto())
        found[name] = (model, named.name, f"{named.domain}.{named.op_type}".strip("."), code)
    return found


def parameters(table: dict[str, tuple[ModelProto, str, str, str]]) -> list[Any]:
    return [pytest.param(*case, id=name, marks=pytest.mark.obstacle(case[3])) for name, case in table.items()]


@pytest.mark.parametrize(("model", "node", "operator", "code"), parameters(cases(WEAK)))
def test_an_obstacle_that_the_parser_takes_does_not_stop_the_export(
    model: ModelProto, node: str, operator: str, code: str, says: Says
) -> None:
    report = export_atc(model).report
    found = report.obstacles[0]
    assert (found.node, found.operator, found.code) == (node, operator, code)
    says(found.reason)
    assert report.converts


@pytest.mark.parametrize(("model", "node", "operator", "code"), parameters(cases(WRONG) | MADE))
def test_an_obstacle_is_named_at_its_node(model: ModelProto, node: str, operator: str, code: str, says: Says) -> None:
    report = export_atc(model).report
    [found] = [each for each in report.obstacles if (each.node, each.operator, each.code) == (node, operator, code)]
    says(found.reason)
    assert not report.converts
    assert found.to_dict() in report.to_dict()["obstacles"]
    assert found.advice == Obstacle(code).advice


def test_names_left_out_are_of_atc_alone() -> None:
    assert "empty-names" not in {found.code for found in export_cann(MADE["names left out"][0]).report.obstacles}


@pytest.mark.parametrize("name", ["opset 19", "opset 7"])
def test_nothing_else_is_said_of_another_opset(name: str) -> None:
    assert [found.code for found in export_atc(WRONG[name][0]).report.obstacles] == ["opset"]


@pytest.mark.parametrize("name", ["a large maximum over three axes", "bfloat16 of a maximum over three axes"])
def test_limits_of_maxima_over_three_axes_are_of_graph_mode_too(name: str) -> None:
    model, code = WEAK[name]
    assert [found.code for found in export_cann(model).report.obstacles] == [code]


def test_an_element_type_that_the_target_does_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    a2 = TARGETS["atlas-a2"]
    model = lower(GRADIENT).model
    assert export_atc(model).report.obstacles == ()
    operators = dict.fromkeys(a2.operators, Support(element_types=frozenset((TensorProto.FLOAT16,))))
    monkeypatch.setitem(TARGETS, "atlas-a2", a2._replace(operators=operators))
    found = {each.operator: (each.code, each.reason) for each in export_atc(model).report.obstacles}
    assert found == {
        f"npu.{name}": ("wrong-target", f"atlas-a2 has no {name} for float32")
        for name in ("MaxPool3DWithArgmaxV2", "MaxPool3DGradWithArgmax")
    }


FINE = graph_table(
    """
opset 18
    g (float[2] X) => (float[2] Y) { Y = Relu(X) }
opset 11
    g (float[2] X) => (float[2] Y) { Y = Relu(X) }
a constant
    g (float[2] X) => (float[2] Y) { C = Constant<value_float = 2.0>() Y = Mul(X, C) }
Indices that nobody reads
    g (float[1,1,8,8] X) => (float[1,1,4,4] Y) { Y, I = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(X) }
no dilation
    g (float[1,1,8,8] X) => (float[1,1,A,B] Y) { [pool] Y = MaxPool<kernel_shape = [2, 2], dilations = [1, 1]>(X) }
a dilation of three axes
    g (float[1,1,8,8,8] X) => (Y) { Y = MaxPool<kernel_shape = [2, 2, 2], dilations = [2, 1, 1]>(X) }
a large window without padding
    g (float[1,1,8,8] X) => (float[1,1,A,B] Y) { [pool] Y = MaxPool<kernel_shape = [16, 16]>(X) }
a stride of 63 with ceil_mode
    g (float[1,1,8,8] X) => (float[1,1,A,B] Y) { [pool] Y = MaxPool<kernel_shape = [2, 2], strides = [63, 1],
        ceil_mode = 1>(X) }
strides of 63 over three axes
    g (float[1,1,8,8,8] X) => (Y) { Y = MaxPool<kernel_shape = [2, 2, 2], strides = [63, 63, 63]>(X) }
a linear Resize, opset 13
    g (float[1,1,2,2] X, float[0] r) => (Y) <float[4] s = {1.0, 1.0, 2.0, 2.0}> { Y = Resize<mode = "linear">(X, r, s) }
a window of 255 elements
    g (float[1,1,8,8] X) => (float[1,1,A,B] Y) { [pool] Y = MaxPool<kernel_shape = [15, 17], pads = [4, 4, 4, 4]>(X) }
SAME_LOWER of known sizes
    g (float[1,1,8,8] X) => (float[1,1,A,B] Y) { [pool] Y = MaxPool<kernel_shape = [2, 2], auto_pad = "SAME_LOWER">(X) }
opset 8
    g (float[2] X) => (float[2] Y) { Y = Relu(X) }
fmod 0
    g (int32[4] X, int32[4] Z) => (int32[4] Y) { Y = Mod(X, Z) }
fmod 1
    g (float[4] X, float[4] Z) => (float[4] Y) { Y = Mod<fmod = 1>(X, Z) }
the first maximum
    g (float[4] X) => (Y) { Y = ArgMax(X) }
alpha without C
    g (float[2,2] X, float[2,2] Z) => (float[2,2] Y) { Y = Gemm<alpha = 2.0>(X, Z) }
an average of 255 elements
    g (float[1,1,16,17] X) => (Y) { Y = AveragePool<kernel_shape = [15, 17]>(X) }
eight axes
    g (float[1,1,1,1,1,1,2,3] X) => (Y) { Y = Relu(X) }
a product of six axes
    g (float[1,1,1,1,2,2] X) => (Y) { Y = MatMul(X, X) }
bfloat16
    g (bfloat16[1,2,3,3] X) => (Y) { Y = Relu(X) }
a kernel of 255
    g (float[1,1,300,4] X, float[1,1,255,4] W) => (Y) { Y = Conv(X, W) }
a kernel of 511 over three axes
    g (float[1,1,600,4,4] X, float[1,1,511,4,4] W) => (Y) { Y = Conv(X, W) }
SAME_UPPER
    g (float[1,1,8,8] X) => (float[1,1,A,B] Y) { [pool] Y = MaxPool<kernel_shape = [2, 2], auto_pad = "SAME_UPPER">(X) }
float16
    g (float16[2] X) => (float16[2] Y) { Y = Relu(X) }
ai.onnx
    g (float[2] X) => (float[2] Y) { Y = ai.onnx.Relu(X) }
a convolution with strides
    g (float[1,2,9,9] X, float[2,2,K,L] W) => (Y) { Y = Conv<strides = [1, 1]>(X, W) }
a convolution with dilations
    g (float[1,2,9,9] X, float[2,2,K,L] W) => (Y) { Y = Conv<dilations = [2, 2]>(X, W) }
an average with strides of 63
    g (float[1,1,64,64] X) => (Y) { Y = AveragePool<kernel_shape = [2, 2], strides = [63, 63]>(X) }
a transposed convolution with a kernel
    g (float[1,2,4,4] X, float[2,2,K,3] W) => (Y) { Y = ConvTranspose<kernel_shape = [3, 3]>(X, W) }
a convolution with pads
    g (float[1,2,9,9] X, float[2,2,K,L] W) => (Y) { Y = Conv<pads = [0, 0, 0, 0]>(X, W) }
"""
)
FINE_MADE = {
    "a clip without bounds": without_names("g (float[4] X) => (A, I) { A = Clip(X, none, none) none, I = Unique(X) }"),
    "an output left out": without_names("g (float[4] X) => (I) { none, I = Unique(X) }"),
    "as many elements as cores": half_average(48),
}


@pytest.mark.parametrize(
    "model", [*(model for model, _ in FINE.values()), *FINE_MADE.values()], ids=[*FINE, *FINE_MADE]
)
def test_models_without_an_obstacle(model: ModelProto) -> None:
    assert export_atc(model).report.obstacles == ()


def test_an_expanded_operator_whose_function_is_gone_is_not_registered() -> None:
    model = lower(onnx.load(BUILT / "torch_legacy" / "adaptive.onnx")).model
    del model.functions[:]
    [obstacle] = export_atc(model).report.obstacles
    assert (obstacle.code, obstacle.operator) == ("unregistered-operator", "npu.AdaptiveMaxPool3DGrad")


def test_nodes_of_subgraphs_are_examined() -> None:
    model = parse(
        """g (bool flag, float[1,1,8,8] X) => (float[1,1,7,7] Y) {
            Y = If (flag) <then_branch = yes () => (float[1,1,7,7] a) {
                [inner] a = MaxPool<kernel_shape = [2, 2], storage_order = 1>(X)
            }, else_branch = no () => (float[1,1,7,7] b) { b = MaxPool<kernel_shape = [2, 2]>(X) }>
        }"""
    )
    assert [(o.node, o.code) for o in export_atc(model).report.obstacles] == [("inner", "storage-order")]


def test_onnxruntime_training_graphs_name_every_operator() -> None:
    report = export_atc(onnx.load(BUILT / "ort" / "lenet.onnx")).report
    assert {o.code for o in report.obstacles} == {"unregistered-operator"}
    assert {o.operator.rpartition(".")[2] for o in report.obstacles} == {
        *("ConvGrad", "ReluGrad", "Scale", "InPlaceAccumulatorV2", "SoftmaxCrossEntropyLossGrad")
    }


FOLDED = {
    "a constant of float64": ("D = Constant<value = double {2.0}>() C = Cast<to = 1>(D) Y = Mul(X, C)", "float64"),
    "a shape of constants": (
        "i = Constant<value_ints = [5, 4]>() h = Constant<value_ints = [2, 1]>() s = Div(i, h)"
        " E = Expand(X, s) Y = Neg(E)", ""),
    "an operator of constants that is not taken": (
        "c = Constant<value_floats = [1.0, 2.0]>() T = Tan(c) Y = Add(X, T)", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDED)
def test_what_onnxruntime_computes_before_is_no_obstacle_in_graph_mode(name: str) -> None:
    nodes, code = FOLDED[name]
    model = parse(f"g (float[N,2] X) => (Y) {{ {nodes} }}", opset=16)
    assert export_cann(model).report.obstacles == ()
    assert {found.code for found in export_atc(model).report.obstacles} == ({code} if code else set())


def test_random_numbers_are_no_constants() -> None:
    nodes = "r = RandomNormal<dtype = 11, shape = [2]>() C = Cast<to = 1>(r) Y = Mul(X, C)"
    model = parse(f"g (float[N,2] X) => (Y) {{ {nodes} }}")
    assert {found.code for found in export_cann(model).report.obstacles} == {"float64"}
