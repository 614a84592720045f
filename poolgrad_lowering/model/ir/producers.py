# SPDX-License-Identifier: Apache-2.0

"""Pools and their gradients as operators that ONNX does not define: how producers name them, and their results.

PyTorch's operators are nodes `ATen` with the name in an attribute, or have their own name as the op type. TensorFlow's
stand in the default domain or in that of tf2onnx, and onnxruntime training's MaxPoolGrad stands in the default one.
"""

from __future__ import annotations

from poolgrad_lowering.model.ir.attributes import attribute
from poolgrad_lowering.model.ir.scopes import Node

ATEN_DOMAIN = "org.pytorch.aten"
ATEN_GENERIC = "ATen"
TENSORFLOW_DOMAINS = ("", "ai.onnx.converters.tensorflow")
"""Where tf2onnx leaves operators that it cannot convert: by default, and with its custom operator handlers."""

_LIKE_FIRST = (
    *("MaxPoolGrad", "MaxPoolGradV2", "MaxPool3DGrad", "MaxPoolGradWithArgmax"),
    *("BiasAddGrad", "EluGrad", "FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3", "InvGrad"),
    *("LRNGrad", "LeakyReluGrad", "MirrorPadGrad", "ReciprocalGrad", "Relu6Grad", "ReluGrad", "RsqrtGrad", "SeluGrad"),
    *("ResizeNearestNeighborGrad", "SigmoidGrad", "SoftplusGrad", "SoftsignGrad", "SqrtGrad", "TanhGrad"),
    *("Conv2DBackpropFilter", "Conv3DBackpropFilterV2", "DepthwiseConv2dNativeBackpropFilter"),
)
_LIKE_SECOND = (
    *("AvgPool3DGrad", "AvgPoolGrad", "Conv2DBackpropInput", "Conv3DBackpropInputV2"),
    *("DepthwiseConv2dNativeBackpropInput", "ResizeBilinearGrad", "ResizeBicubicGrad"),
)
_RANKS = (1, 2, 3)
AVERAGE_POOLS = {f"avg_pool{rank}d": rank for rank in _RANKS}
MAX_POOLS = {f"max_pool{rank}d{suffix}": rank for rank in _RANKS for suffix in ("", "_with_indices")}
ADAPTIVE_POOLS = {
    f"{name}{rank}d": rank
    for rank in _RANKS
    for name in ("adaptive_avg_pool", "_adaptive_avg_pool", "adaptive_max_pool")
}
ATEN_POOLS = AVERAGE_POOLS | MAX_POOLS | ADAPTIVE_POOLS
"""PyTorch's pools, and over how many axes each one goes."""
BACKWARD = "_backward"
"""Ends the names of their gradients, whose second operand is the pooled tensor."""
AXIS_MAXIMA, AXIS_BACKWARD = ("max", "max.dim"), "value_selecting_reduction_backward"
"""The maximum over one axis with its positions, and its gradient, whose fourth operand are the sizes of the result."""


def aten_name(node: Node) -> str | None:
    """The operator that a node names, with its overload as in `max.dim` where it states one; None in other domains."""
    domain, op_type = node.op
    if domain != ATEN_DOMAIN:
        return None
    if op_type != ATEN_GENERIC:
        return op_type
    name, overload = attribute(node, "operator"), attribute(node, "overload_name")
    return f"{name}.{overload}" if overload else str(name)


def gives_positions(node: Node) -> bool:
    """Whether it is a forward operator whose second result are the positions of maxima, as int64."""
    name = aten_name(node) or ""
    return name in AXIS_MAXIMA or (name in ATEN_POOLS and "max" in name)


def typed_like(node: Node) -> int | None:
    """The position of the input whose element type the first result of a pool or of a gradient has; else None.

    TensorFlow's gradients are those that tf2onnx leaves; onnxruntime training's of the same name have the same types.
    """
    domain, op_type = node.op
    if domain == ATEN_DOMAIN:
        name = aten_name(node) or ""
        is_pool = name in (*AXIS_MAXIMA, AXIS_BACKWARD) or name.removesuffix(BACKWARD) in ATEN_POOLS
        return 0 if is_pool else None
    if domain not in TENSORFLOW_DOMAINS:
        return None
    return 0 if op_type in _LIKE_FIRST else 1 if op_type in _LIKE_SECOND else None
