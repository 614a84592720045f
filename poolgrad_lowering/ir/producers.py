# SPDX-License-Identifier: Apache-2.0

"""Pools and their gradients as operators that ONNX does not define: how producers name them, and their results.

PyTorch's operators are nodes `ATen` with the name in an attribute, or have their own name as the op type. TensorFlow's
stand in the default domain or in that of tf2onnx, and onnxruntime training's MaxPoolGrad stands in the default one.
"""

from __future__ import annotations

from poolgrad_lowering.ir.attributes import attribute
from poolgrad_lowering.ir.scopes import Node

ATEN_DOMAIN = "org.pytorch.aten"
ATEN_GENERIC = "ATen"
TENSORFLOW_DOMAINS = ("", "ai.onnx.converters.tensorflow")
"""Where tf2onnx leaves operators that it cannot convert: by default, and with its custom operator handlers."""

_WITH_POSITIONS = (
    *("max", "max.dim", "max_pool2d_with_indices", "max_pool3d_with_indices"),
    *("adaptive_max_pool2d", "adaptive_max_pool3d"),
)
_BACKWARD = (
    *("value_selecting_reduction_backward", "max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward"),
    *("adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward"),
)
_GRADIENTS = ("MaxPoolGrad", "MaxPoolGradV2", "MaxPool3DGrad", "MaxPoolGradWithArgmax")


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
    return aten_name(node) in _WITH_POSITIONS


def keeps_element_type(node: Node) -> bool:
    """Whether it is a pool or a gradient whose first result has the element type of its first operand."""
    domain, op_type = node.op
    is_gradient = domain in TENSORFLOW_DOMAINS and op_type in _GRADIENTS
    return is_gradient or aten_name(node) in (*_WITH_POSITIONS, *_BACKWARD)
