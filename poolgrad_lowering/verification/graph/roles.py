# SPDX-License-Identifier: Apache-2.0

"""The roles of operators' inputs: which one is the pooled tensor and which one the incoming gradient.

The cut of a site begins at these two values, so that its indices are those of a pool, and not arbitrary numbers. Views
of the values, which have the same elements, are followed backwards.
"""

from __future__ import annotations

from typing import NamedTuple

from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.dialect.op import Part
from poolgrad_lowering.dialect.ops import OPS
from poolgrad_lowering.verification.graph.flat import FlatNode
from poolgrad_lowering.verification.graph.protos import text_of

ATEN = "org.pytorch.aten"
TENSORFLOW = ("", "ai.onnx.converters.tensorflow")
AVERAGE_POOL_GRADIENT = "AveragePoolGrad"
"""onnxruntime-training's operator of the default domain, whose only operand is the incoming gradient."""

_VIEWS = {"Cast", "CastLike", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}


class InputRoles(NamedTuple):
    """The positions of a node's inputs: the incoming gradient, the pooled tensor, and one like the gradient."""

    gradient: int | None = None
    pooled: int | None = None
    same_shape: int | None = None


_ONNX_OPERANDS = {
    AVERAGE_POOL_GRADIENT: InputRoles(0, 1),
    "MaxPool": InputRoles(None, 0),
    "MaxPoolGrad": InputRoles(0, None, 1),
    **dict.fromkeys(("Scatter", "ScatterElements"), InputRoles(2, None, 1)),
    "ScatterND": InputRoles(2),
}
"""The inputs of operators of the default domain."""

_TENSORFLOW_GRADIENTS = {
    ("AvgPoolGrad", 2): InputRoles(1),
    ("AvgPool3DGrad", 2): InputRoles(1),
    ("MaxPoolGrad", 3): InputRoles(2, 0, 1),
    ("MaxPoolGradV2", 5): InputRoles(2, 0, 1),
    ("MaxPool3DGrad", 3): InputRoles(2, 0, 1),
    ("MaxPoolGradWithArgmax", 3): InputRoles(1, 0, 2),
}
"""The inputs by the operator and their number."""


_DIALECT_GRADIENTS = {
    name: InputRoles(*map(op.position, (Part.GRAD, Part.X, Part.ARGMAX))) for name, op in OPS.items() if op.is_gradient
}


def is_view(node: FlatNode) -> bool:
    """Whether the output has the elements of the first input, with another shape, order or float type."""
    return node.op[0] == "" and node.op[1] in _VIEWS and bool(node.inputs)


def is_dialect_gradient(node: FlatNode) -> bool:
    """Whether the node is a gradient of the dialect."""
    return node.op[0] == DOMAIN and node.op[1] in _DIALECT_GRADIENTS


def is_average_gradient(node: FlatNode) -> bool:
    """Whether the node is a gradient of an average pool: of the dialect or of a training runtime."""
    if is_dialect_gradient(node):
        return not OPS[node.op[1]].has_argmax
    if is_tensorflow_gradient(node):
        return "Avg" in node.op[1]
    aten = aten_operator(node) or ""
    return node.op == ("", AVERAGE_POOL_GRADIENT) or ("avg_pool" in aten and "backward" in aten)


def is_dialect(node: FlatNode) -> bool:
    """Whether the node is an operator of the dialect."""
    return node.op[0] == DOMAIN and node.op[1] in OPS


def is_tensorflow_gradient(node: FlatNode) -> bool:
    """Whether the node is a gradient of TensorFlow; in the default domain, its MaxPoolGrad has three inputs."""
    return node.op[0] in TENSORFLOW and (node.op[1], len(node.inputs)) in _TENSORFLOW_GRADIENTS


def aten_operator(node: FlatNode) -> str | None:
    """Return the name of the PyTorch operator that a node calls, or None."""
    domain, op_type = node.op
    if domain != ATEN:
        return None
    named = text_of(node.proto, "operator") if op_type == "ATen" else None
    return op_type if named is None else named


def _operands(node: FlatNode) -> InputRoles:
    """Return the inputs of a pool or gradient of any form."""
    (domain, op_type), last = node.op, len(node.inputs) - 1
    if is_dialect_gradient(node):
        return _DIALECT_GRADIENTS[op_type]
    if is_tensorflow_gradient(node):
        return _TENSORFLOW_GRADIENTS[op_type, len(node.inputs)]
    if domain == "":
        return _ONNX_OPERANDS.get(op_type, InputRoles())
    if aten := aten_operator(node) or "":
        if "backward" not in aten:
            return InputRoles(None, 0)
        return InputRoles(0, 1) if is_average_gradient(node) else InputRoles(0, None, last if "pool" in aten else None)
    if domain == DOMAIN and op_type.endswith("Backward"):
        return InputRoles(0, None, last)
    return (
        InputRoles(None, 0)
        if is_dialect(node) or (domain == DOMAIN and op_type.endswith("WithIndices"))
        else InputRoles()
    )


def incoming_gradient(node: FlatNode) -> str | None:
    """Return the input of a gradient node, of any form, that is the gradient of the pooled tensor; None if none is."""
    return _read(node, _operands(node).gradient)


def pooled(node: FlatNode) -> str | None:
    """Return the input of a pool or gradient node that is the pooled tensor, or None."""
    return _read(node, _operands(node).pooled)


def same_shape(node: FlatNode) -> str | None:
    """Return the input of a gradient node with its incoming gradient's shape (indices or pooled output), or None."""
    return _read(node, _operands(node).same_shape)


def shape_operand(node: FlatNode) -> str | None:
    """Return the input of an average pool's gradient that has the shape of the pooled tensor, or None."""
    has_shape = is_average_gradient(node) and len(node.inputs) == 2 and _operands(node).gradient == 1
    return _read(node, 0) if has_shape else None


def has_channels_last(node: FlatNode) -> bool:
    """Whether the node is a gradient of TensorFlow of tensors whose last axis are the channels."""
    return is_tensorflow_gradient(node) and (text_of(node.proto, "data_format") or "NHWC").endswith("C")


def _read(node: FlatNode, position: int | None) -> str | None:
    return node.inputs[position] or None if position is not None and 0 <= position < len(node.inputs) else None
