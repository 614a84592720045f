# SPDX-License-Identifier: Apache-2.0

"""Rules that compute the element type of a value from the node that produces it."""

from __future__ import annotations

from onnx import TensorProto

from poolgrad_lowering.ir.attributes import attribute, integer
from poolgrad_lowering.ir.producers import gives_positions
from poolgrad_lowering.ir.scopes import Node, Value

KEEPS_TYPE = (
    *("Add", "Expand", "MaxPool", "Mod", "Mul", "Neg", "Pad", "Relu"),
    *("ScatterElements", "ScatterND", "Slice", "Sub", "Sum", "Transpose"),
)
"""Operators whose output has the element type of the first input (MaxPool: the first output)."""


def stated_type(node: Node, value: Value) -> int | None:
    """Return the element type of a node's output if the operator and its attributes determine it, else None."""
    if node.is_a("Cast"):
        return integer(node, "to")
    if node.is_a("Shape", "Size", "ArgMax") or (value == node.output(1) and _records_indices(node)):
        return int(TensorProto.INT64)
    if node.is_a("Constant", "ConstantOfShape"):
        return _stored_type(node)
    return None


def _records_indices(node: Node) -> bool:
    return node.is_a("MaxPool") or gives_positions(node)


def _stored_type(node: Node) -> int | None:
    stored = attribute(node, "value")
    if isinstance(stored, TensorProto):
        return stored.data_type
    return int(TensorProto.FLOAT) if stored is None and node.is_a("ConstantOfShape") else None
