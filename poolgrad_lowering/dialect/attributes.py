# SPDX-License-Identifier: Apache-2.0

"""Attributes of the dialect as protobuf: writes defaults, reads values and checks them against the table."""

from __future__ import annotations

from typing import Any

from onnx import AttributeProto, helper

from poolgrad_lowering.dialect.op import Attribute


def default_proto(attribute: Attribute) -> AttributeProto:
    """Return the default of an attribute that has one."""
    return helper.make_attribute(attribute.name, attribute.default)


def value_of(attribute: Attribute, proto: AttributeProto | None) -> Any:
    """Return the value of `proto`, or the default if it is None: int, float, str or a tuple of ints.

    Raises `ValueError` if the value breaks the rules of `attribute`; the message says what is expected.
    """
    if proto is None:
        if attribute.required:
            raise ValueError("is missing")
        return attribute.default
    if proto.type != attribute.type:
        raise ValueError(f"has type {_type_name(proto.type)}, expected {_type_name(attribute.type)}")
    value = _plain(helper.get_attribute_value(proto))
    numbers = value if isinstance(value, tuple) else (value,)
    if attribute.length is not None and len(numbers) != attribute.length:
        raise ValueError(f"is {value}, expected {attribute.length} values")
    if attribute.minimum is not None and min(numbers) < attribute.minimum:
        raise ValueError(f"is {value}, expected at least {attribute.minimum}")
    if attribute.allowed is not None and value not in attribute.allowed:
        raise ValueError(f"is {value!r}, expected one of {attribute.allowed}")
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value if isinstance(value, int | float | str) else tuple(value)


def _type_name(attribute_type: int) -> str:
    return str(AttributeProto.AttributeType.Name(attribute_type))
