# SPDX-License-Identifier: Apache-2.0

"""The roles of a node's inputs, by the table of `input_roles`: which one is the incoming gradient, which one pooled.

The cut of a site begins at these two values, so that its indices are those of a pool, and not arbitrary numbers. Views
of the values, which have the same elements, are followed backwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.dialect.ops import OPS
from poolgrad_lowering.verification.graph import input_roles
from poolgrad_lowering.verification.graph.flat import FlatNode
from poolgrad_lowering.verification.graph.protos import text_of

_VIEWS = {"Cast", "CastLike", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
MOVING = frozenset({"Flatten", "Identity", "Pad", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators whose results are elements of their first input, or padding."""
_WITHOUT_REDUCTION = (None, "none")


def is_view(node: FlatNode) -> bool:
    """Whether the output has the elements of the first input, with another shape, order or float type."""
    return node.op[0] == "" and node.op[1] in _VIEWS and bool(node.inputs)


def views(value: str, producers: Mapping[str, FlatNode]) -> list[str]:
    """Return the value and the values of which it is a view, nearest first; a cycle of nodes ends the list."""
    found = [value]
    while (made_by := producers.get(found[-1])) is not None and is_view(made_by) and made_by.inputs[0] not in found:
        found.append(made_by.inputs[0])
    return found


def is_dialect(node: FlatNode) -> bool:
    """Whether the node is an operator of the dialect."""
    return node.op[0] == DOMAIN and node.op[1] in OPS


def is_dialect_gradient(node: FlatNode) -> bool:
    """Whether the node is a gradient of the dialect."""
    return is_dialect(node) and OPS[node.op[1]].is_gradient


def is_average_gradient(node: FlatNode) -> bool:
    """Whether the node is a gradient of an average pool: of the dialect or of a training runtime."""
    return _operands(node).average


def is_tensorflow_gradient(node: FlatNode) -> bool:
    """Whether the node is a gradient of TensorFlow; in the default domain, its MaxPoolGrad has three inputs."""
    return _tensorflow(node) is not None


def is_pool(node: FlatNode) -> bool:
    """Whether the node reads a pooled tensor, and its row is no declaration of another package."""
    return pooled(node) is not None and (_key(node) in input_roles.INPUT_ROLES or is_tensorflow_gradient(node))


def overwrites(node: FlatNode) -> bool:
    """Whether the node writes elements where it could add them."""
    return _operands(node).overwrites and text_of(node.proto, "reduction") in _WITHOUT_REDUCTION


def aten_operator(node: FlatNode) -> str | None:
    """Return the name of the PyTorch operator that a node calls, or None."""
    domain, op_type = node.op
    if domain != input_roles.ATEN:
        return None
    named = text_of(node.proto, "operator") if node.op == input_roles.ATEN_GENERIC else None
    return op_type if named is None else named


def without_row(nodes: Iterable[FlatNode]) -> str | None:
    """Return what to do for the first node whose operator has no row, as a sentence part, or None."""
    for node in nodes:
        if _found(node) is None:
            operator = ".".join(filter(None, node.op))
            return (
                f"verification does not know what the inputs of {operator} are: declare them by an entry point of the "
                f"group {input_roles.GROUP}, or leave this gradient as it is by a plan (`poolgrad lower --plan`)"
            )
    return None


def _tensorflow(node: FlatNode) -> input_roles.InputRoles | None:
    """Return the row of a gradient of TensorFlow: with another number of inputs it is another operator."""
    is_theirs = node.op[0] in ("", input_roles.TENSORFLOW_DOMAIN)
    row = input_roles.INPUT_ROLES.get((input_roles.TENSORFLOW_DOMAIN, node.op[1])) if is_theirs else None
    return row if row is not None and len(row.names.split()) == len(node.inputs) else None


def _key(node: FlatNode) -> tuple[str, str]:
    if (name := aten_operator(node)) is None:
        return node.op
    own = input_roles.ATEN, name
    return own if own in input_roles.INPUT_ROLES else input_roles.ATEN_GENERIC


def _found(node: FlatNode) -> input_roles.InputRoles | None:
    return _tensorflow(node) or input_roles.row_of(_key(node))


def _operands(node: FlatNode) -> input_roles.InputRoles:
    """Return the row of a node, one without names if there is none."""
    return _found(node) or input_roles.InputRoles()


def incoming_gradient(node: FlatNode) -> str | None:
    """Return the input of a gradient node, of any form, that is the gradient of the pooled tensor; None if none is."""
    return _read(node, "dy")


def pooled(node: FlatNode) -> str | None:
    """Return the input of a pool or gradient node that is the pooled tensor, or None."""
    return _read(node, "x")


def same_shape(node: FlatNode) -> str | None:
    """Return the input of a gradient node with its incoming gradient's shape (indices or pooled output), or None."""
    return _read(node, "indices", "y")


def shape_operand(node: FlatNode) -> str | None:
    """Return the input of an average pool's gradient that has the shape of the pooled tensor, or None."""
    return _read(node, "sizes") if is_average_gradient(node) else None


def has_channels_last(node: FlatNode) -> bool:
    """Whether the node is a gradient of TensorFlow of tensors whose last axis are the channels."""
    return is_tensorflow_gradient(node) and (text_of(node.proto, "data_format") or "NHWC").endswith("C")


def _read(node: FlatNode, *names: str) -> str | None:
    """Return the input that has the first of the row's names that is one of these, or None."""
    pairs = zip(_operands(node).names.split(), node.inputs, strict=False)
    return next((value for name, value in pairs if name in names), "") or None
