# SPDX-License-Identifier: Apache-2.0

"""Attributes of a node: names are unique, the stored field matches the type, and windows of pools are in range."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from onnx import AttributeProto

from poolgrad_lowering.model.diagnostics.faults import Fault, Flaw, shown
from poolgrad_lowering.model.gate.names import encoding_flaw
from poolgrad_lowering.model.ir.scopes import Scope

_FIELDS = {
    AttributeProto.FLOAT: "f",
    AttributeProto.INT: "i",
    AttributeProto.STRING: "s",
    AttributeProto.TENSOR: "t",
    AttributeProto.GRAPH: "g",
    AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    AttributeProto.TYPE_PROTO: "tp",
    AttributeProto.FLOATS: "floats",
    AttributeProto.INTS: "ints",
    AttributeProto.STRINGS: "strings",
    AttributeProto.TENSORS: "tensors",
    AttributeProto.GRAPHS: "graphs",
    AttributeProto.SPARSE_TENSORS: "sparse_tensors",
    AttributeProto.TYPE_PROTOS: "type_protos",
}
_NEVER_EMPTY = frozenset(
    {AttributeProto.TENSOR, AttributeProto.GRAPH, AttributeProto.SPARSE_TENSOR, AttributeProto.TYPE_PROTO}
)
"""Types whose field must be present: an absent number, string or list means 0, "" or []."""
_DESCRIBING = frozenset({"name", "type", "doc_string", "ref_attr_name"})

_LEAST = {"kernel_shape": 1, "strides": 1, "dilations": 1, "pads": 0}
_MOST = 2**31 - 1
"""Many runtimes store kernels, strides and pads as C ints."""

_POOLS = frozenset(
    (domain, op_type)
    for domain in ("", "com.microsoft")
    for op_type in ("MaxPool", "MaxPoolGrad", "AveragePool", "AveragePoolGrad", "LpPool", "MaxUnpool")
)


def attribute_flaw(attribute: AttributeProto) -> Flaw | None:
    """The flaw of an attribute's name, type or stored field, or None. Does not check tensors and graphs in it."""
    name = attribute.name
    if not name:
        return Flaw(Fault.ATTRIBUTE_NAME, "an attribute has no name")
    if (flaw := encoding_flaw((name,))) is not None:
        return flaw
    if (field := _FIELDS.get(attribute.type)) is None:
        return Flaw(Fault.ATTRIBUTE_TYPE, f"attribute {shown(name)} has a type that ONNX does not define")
    filled = {descriptor.name for descriptor, _ in attribute.ListFields()} - _DESCRIBING
    if attribute.ref_attr_name:
        return Flaw(Fault.ATTRIBUTE_TYPE, _mismatch(attribute, filled)) if filled else None
    if filled <= {field} and (filled or attribute.type not in _NEVER_EMPTY):
        return None
    return Flaw(Fault.ATTRIBUTE_TYPE, _mismatch(attribute, filled))


def duplicate_attribute_flaw(attributes: Iterable[AttributeProto]) -> Flaw:
    """The flaw of attributes of which two have the same name. Requires that there are two."""
    [(name, _)] = Counter(attribute.name for attribute in attributes).most_common(1)
    return Flaw(Fault.ATTRIBUTE_TWICE, f"attribute {shown(name)} is given twice")


def window_flaw(scope: Scope) -> tuple[int, Flaw] | None:
    """The position and flaw of the first pool of a scope whose windows have a flaw, or None."""
    for position in sorted(position for op in _POOLS for position in scope.by_op.get(op, ())):
        if (flaw := _windows_flaw(scope.proto.node[position].attribute)) is not None:
            return position, flaw
    return None


def _windows_flaw(attributes: Iterable[AttributeProto]) -> Flaw | None:
    """The flaw of the window attributes of a pool, or None. Checks each number on its own."""
    for attribute in attributes:
        if attribute.name not in _LEAST or attribute.ref_attr_name:
            continue
        if attribute.type != AttributeProto.INTS:
            return Flaw(Fault.ATTRIBUTE_TYPE, f"attribute '{attribute.name}' is not a list of integers")
        least = _LEAST[attribute.name]
        for number in attribute.ints[:]:
            if not least <= number <= _MOST:
                return Flaw(Fault.ATTRIBUTE_VALUE, f"attribute '{attribute.name}' has the value {number}")
    return None


def _mismatch(attribute: AttributeProto, filled: Iterable[str]) -> str:
    kind = AttributeProto.AttributeType.Name(attribute.type)
    held = ", ".join(sorted(filled)) or "nothing"
    source = " and comes from the function's caller" if attribute.ref_attr_name else ""
    return f"attribute {shown(attribute.name)} is of type {kind}{source}, but holds {held}"
