"""Node attributes with the defaults that ONNX gives them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import onnx

from poolgrad_lowering.index import Node


def attribute(node: Node, name: str) -> Any:
    """The attribute's value, or the operator's default for it at the scope's opset, or None.

    Strings come as `str`, lists as `list`. An attribute whose stored type is not the operator's is as good as
    absent to a caller that checks what it got: values are returned as they are stored.
    """
    for candidate in node.proto.attribute:
        if candidate.name == name:
            return _plain(candidate)
    domain, op_type = node.op
    return _defaults(op_type, domain, node.scope.opsets.get(domain, 0)).get(name)


def has_attribute(node: Node, name: str) -> bool:
    """Whether the node itself carries the attribute."""
    return any(candidate.name == name for candidate in node.proto.attribute)


def integers(node: Node, name: str) -> list[int] | None:
    """An attribute that must be a list of integers; None where it is absent or something else."""
    value = attribute(node, name)
    return value if isinstance(value, list) and all(isinstance(item, int) for item in value) else None


def integer(node: Node, name: str) -> int | None:
    """An attribute that must be an integer; None where it is absent or something else."""
    value = attribute(node, name)
    return value if isinstance(value, int) else None


def text(node: Node, name: str) -> str | None:
    """An attribute that must be a string; None where it is absent or something else."""
    value = attribute(node, name)
    return value if isinstance(value, str) else None


@lru_cache(maxsize=256)
def _defaults(op_type: str, domain: str, version: int) -> dict[str, Any]:
    try:
        schema = onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return {}
    return {
        name: _plain(definition.default_value)
        for name, definition in schema.attributes.items()
        if definition.default_value.name
    }


def _plain(stored: onnx.AttributeProto) -> Any:
    value = onnx.helper.get_attribute_value(stored)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (str, int, float, onnx.TensorProto, onnx.GraphProto)):
        return value
    return list(value)
