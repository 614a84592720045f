# SPDX-License-Identifier: Apache-2.0

"""The roles of operators' inputs: which one is the pooled tensor and which one the incoming gradient.

The cut of a site begins at these two values, so that its indices are those of a pool, and not arbitrary numbers. Views
of the values, which have the same elements, are followed backwards.
"""

from __future__ import annotations

from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.dialect.ops import OPS
from poolgrad_lowering.verification.graph.flat import FlatNode
from poolgrad_lowering.verification.graph.protos import text_of

ATEN = "org.pytorch.aten"
TENSORFLOW = ("", "ai.onnx.converters.tensorflow")

_VIEWS = {"Cast", "CastLike", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
_SCATTERS = {"Scatter", "ScatterElements", "ScatterND"}
_TENSORFLOW_GRADIENTS = {
    ("MaxPoolGrad", 3): 2,
    ("MaxPoolGradV2", 5): 2,
    ("MaxPool3DGrad", 3): 2,
    ("MaxPoolGradWithArgmax", 3): 1,
}
"""The position of the incoming gradient, by the operator and the number of its inputs."""


def is_view(node: FlatNode) -> bool:
    """Whether the output has the elements of the first input, with another shape, order or float type."""
    return node.op[0] == "" and node.op[1] in _VIEWS and bool(node.inputs)


def is_dialect_gradient(node: FlatNode) -> bool:
    """Whether the node is a gradient of the dialect, `op(x, grad, argmax)`."""
    return node.op[0] == DOMAIN and node.op[1] in OPS and "Grad" in node.op[1]


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
    if is_dialect_gradient(node):
        position = 1
    elif is_tensorflow_gradient(node):
        position = _TENSORFLOW_GRADIENTS[op_type, len(node.inputs)]
    elif domain == "" and op_type in _SCATTERS:
        position = 2
    elif (
        (domain, op_type) == ("", "MaxPoolGrad")
        or "backward" in (aten_operator(node) or "")
        or (domain == DOMAIN and op_type.endswith("Backward"))
    ):
        position = 0
    return _read(node, position)


def pooled(node: FlatNode) -> str | None:
    """Return the input of a pool or gradient node that is the pooled tensor, or None."""
    domain, op_type = node.op
    aten = aten_operator(node) or ""
    is_pool = (domain, op_type) == ("", "MaxPool") or is_dialect(node) or (aten and "backward" not in aten)
    if is_pool or is_tensorflow_gradient(node) or (domain == DOMAIN and op_type.endswith("WithIndices")):
        return _read(node, 0)
    return None


def _read(node: FlatNode, position: int | None) -> str | None:
    return node.inputs[position] or None if position is not None and position < len(node.inputs) else None


def same_shape(node: FlatNode) -> str | None:
    """Return the input of a gradient node with its incoming gradient's shape (indices or pooled output), or None."""
    domain, op_type = node.op
    if is_dialect_gradient(node):
        return _read(node, 2)
    if is_tensorflow_gradient(node):
        return _read(node, 2 if op_type == "MaxPoolGradWithArgmax" else 1)
    if domain == "" and op_type in ("Scatter", "ScatterElements", "MaxPoolGrad"):
        return _read(node, 1)
    if "pool" in (aten_operator(node) or "") or domain == DOMAIN:
        return _read(node, len(node.inputs) - 1)
    return None
