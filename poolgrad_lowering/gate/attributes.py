"""Attributes of one node: named once, typed, filled as their type says, and of pools with values that can be meant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from onnx import AttributeProto

from poolgrad_lowering.diagnostics.faults import Fault, Flaw, shown
from poolgrad_lowering.gate.names import not_text

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
"""Types whose field has to be there: numbers, texts and lists are 0, "" and [] where nothing is stored."""
_DESCRIBING = frozenset({"name", "type", "doc_string", "ref_attr_name"})

_LEAST = {"kernel_shape": 1, "strides": 1, "dilations": 1, "pads": 0}
_MOST = 2**31 - 1
"""Kernels, strides and pads are C ints to many runtimes, and no memory has so long an axis."""

POOLS = frozenset(
    (domain, op_type)
    for domain in ("", "com.microsoft")
    for op_type in ("MaxPool", "MaxPoolGrad", "AveragePool", "AveragePoolGrad", "LpPool", "MaxUnpool")
)


def attribute_flaw(attribute: AttributeProto) -> Flaw | None:
    """What is wrong with the form of an attribute; not with what it holds."""
    name = attribute.name
    if not name:
        return Flaw(Fault.ATTRIBUTE_NAME, "an attribute has no name")
    if (flaw := not_text((name,))) is not None:
        return flaw
    if (field := _FIELDS.get(attribute.type)) is None:
        return Flaw(Fault.ATTRIBUTE_TYPE, f"attribute {shown(name)} has no type that ONNX has")
    filled = {descriptor.name for descriptor, _ in attribute.ListFields()} - _DESCRIBING
    if attribute.ref_attr_name:
        return Flaw(Fault.ATTRIBUTE_TYPE, _holds(attribute, filled)) if filled else None
    if filled <= {field} and (filled or attribute.type not in _NEVER_EMPTY):
        return None
    return Flaw(Fault.ATTRIBUTE_TYPE, _holds(attribute, filled))


def given_twice(attributes: Iterable[AttributeProto]) -> Flaw:
    """The flaw of attributes of which one name is given twice."""
    [(name, _)] = Counter(attribute.name for attribute in attributes).most_common(1)
    return Flaw(Fault.ATTRIBUTE_TWICE, f"attribute {shown(name)} is given twice")


def window_flaw(attributes: Iterable[AttributeProto]) -> Flaw | None:
    """What is wrong with the windows of a pool, each number taken for itself."""
    for attribute in attributes:
        if attribute.name not in _LEAST or attribute.ref_attr_name:
            continue
        if attribute.type != AttributeProto.INTS:
            return Flaw(Fault.ATTRIBUTE_TYPE, f"attribute '{attribute.name}' is no list of integers")
        least = _LEAST[attribute.name]
        for number in attribute.ints[:]:
            if not least <= number <= _MOST:
                return Flaw(Fault.ATTRIBUTE_VALUE, f"attribute '{attribute.name}' has the value {number}")
    return None


def _holds(attribute: AttributeProto, filled: Iterable[str]) -> str:
    kind = AttributeProto.AttributeType.Name(attribute.type)
    held = ", ".join(sorted(filled)) or "nothing"
    source = " and comes from the function's caller" if attribute.ref_attr_name else ""
    return f"attribute {shown(attribute.name)} is of type {kind}{source}, and holds {held}"
