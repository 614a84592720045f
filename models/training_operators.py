# SPDX-License-Identifier: Apache-2.0

"""A small graph with each operator of training runtimes that has a definition, as ONNX text.

The tests run the definitions of these nodes. Sizes that may be symbolic are `N`.
"""

from __future__ import annotations

from onnx import ModelProto, parser

IMPORTS = '"com.microsoft": 1, "org.pytorch.aten": 1'

_UNARY = "float[N,4] dY, float[N,4] {x}"


def _gradient(operator: str, x: str = "X", attributes: str = "", domain: str = "com.microsoft.") -> str:
    return f"{_UNARY.format(x=x)} => (float[N,4] dX) {{ dX = {domain}{operator} {attributes} (dY, {x}) }}"


def _activation(operator: str, attributes: str = "") -> str:
    return f"float[N,4] X => (float[N,4] Y) {{ Y = com.microsoft.{operator} {attributes} (X) }}"


_GRU = "float[3,N,2] X, float[1,9,2] W, float[1,9,3] R, float[1,18] B, float[1,N,3] H0"
_GRU_STEPS = (
    "HAll, HFinal, gates = com.microsoft.GRUTraining <hidden_size = 3, linear_before_reset = 1> (X, W, R, B, , H0)"
)
_LSTM = "float[3,N,2] X, float[1,12,2] W, float[1,12,3] R, float[1,24] B, float[1,N,3] H0, float[1,N,3] C0"
_LSTM_STEPS = "HAll, HFinal, CFinal, CAll, gates = com.microsoft.LSTMTraining <hidden_size = 3> (X, W, R, B, , H0, C0)"

_LOSS = "float[N,3,2] {x}, int64[N,2] label, float[3] weight"

_GRAPHS = {
    "ATen": (
        "float[N,2,4,4] x, float[N,2,2,2] dY => (float[N,2,4,4] dX) {"
        " k = Constant <value = int64[2] {2, 2}> () z = Constant <value = int64[2] {0, 0}> ()"
        " no = Constant <value = bool {0}> () yes = Constant <value = bool {1}> ()"
        ' dX = org.pytorch.aten.ATen <operator = "avg_pool2d_backward"> (dY, x, k, k, z, no, yes, ) }'
    ),
    "AveragePoolGrad": (
        "float[N,2,5,5] X, float[N,2,3,3] dY => (float[N,2,5,5] dX, float[N,2,3,3] Y) {"
        " Y = AveragePool <kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]> (X)"
        " dX = AveragePoolGrad <kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]> (dY) }"
    ),
    "BatchNormInternal": (
        "float[N,2,3] X, float[2] scale, float[2] B, float[2] mean, float[2] var"
        " => (float[N,2,3] Y, float[2] m, float[2] v, float[2] sm, float[2] si) {"
        " Y, m, v, sm, si = com.microsoft.BatchNormInternal"
        " <epsilon = 1e-05, momentum = 0.9, training_mode = 1> (X, scale, B, mean, var) }"
    ),
    "BatchNormalizationGrad": (
        "float[N,2,3] dY, float[N,2,3] X, float[2] scale, float[2] mean, float[2] inv_std"
        " => (float[N,2,3] dX, float[2] dscale, float[2] dB) {"
        " dX, dscale, dB = com.microsoft.BatchNormalizationGrad <epsilon = 1e-05> (dY, X, scale, mean, inv_std) }"
    ),
    "BiasFastGeluGrad_dX": (
        "float[N,4] dY, float[N,4] X, float[4] B => (float[N,4] dX) {"
        " dX = com.microsoft.BiasFastGeluGrad_dX (dY, X, B) }"
    ),
    "BiasGelu": "float[N,4] X, float[4] B => (float[N,4] Y) { Y = com.microsoft.BiasGelu (X, B) }",
    "BiasGeluGrad_dX": (
        "float[N,4] dY, float[N,4] X, float[4] B => (float[N,4] dX) { dX = com.microsoft.BiasGeluGrad_dX (dY, X, B) }"
    ),
    "BroadcastGradientArgs": (
        "float[N,4] A, float[4] B => (int64[p] axes_a, int64[q] axes_b) { a = Shape (A) b = Shape (B)"
        " axes_a, axes_b = com.microsoft.BroadcastGradientArgs (a, b) }"
    ),
    "ConcatTraining": (
        "float[N,2] A, float[N,3] B => (float[N,5] Y, int64[2] lengths) {"
        " Y, lengths = com.microsoft.ConcatTraining <axis = 1> (A, B) }"
    ),
    "Conv2DBackpropFilter": (
        "float[2,5,5,2] x, float[2,3,3,4] dY => (float[3,3,2,4] dW) {"
        " sizes = Constant <value = int32[4] {3, 3, 2, 4}> ()"
        ' dW = Conv2DBackpropFilter <data_format = "NHWC", padding = "SAME", strides = [1,2,2,1],'
        " dilations = [1,1,1,1]> (x, sizes, dY) }"
    ),
    "Conv2DBackpropInput": (
        "float[3,3,2,4] filter, float[2,3,3,4] dY => (float[2,5,5,2] dX) {"
        " sizes = Constant <value = int32[4] {2, 5, 5, 2}> ()"
        ' dX = Conv2DBackpropInput <data_format = "NHWC", padding = "SAME", strides = [1,2,2,1],'
        " dilations = [1,1,1,1]> (sizes, filter, dY) }"
    ),
    "ConvGrad": (
        "float[N,4,3] dY, float[N,2,5] X, float[4,2,3] W => (float[N,2,5] dX, float[4,2,3] dW, float[4] dB) {"
        " dX, dW, dB = com.microsoft.ConvGrad <kernel_shape = [3], strides = [2], pads = [1,1]> (dY, X, W) }"
    ),
    "ConvTransposeGrad": (
        "float[N,2,9] dY, float[N,4,5] X, float[4,2,3] W => (float[N,4,5] dX, float[4,2,3] dW, float[2] dB) {"
        " dX, dW, dB = com.microsoft.ConvTransposeGrad <kernel_shape = [3], strides = [2], pads = [1,1]> (dY, X, W) }"
    ),
    "DivGrad": (
        "float[N,4] dY, float[N,4] A, float[4] B => (float[N,4] dA, float[4] dB) {"
        " dA, dB = com.microsoft.DivGrad (dY, A, B) }"
    ),
    "DropoutGrad": (
        "float[N,4] dY, bool[N,4] mask => (float[N,4] dX) { ratio = Constant <value = float {0.25}> ()"
        " yes = Constant <value = bool {1}> () dX = com.microsoft.DropoutGrad (dY, mask, ratio, yes) }"
    ),
    "FakeQuantGrad": "float[N,4] dY, bool[N,4] mask => (float[N,4] dX) { dX = com.microsoft.FakeQuantGrad (dY, mask) }",
    "FastGelu": _activation("FastGelu"),
    "FastGeluGrad": _gradient("FastGeluGrad"),
    "FlattenAndUnpad": (
        "float[2,3,4] X, int64[5] indices => (float[5,4] Y, int64[2] dims) {"
        " Y, dims = com.microsoft.FlattenAndUnpad (X, indices) }"
    ),
    "FusedConv": (
        "float[N,2,5] X, float[4,2,3] W, float[4] B => (float[N,4,3] Y) {"
        ' Y = com.microsoft.FusedConv <activation = "Relu", kernel_shape = [3]> (X, W, B) }'
    ),
    "FusedGemm": (
        "float[N,3] A, float[4,3] B, float[4] C => (float[N,4] Y) {"
        ' Y = com.microsoft.FusedGemm <activation = "Relu", transB = 1> (A, B, C) }'
    ),
    "FusedMatMul": (
        "float[N,3,5] A, float[N,3,4] B => (float[N,5,4] Y) {"
        " Y = com.microsoft.FusedMatMul <alpha = 0.5, transA = 1> (A, B) }"
    ),
    "GatherElementsGrad": (
        "float[2,3] dY, int64[2] shape, int64[2,3] indices => (float[a,b] dX) {"
        " dX = com.microsoft.GatherElementsGrad <axis = 1> (dY, shape, indices) }"
    ),
    "GatherGrad": (
        "int64[2] shape, int64[2,3] indices, float[2,3,4] dY => (float[a,b] dX) {"
        " dX = com.microsoft.GatherGrad <axis = 0> (shape, indices, dY) }"
    ),
    "GatherNDGrad": (
        "int64[2] shape, int64[3,1] indices, float[3,4] dY => (float[a,b] dX) {"
        " dX = com.microsoft.GatherNDGrad (shape, indices, dY) }"
    ),
    "Gelu": _activation("Gelu"),
    "GeluGrad": _gradient("GeluGrad"),
    "GRUGrad": (
        _GRU + ", float[3,1,N,3] dHAll, float[1,N,3] dHFinal => (float[3,N,2] dX, float[1,9,2] dW, float[1,9,3] dR,"
        " float[1,18] dB, float[1,N,3] dH0) {" + _GRU_STEPS + " dX, dW, dR, dB, dH0 = com.microsoft.GRUGrad"
        " <hidden_size = 3, linear_before_reset = 1> (X, W, R, B, , H0, HAll, gates, dHAll, dHFinal) }"
    ),
    "GRUTraining": _GRU + " => (float[3,1,N,3] HAll, float[1,N,3] HFinal, float[3,1,N,9] gates) {" + _GRU_STEPS + "}",
    "InPlaceAccumulatorV2": (
        "float[4] buffer, float[4] value, bool[1] reset => (float[4] new_buffer) {"
        " new_buffer = com.microsoft.InPlaceAccumulatorV2 (buffer, value, reset) }"
    ),
    "InvertibleLayerNormalizationGrad": (
        "float[N,4] dY, float[N,4] Y, float[4] scale, float[4] B, float[N,1] inv_std"
        " => (float[N,4] dX, float[4] dscale, float[4] dB) {"
        " dX, dscale, dB = com.microsoft.InvertibleLayerNormalizationGrad (dY, Y, scale, B, inv_std) }"
    ),
    "LayerNormalization": (
        "float[N,4] X, float[4] scale, float[4] B => (float[N,4] Y, float[N,1] mean, float[N,1] inv_std) {"
        " Y, mean, inv_std = LayerNormalization <axis = -1> (X, scale, B) }"
    ),
    "LayerNormalizationGrad": (
        "float[N,4] dY, float[N,4] X, float[4] scale, float[N,1] mean, float[N,1] inv_std"
        " => (float[N,4] dX, float[4] dscale, float[4] dB) {"
        " dX, dscale, dB = com.microsoft.LayerNormalizationGrad <axis = -1> (dY, X, scale, mean, inv_std) }"
    ),
    "LeakyReluGrad": _gradient("LeakyReluGrad", "Y", "<alpha = 0.1>"),
    "LogSoftmaxGrad": _gradient("LogSoftmaxGrad", "Y", "<axis = 1>"),
    "LogSoftmaxGrad_13": _gradient("LogSoftmaxGrad_13", "Y", "<axis = -1>"),
    "LSTMGrad": (
        _LSTM + ", float[3,1,N,3] dHAll, float[1,N,3] dHFinal, float[1,N,3] dCFinal => (float[3,N,2] dX,"
        " float[1,12,2] dW, float[1,12,3] dR, float[1,24] dB, float[1,N,3] dH0, float[1,N,3] dC0) {"
        + _LSTM_STEPS
        + " dX, dW, dR, dB, dH0, dC0 = com.microsoft.LSTMGrad"
        " <hidden_size = 3> (X, W, R, , H0, C0, HAll, CAll, gates, dHAll, dHFinal, dCFinal) }"
    ),
    "LSTMTraining": (
        _LSTM + " => (float[3,1,N,3] HAll, float[1,N,3] HFinal, float[1,N,3] CFinal, float[3,1,N,3] CAll,"
        " float[3,1,N,12] gates) {" + _LSTM_STEPS + "}"
    ),
    "MaxPoolGrad": (
        "double[N,2,4] X, double[N,2,2] dY => (double[N,2,4] dX, double[N,2,2] Y) {"
        " Y, Indices = MaxPool <kernel_shape = [2], strides = [2]> (X)"
        " dX = MaxPoolGrad <kernel_shape = [2], strides = [2]> (dY, Indices) }"
    ),
    "PadAndUnflatten": (
        "float[5,4] X, int64[5] indices, int64[2] dims => (float[a,b,c] Y) {"
        " Y = com.microsoft.PadAndUnflatten (X, indices, dims) }"
    ),
    "QuickGelu": _activation("QuickGelu", "<alpha = 1.702>"),
    "QuickGeluGrad": _gradient("QuickGeluGrad", "X", "<alpha = 1.702>"),
    "ReduceAllL2": "float[4] A, float[2,3] B => (float Y) { Y = com.microsoft.ReduceAllL2 (A, B) }",
    "ReduceSumTraining": (
        "float[N,3,4] X => (float[N,4] Y) { axes = Constant <value = int64[1] {1}> ()"
        " Y = com.microsoft.ReduceSumTraining <keepdims = 0> (X, axes) }"
    ),
    "ReluGrad": _gradient("ReluGrad", "Y"),
    "ResizeGrad": (
        "float[N,2,6] dY, float[N,2,3] X => (float[N,2,3] dX) {"
        " scales = Constant <value = float[3] {1.0, 1.0, 2.0}> ()"
        ' dX = com.microsoft.ResizeGrad <mode = "linear", coordinate_transformation_mode = "half_pixel">'
        " (dY, X, , scales) }"
    ),
    "Scale": "float[N,4] X, float scale => (float[N,4] Y) { Y = com.microsoft.Scale <scale_down = 1> (X, scale) }",
    "ScaledSum": (
        "float[N,4] A, float[N,4] B => (float[N,4] Y) {"
        " Y = com.microsoft.ScaledSum <scale_0 = 0.5, scale_1 = 2.0> (A, B) }"
    ),
    "ShrunkenGather": (
        "float[5,4] X, int64[3] indices => (float[3,4] Y) { Y = com.microsoft.ShrunkenGather <axis = 0> (X, indices) }"
    ),
    "SigmoidGrad": _gradient("SigmoidGrad", "Y"),
    "SimplifiedLayerNormalization": (
        "float[N,4] X, float[4] scale => (float[N,4] Y, float[N,1] inv_std) {"
        " Y, inv_std = SimplifiedLayerNormalization <axis = -1, epsilon = 1e-05> (X, scale) }"
    ),
    "SimplifiedLayerNormalizationGrad": (
        "float[N,4] dY, float[N,4] X, float[4] scale, float[N,1] inv_std => (float[N,4] dX, float[4] dscale) {"
        " dX, dscale = com.microsoft.SimplifiedLayerNormalizationGrad <axis = -1> (dY, X, scale, inv_std) }"
    ),
    "SliceGrad": (
        "float[N,2] dY, float[N,6] X => (float[N,6] dX) { shape = Shape (X)"
        " starts = Constant <value = int64[1] {1}> () ends = Constant <value = int64[1] {5}> ()"
        " axes = Constant <value = int64[1] {1}> () steps = Constant <value = int64[1] {2}> ()"
        " dX = com.microsoft.SliceGrad (dY, shape, starts, ends, axes, steps) }"
    ),
    "SoftmaxCrossEntropyLoss": (
        f"{_LOSS.format(x='X')} => (float loss, float[N,3,2] log_prob) {{"
        ' loss, log_prob = SoftmaxCrossEntropyLoss <reduction = "mean", ignore_index = 1> (X, label, weight) }'
    ),
    "SoftmaxCrossEntropyLossGrad": (
        f"float dY, {_LOSS.format(x='log_prob')} => (float[N,3,2] dX) {{"
        " dX = com.microsoft.SoftmaxCrossEntropyLossGrad"
        ' <reduction = "mean", ignore_index = 1> (dY, log_prob, label, weight) }'
    ),
    "SoftmaxCrossEntropyLossInternal": (
        f"{_LOSS.format(x='X')}, int64 ignore_index => (float loss, float[N,3,2] log_prob) {{"
        ' loss, log_prob = com.microsoft.SoftmaxCrossEntropyLossInternal <reduction = "mean">'
        " (X, label, weight, ignore_index) }"
    ),
    "SoftmaxCrossEntropyLossInternalGrad": (
        f"float dY, {_LOSS.format(x='log_prob')}, int64 ignore_index => (float[N,3,2] dX) {{"
        " dX = com.microsoft.SoftmaxCrossEntropyLossInternalGrad"
        ' <reduction = "sum"> (dY, log_prob, label, weight, ignore_index) }'
    ),
    "SoftmaxGrad": _gradient("SoftmaxGrad", "Y", "<axis = 1>"),
    "SoftmaxGrad_13": _gradient("SoftmaxGrad_13", "Y", "<axis = -1>"),
    "SplitTraining": (
        "float[N,5] X => (float[N,2] A, float[N,3] B) { split = Constant <value = int64[2] {2, 3}> ()"
        " A, B = com.microsoft.SplitTraining <axis = 1> (X, split) }"
    ),
    "TanhGrad": _gradient("TanhGrad", "Y"),
    "Trilu": "float[3,4] X => (float[3,4] Y) { Y = com.microsoft.Trilu <upper = 0> (X) }",
}

OPERATORS = tuple(_GRAPHS)
"""The operators, sorted."""


def example(operator: str, opset: int = 18) -> ModelProto:
    """Return the model with a node of an operator, whose last node it is, or the one that the operator's pool feeds.

    Raises `LookupError` if the operator has no example.
    """
    if operator not in _GRAPHS:
        raise LookupError(f"{operator} has no example: add a small graph with it to models/training_operators.py")
    inputs, _, rest = _GRAPHS[operator].partition(" => ")
    head = f'<ir_version: 9, opset_import: ["": {opset}, {IMPORTS}]>'
    return parser.parse_model(f"{head} g ({inputs}) => {rest}")
