# SPDX-License-Identifier: Apache-2.0

"""The expected result of the example of each operator, by a definition in numpy, and operands for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from onnx import TensorProto

from tests.oracles import recurrent
from tests.oracles import training_operators as oracle
from tests.poolgrad_lowering.standard.operator_definitions.cases import F32, F64, integers, ints, normal, positive
from tests.poolgrad_lowering.standard.standard_models import Array


def _tf_conv_grad(x: Array, dy: Array, w: Array) -> tuple[Array, Array]:
    """dX and dW in TensorFlow's layouts, for NHWC, stride 2 and SAME, which pads the 5 elements by 1 at both ends."""
    dx, dw, _ = oracle.conv_grad(
        dy.transpose(0, 3, 1, 2),
        x.transpose(0, 3, 1, 2),
        w.transpose(3, 2, 0, 1),
        strides=[2, 2],
        begins=[1, 1],
        dilations=[1, 1],
    )
    return dx.transpose(0, 2, 3, 1), dw.transpose(2, 3, 1, 0)


_CLIPPED = [range(2), range(1, 4), range(3, 5)]
"""The windows of 3 elements with stride 2 over 5 elements, padded by one."""
_ONE_AXIS = {"strides": [2], "begins": [1], "dilations": [1]}


def _doubles(operands: Sequence[Array]) -> list[Array]:
    return [operand.astype(F64) for operand in operands]


EXAMPLES: dict[str, Callable[..., Any]] = {
    "ATen": lambda x, dY: oracle.average_pool_grad(
        dY, x.shape, kernel=[2, 2], strides=[2, 2], begins=[0, 0], ends=[0, 0], counts_padding=True
    ),
    "AveragePoolGrad": lambda X, dY: (
        oracle.average_windows_grad(dY, X.shape, [_CLIPPED, _CLIPPED]),
        oracle.average_pool(X, [_CLIPPED, _CLIPPED]),
    ),
    "BatchNormInternal": lambda X, scale, B, mean, var: oracle.batch_norm(
        X, scale, B, mean, var, epsilon=1e-5, momentum=0.9
    ),
    "BatchNormalizationGrad": oracle.batch_norm_grad,
    "BiasFastGeluGrad_dX": lambda dY, X, B: oracle.fast_gelu_grad(dY, X + B),
    "BiasGelu": lambda X, B: oracle.gelu(X + B),
    "BiasGeluGrad_dX": lambda dY, X, B: oracle.gelu_grad(dY, X + B),
    "BroadcastGradientArgs": lambda A, B: oracle.broadcast_axes(A.shape, B.shape),
    "ConcatTraining": lambda A, B: (np.hstack([A, B]), ints(2, 3)),
    "Conv2DBackpropFilter": lambda x, dY: _tf_conv_grad(x, dY, np.zeros((3, 3, 2, 4)))[1],
    "Conv2DBackpropInput": lambda filter, dY: _tf_conv_grad(np.zeros((2, 5, 5, 2)), dY, filter)[0],  # noqa: A006
    "ConvGrad": lambda dY, X, W: oracle.conv_grad(dY, X, W, **_ONE_AXIS),
    "ConvTransposeGrad": lambda dY, X, W: oracle.conv_transpose_grad(dY, X, W, **_ONE_AXIS),
    "DivGrad": oracle.div_grad,
    "DropoutGrad": lambda dY, mask: np.where(mask, dY.astype(F64) / 0.75, 0),
    "FakeQuantGrad": lambda dY, mask: np.where(mask, dY, F32(0)),
    "FastGelu": oracle.fast_gelu,
    "FastGeluGrad": oracle.fast_gelu_grad,
    "FlattenAndUnpad": lambda X, indices: (X.reshape(6, 4)[indices], ints(2, 3)),
    "FusedConv": lambda X, W, B: np.maximum(
        oracle.conv(X, W, strides=[1], begins=[0], counts=[3]) + B.reshape(1, 4, 1), 0
    ),
    "FusedGemm": lambda A, B, C: np.maximum(A.astype(F64) @ B.T + C, 0),
    "FusedMatMul": lambda A, B: 0.5 * A.astype(F64).transpose(0, 2, 1) @ B,
    "GatherElementsGrad": lambda dY, shape, indices: oracle.gather_elements_grad(dY, shape, indices, 1),
    "GatherGrad": lambda shape, indices, dY: oracle.gather_grad(shape, indices, dY, 0),
    "GatherNDGrad": oracle.gather_nd_grad,
    "Gelu": oracle.gelu,
    "GeluGrad": oracle.gelu_grad,
    "GRUGrad": lambda X, W, R, B, H0, dHAll, dHFinal: recurrent.gradients(
        partial(recurrent.gru, reset_after=True), (X, W, R, B, H0), {"HAll": dHAll, "HFinal": dHFinal}
    ),
    "GRUTraining": lambda *operands: tuple(recurrent.gru(*_doubles(operands), reset_after=True).values()),
    "InPlaceAccumulatorV2": lambda buffer, value, reset: np.where(reset, value, buffer + value),
    "InvertibleLayerNormalizationGrad": lambda dY, Y, scale, B, inv_std: oracle.layer_norm_grad(
        dY, (Y.astype(F64) - B) / scale / inv_std, scale, np.zeros(inv_std.shape), inv_std, axis=1
    ),
    "LayerNormalization": lambda X, scale, B: oracle.layer_norm(X, scale, B, axis=1, epsilon=1e-5),
    "LayerNormalizationGrad": lambda *operands: oracle.layer_norm_grad(*operands, axis=1),
    "LeakyReluGrad": lambda dY, Y: np.where(Y > 0, dY, dY * F32(0.1)),
    "LogSoftmaxGrad": lambda dY, Y: oracle.log_softmax_grad(dY, Y, (1,)),
    "LogSoftmaxGrad_13": lambda dY, Y: oracle.log_softmax_grad(dY, Y, (1,)),
    "LSTMGrad": lambda X, W, R, B, H0, C0, dHAll, dHFinal, dCFinal: recurrent.gradients(
        recurrent.lstm, (X, W, R, B, H0, C0), {"HAll": dHAll, "HFinal": dHFinal, "CFinal": dCFinal}
    ),
    "LSTMTraining": lambda *operands: tuple(recurrent.lstm(*_doubles(operands)).values()),
    "MaxPoolGrad": lambda X, dY: (
        np.where(np.repeat(X.reshape(len(X), 2, 2, 2).max(3), 2, 2) == X, np.repeat(dY, 2, 2), 0),
        X.reshape(len(X), 2, 2, 2).max(3),
    ),
    "PadAndUnflatten": oracle.pad_and_unflatten,
    "QuickGelu": lambda X: oracle.quick_gelu(X, 1.702),
    "QuickGeluGrad": lambda dY, X: oracle.quick_gelu_grad(dY, X, 1.702),
    "ReduceAllL2": oracle.reduce_all_l2,
    "ReduceSumTraining": lambda X: X.astype(F64).sum(1),
    "ReluGrad": lambda dY, Y: np.where(Y > 0, dY, F32(0)),
    "ResizeGrad": lambda dY, X: oracle.resize_grad(dY, X.shape[2:], [2.0], mode="linear"),
    "Scale": lambda X, scale: X.astype(F64) / scale,
    "ScaledSum": lambda A, B: 0.5 * A.astype(F64) + 2 * B,
    "ShrunkenGather": lambda X, indices: X[indices],
    "SigmoidGrad": lambda dY, Y: dY.astype(F64) * Y * (1 - Y.astype(F64)),
    "SimplifiedLayerNormalization": lambda X, scale: oracle.layer_norm(
        X, scale, None, axis=1, epsilon=1e-5, centred=False
    )[::2],
    "SimplifiedLayerNormalizationGrad": lambda dY, X, scale, inv_std: oracle.layer_norm_grad(
        dY, X, scale, None, inv_std, axis=1
    )[:2],
    "SliceGrad": lambda dY, X: oracle.slice_grad(dY, X.shape, {1: slice(1, 5, 2)}),
    "SoftmaxCrossEntropyLoss": lambda X, label, weight: oracle.loss(X, label, weight, 1),
    "SoftmaxCrossEntropyLossGrad": lambda dY, log_prob, label, weight: oracle.loss_grad(dY, log_prob, label, weight, 1),
    "SoftmaxCrossEntropyLossInternal": lambda X, label, weight, ignored: oracle.loss(X, label, weight, int(ignored)),
    "SoftmaxCrossEntropyLossInternalGrad": lambda dY, log_prob, label, weight, ignored: oracle.loss_grad(
        dY, log_prob, label, weight, int(ignored), "sum"
    ),
    "SoftmaxGrad": lambda dY, Y: oracle.softmax_grad(dY, Y, (1,)),
    "SoftmaxGrad_13": lambda dY, Y: oracle.softmax_grad(dY, Y, (1,)),
    "SplitTraining": lambda X: (X[:, :2], X[:, 2:]),
    "TanhGrad": lambda dY, Y: dY * (1 - Y.astype(F64) ** 2),
    "Trilu": np.tril,
}
"""The results of the example of each operator; those that are not float64 are exact."""

OPERANDS: dict[str, dict[str, Array]] = {
    "FlattenAndUnpad": {"indices": ints(0, 2, 3, 4, 5)},
    "GatherElementsGrad": {"shape": ints(2, 4), "indices": np.array([[3, 0, 3], [1, -1, 2]])},
    "GatherGrad": {"shape": ints(5, 4), "indices": np.array([[0, 4, 4], [-1, 2, 0]])},
    "GatherNDGrad": {"shape": ints(5, 4), "indices": np.array([[0], [4], [-1]])},
    "PadAndUnflatten": {"indices": ints(5, 0, 2, 3, 1), "dims": ints(2, 3)},
    "ShrunkenGather": {"indices": ints(4, 0, 4)},
}
BATCH = 2

OLDEST = {"GatherElementsGrad": 16, "MaxPoolGrad": 16}
"""The opset from which on an operator has a definition, if that is not 11."""
SINCE = {"LayerNormalization": 17, "SoftmaxCrossEntropyLoss": 12}
"""The first opset with these operators of ONNX, whose further results have no rule before."""


def operands(operator: str, model: Any, batch: int = BATCH) -> dict[str, Array]:
    """Random operands for an example: positive ones where a division or a root is by them, labels below 3."""
    kinds = {TensorProto.FLOAT: F32, TensorProto.DOUBLE: F64}
    feeds = {}
    for number, value in enumerate(model.graph.input):
        shape = [batch if dim.dim_param else dim.dim_value for dim in value.type.tensor_type.shape.dim]
        kind = value.type.tensor_type.elem_type
        if value.name in OPERANDS.get(operator, {}):
            feeds[value.name] = OPERANDS[operator][value.name]
        elif kind == TensorProto.BOOL:
            feeds[value.name] = integers(0, 2, *shape).astype(np.bool_)
        elif kind == TensorProto.INT64:
            feeds[value.name] = np.asarray(integers(0, 3, *shape, seed=5)) if shape else np.array(1)
        elif value.name in ("var", "inv_std", "scale", "weight") or (operator, value.name) == ("DivGrad", "B"):
            feeds[value.name] = positive(*shape, dtype=kinds[kind])
        else:
            feeds[value.name] = normal(*shape, dtype=kinds[kind], seed=number)
    return feeds
