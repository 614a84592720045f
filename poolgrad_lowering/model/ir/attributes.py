# SPDX-License-Identifier: Apache-2.0

"""What ONNX defines of an operator, and node attributes with the defaults that it gives them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import onnx
from onnx import AttributeProto
from onnx.defs import OpSchema

from poolgrad_lowering.model.diagnostics.onnx_errors import ONNX_ERRORS
from poolgrad_lowering.model.ir.scopes import Node

T = TypeVar("T")

ONNX_DOMAINS = (onnx.defs.ONNX_DOMAIN, onnx.defs.ONNX_ML_DOMAIN, onnx.defs.AI_ONNX_PREVIEW_TRAINING_DOMAIN)
"""The domains of ONNX itself: the process may have registered operators of others."""


def onnx_schema(op_type: str, domain: str, version: int | None) -> OpSchema | None:
    """Return ONNX's definition of an operator; None for an operator of another domain."""
    if version is None or domain not in ONNX_DOMAINS:
        return None
    try:
        return onnx.defs.get_schema(op_type, version, domain)
    except ONNX_ERRORS:
        return None


class Unreadable:
    """The value of an attribute that the caller of the function supplies, or whose type this module does not read."""

    def __str__(self) -> str:
        return "unreadable"


UNREADABLE = Unreadable()

_READERS: dict[int, Callable[[AttributeProto], Any]] = {
    AttributeProto.INT: lambda stored: stored.i,
    AttributeProto.FLOAT: lambda stored: stored.f,
    AttributeProto.STRING: lambda stored: stored.s.decode("utf-8", "replace"),
    AttributeProto.TENSOR: lambda stored: stored.t,
    AttributeProto.INTS: lambda stored: stored.ints[:],
    AttributeProto.FLOATS: lambda stored: stored.floats[:],
}
_NEWEST = 2**31 - 1  # operator set versions are C ints to onnx's registry


def attribute(node: Node, name: str) -> Any:
    """The attribute's value, else the operator's default at the scope's opset, else None.

    Strings are returned as `str`, lists as `list`. An attribute that is present but cannot be read is `UNREADABLE`.
    """
    stored = node.attributes.get(name)
    if stored is not None:
        return _plain(stored)
    domain, op_type = node.op
    return _defaults(op_type, domain, min(node.scope.opsets.get(domain, 0), _NEWEST)).get(name)


def integers(node: Node, name: str, absent: list[int] | None = None) -> list[int] | None:
    """The value of a list of integers; `absent` if there is no attribute and no default, None for any other type."""
    value: list[int] | None = _typed(node, name, absent, list)
    return value if value is None or {*map(type, value)} <= {int} else None


def integer(node: Node, name: str, absent: int | None = None) -> int | None:
    """The value of an integer; `absent` if there is no attribute and no default, None for any other type."""
    return _typed(node, name, absent, int)


def boolean(node: Node, name: str) -> bool | None:
    """The value of an integer that is 0 or 1; None for any other, which runtimes read in different ways."""
    value = integer(node, name)
    return bool(value) if value in (0, 1) else None


def text(node: Node, name: str, absent: str | None = None) -> str | None:
    """The value of a string; `absent` if there is no attribute and no default, None for any other type."""
    return _typed(node, name, absent, str)


def _typed(node: Node, name: str, absent: T | None, kind: type[T]) -> T | None:
    value = attribute(node, name)
    if value is None:
        return absent
    return value if isinstance(value, kind) else None


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


def _plain(stored: AttributeProto) -> Any:
    reader = _READERS.get(stored.type) if not stored.ref_attr_name else None
    return UNREADABLE if reader is None else reader(stored)
