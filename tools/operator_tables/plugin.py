# SPDX-License-Identifier: Apache-2.0

"""The table of the parser plugin for ATC, in C++."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onnx import AttributeProto

from poolgrad_lowering.dialect import DOMAIN, VERSION, Attribute, Op
from poolgrad_lowering.dialect.op import Prototype
from tools.operator_tables.cpp import WRITTEN, lines, text_literal

_TEXT = """
#include "operators.h"

namespace poolgrad {
namespace atc {

// clang-format off
const std::vector<Operator>& Operators() {
  static const std::vector<Operator> table = {
%s
  };
  return table;
}
// clang-format on

}  // namespace atc
}  // namespace poolgrad
"""


def plugin_table(ops: Iterable[Op]) -> str:
    """Return the source with these operators."""
    ops = list(ops)
    return WRITTEN + _TEXT % lines(_row(op, ops) for op in ops)


def _row(op: Op, ops: Sequence[Op]) -> str:
    prototype, name = _prototype(op, ops)
    inputs = [operand.name for operand in op.inputs]
    outputs = prototype.outputs or [operand.name for operand in op.outputs]
    own, body = ([each for each in op.attributes if each.of_body == of_body] for of_body in (False, True))
    fields = (
        f'"{DOMAIN}::{VERSION}::{op.name}", "{name}", {_texts(inputs)}, {_texts(outputs)}',
        f"Layout::k{prototype.layout.capitalize()}, {_attributes(own)}",
        f"{_attributes(body)}, {str(op.prototype is None).lower()}",
    )
    return "    {" + ",\n     ".join(fields) + "},"


def _prototype(op: Op, ops: Iterable[Op]) -> tuple[Prototype, str]:
    """The prototype that an operator is registered with, and its name: of one without, that of one like it."""
    alike = (each for each in (op, *ops) if (each.inputs, each.outputs) == (op.inputs, op.outputs))
    return next((each.prototype, each.name) for each in alike if each.prototype is not None)


def _texts(texts: Iterable[str]) -> str:
    return f"{{{', '.join(map(text_literal, texts))}}}"


def _attributes(attributes: Sequence[Attribute]) -> str:
    rows = ",\n      ".join(map(_attribute, attributes))
    return f"{{\n      {rows}}}" if rows else "{}"


def _attribute(attribute: Attribute) -> str:
    """An attribute of an operator in GE, where what is 0 or 1 is a bool."""
    allowed = attribute.allowed or ()
    is_bool = bool(allowed) and set(allowed) <= {0, 1} and not attribute.of_body
    kind = "Bool" if is_bool else AttributeProto.AttributeType.Name(attribute.type).capitalize()
    if attribute.type == AttributeProto.STRING:
        return f'{{"{attribute.name}", Type::k{kind}, 0, 0, {{}}, {{}}, {text_literal(str(attribute.default))}}}'
    default = attribute.default if isinstance(attribute.default, tuple) else (attribute.default,)
    numbers = [int(number) for number in default if number is not None]
    lists = ", ".join(f"{{{', '.join(map(str, each))}}}" for each in (allowed, numbers))
    return f'{{"{attribute.name}", Type::k{kind}, {attribute.length or 0}, {attribute.minimum or 0}, {lists}, ""}}'
