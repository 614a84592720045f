# SPDX-License-Identifier: Apache-2.0

"""The roles of operators' inputs: which one is the pooled tensor and which one the incoming gradient.

The cut of a site begins at these two values, so that its indices are those of a pool, and not arbitrary numbers. Views
of the values, which have the same elements, are followed backwards.
"""

from __future__ import annotations

from typing import NamedTuple

from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.dialect.ops import OPS
from poolgrad_lowering.verification.graph.flat import FlatNode
from poolgrad_lowering.verification.graph.protos import text_of

ATEN = "org.pytorch.aten"
TENSORFLOW = ("", "ai.onnx.converters.tensorflow")
AVERAGE_POOL_GRADIENT = "AveragePoolGrad"
"""onnxruntime-training's operator of the default domain, whose only operand is the incoming gradient."""

_VIEWS = {"Cast", "CastLike", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
_SCATTERS = {"Scatter", "ScatterElements", "ScatterND"}


class GradientOperands(NamedTuple):
    """The positions of a gradient's inputs: the incoming gradient, the pooled tensor, and one like the gradient."""

    gradient: int
    pooled: int | None = None
    same_shape: int | None = None


_TENSORFLOW_GRADIENTS = {
    ("AvgPoolGrad", 2): GradientOperands(1),
    ("AvgPool3DGrad", 2): GradientOperands(1),
    ("MaxPoolGrad", 3): GradientOperands(2, 0, 1),
    ("MaxPoolGradV2", 5): GradientOperands(2, 0, 1),
    ("MaxPool3DGrad", 3): GradientOperands(2, 0, 1),
    ("MaxPoolGradWithArgmax", 3): GradientOperands(1, 0, 2),
}
"""The inputs by the operator and their number."""


def _dialect_operands(names: tuple[str, ...]) -> GradientOperands:
    """Return the positions by the names that the dialect gives its operands."""
    gradient = next(position for position, name in enumerate(names) if "grad" in name)
    return GradientOperands(gradient, *(names.index(name) if name in names else None for name in ("x", "argmax")))


_DIALECT_GRADIENTS = {
    name: _dialect_operands(tuple(operand.name for operand in op.inputs)) for name, op in OPS.items() if "Grad" in name
}


def is_view(node: FlatNode) -> bool:
    """Whether the output has the elements of the first input, with another shape, order or float type."""
    return node.op[0] == "" and node.op[1] in _VIEWS and bool(node.inputs)


def is_dialect_gradient(node: FlatNode) -> bool:
    """Whether the node is a gradient of the dialect."""
    return node.op[0] == DOMAIN and node.op[1] in _DIALECT_GRADIENTS


def is_average_gradient(node: FlatNode) -> bool:
    """Whether the node is a gradient of an average pool: of the dialect or of a training runtime."""
    domain, op_type = node.op
    if is_dialect_gradient(node):
        return _DIALECT_GRADIENTS[op_type].same_shape is None
    if is_tensorflow_gradient(node):
        return op_type.startswith("Avg")
    aten = aten_operator(node) or ""
    return (domain, op_type) == ("", AVERAGE_POOL_GRADIENT) or ("avg_pool" in aten and "backward" in aten)


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


def incoming_gradient(node: FlatNode) -> str | None:
    """Return the input of a gradient node, of any form, that is the gradient of the pooled tensor; None if none is."""
    domain, op_type = node.op
    position: int | None = None
    if (operands := _operands(node)) is not None:
        position = operands.gradient
    elif domain == "" and op_type in _SCATTERS:
        position = 2
    elif (
        (domain == "" and op_type in ("MaxPoolGrad", AVERAGE_POOL_GRADIENT))
        or "backward" in (aten_operator(node) or "")
        or (domain == DOMAIN and op_type.endswith("Backward"))
    ):
        position = 0
    return _read(node, position)


def pooled(node: FlatNode) -> str | None:
    """Return the input of a pool or gradient node that is the pooled tensor, or None."""
    domain, op_type = node.op
    aten = aten_operator(node) or ""
    if (operands := _operands(node)) is not None:
        return _read(node, operands.pooled)
    if is_average_gradient(node):
        return _read(node, 1)
    is_pool = (domain, op_type) == ("", "MaxPool") or is_dialect(node) or (aten and "backward" not in aten)
    return _read(node, 0) if is_pool or (domain == DOMAIN and op_type.endswith("WithIndices")) else None


def _operands(node: FlatNode) -> GradientOperands | None:
    """Return the inputs of a gradient of the dialect or of TensorFlow."""
    if is_dialect_gradient(node):
        return _DIALECT_GRADIENTS[node.op[1]]
    return _TENSORFLOW_GRADIENTS[node.op[1], len(node.inputs)] if is_tensorflow_gradient(node) else None


def shape_operand(node: FlatNode) -> str | None:
    """Return the input of an average pool's gradient that has the shape of the pooled tensor, or None."""
    is_shaped = is_average_gradient(node) and len(node.inputs) == 2 and incoming_gradient(node) == node.inputs[1]
    return _read(node, 0) if is_shaped else None


def has_channels_last(node: FlatNode) -> bool:
    """Whether the node is a gradient of TensorFlow of tensors whose last axis are the channels."""
    return is_tensorflow_gradient(node) and (text_of(node.proto, "data_format") or "NHWC").endswith("C")


def _read(node: FlatNode, position: int | None) -> str | None:
    return node.inputs[position] or None if position is not None and position < len(node.inputs) else None


def same_shape(node: FlatNode) -> str | None:
    """Return the input of a gradient node with its incoming gradient's shape (indices or pooled output), or None."""
    domain, op_type = node.op
    if (operands := _operands(node)) is not None:
        return _read(node, operands.same_shape)
    if is_average_gradient(node):
        return None
    if domain == "" and op_type in ("Scatter", "ScatterElements", "MaxPoolGrad"):
        return _read(node, 1)
    if "pool" in (aten_operator(node) or "") or domain == DOMAIN:
        return _read(node, len(node.inputs) - 1)
    return None
