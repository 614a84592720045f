# SPDX-License-Identifier: Apache-2.0

"""PyTorch's operators in ONNX graphs: how exporters name them.

They write an operator as the node `ATen`, its name in an attribute, or under its own name as the op type.
"""

from __future__ import annotations

from poolgrad_lowering.ir.attributes import attribute
from poolgrad_lowering.ir.scopes import Node

DOMAIN = "org.pytorch.aten"
GENERIC = "ATen"


def operator_name(node: Node) -> str | None:
    """The operator that a node names, with its overload as in `max.dim` where it states one; None in other domains."""
    domain, op_type = node.op
    if domain != DOMAIN:
        return None
    if op_type != GENERIC:
        return op_type
    name, overload = attribute(node, "operator"), attribute(node, "overload_name")
    return f"{name}.{overload}" if overload else str(name)
