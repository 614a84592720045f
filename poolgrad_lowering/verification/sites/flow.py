# SPDX-License-Identifier: Apache-2.0

"""Checks through which operators values flow on the lowered side of a site.

Data can only be a sample, and a site that is wrong for one value could agree on it. So the nodes between the operators
of the dialect and the values of the model may only move elements, and indices may only be computed by arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onnx import TensorProto

from poolgrad_lowering.verification.graph import roles
from poolgrad_lowering.verification.graph.flat import FlatNode
from poolgrad_lowering.verification.graph.types import TensorType
from poolgrad_lowering.verification.sites.regions import ChangedRegion

MOVING = frozenset({"Flatten", "Identity", "Pad", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators whose results are elements of their first input, or padding."""
ARITHMETIC = frozenset(
    {"Add", "Cast", "Concat", "Constant", "Div", "Gather", "MaxPool", "Mod", "Mul", "ReduceProd", "Shape", "Sub"}
)
"""Operators by which indices and shapes are computed."""

_INTEGERS = (TensorProto.INT32, TensorProto.INT64)


def flow_flaw(region: ChangedRegion, types: Mapping[str, TensorType]) -> str | None:
    """Return a text on the first node of the lowered side that computes with values, or None.

    `types` are the known types of values that both sides define.
    """
    bodies = {key for gradient in region.expanded for key in gradient.nodes}
    nodes = [node for node in region.added if not roles.is_dialect(node) and node.key not in bodies]
    for node in nodes:
        if node.op[0] or node.op[1] not in MOVING | ARITHMETIC:
            return _text(node)
    producers = {value: node for node in nodes for value in node.outputs if value}
    pending, seen = list(_values(region, types)), set[str]()
    while pending:
        value = pending.pop()
        made_by = producers.get(value)
        if made_by is None or value in seen or _is_pool_of_the_original(region, made_by):
            continue
        if made_by.op[1] not in MOVING or not made_by.inputs:
            return _text(made_by)
        seen.add(value)
        pending.append(made_by.inputs[0])
    return None


def _values(region: ChangedRegion, types: Mapping[str, TensorType]) -> Iterator[str]:
    """Yield the values that must have flowed through operators that move elements: results, x and gradients."""
    for node in region.added:
        for value in (roles.pooled(node), roles.incoming_gradient(node)):
            if value is not None:
                yield value
    yield from (gradient.grad for gradient in region.expanded)
    for value in region.outputs:
        if value not in types or types[value].element not in _INTEGERS:
            yield value


def _is_pool_of_the_original(region: ChangedRegion, node: FlatNode) -> bool:
    """Whether the original has the MaxPool too, with another number of outputs."""
    same = [other for other in region.removed if other.op == node.op and other.inputs == node.inputs]
    return node.op == ("", "MaxPool") and any(
        list(other.proto.attribute) == list(node.proto.attribute) and other.outputs[0] == node.outputs[0]
        for other in same
    )


def _text(node: FlatNode) -> str:
    return f"node '{node.label}' ({node.op[1]}) computes with values; only operators of the dialect may"
