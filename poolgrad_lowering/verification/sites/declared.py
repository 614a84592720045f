# SPDX-License-Identifier: Apache-2.0

"""Checks a node of the dialect, and the function body of its operator, against the table of the dialect.

A node has exactly the operands and attributes of its operator, each with an allowed value: the provider takes no other
node. A function body is the one that this version makes.
"""

from __future__ import annotations

import itertools
from collections import Counter
from functools import lru_cache

from onnx import AttributeProto, FunctionProto

from poolgrad_lowering.dialect import OPS, TYPES, NoFunctionBodyError, function_body
from poolgrad_lowering.dialect.functions import body_bytes
from poolgrad_lowering.dialect.op import INDEX, VALUE, Attribute, value_of
from poolgrad_lowering.verification.graph.flat import FlatNode

_LARGEST = 2**31 - 1
"""The largest number that the provider takes in an attribute."""


def node_flaw(node: FlatNode) -> str | None:
    """Return a text on the first thing in a dialect node that is not as its operator declares it, or None."""
    op, proto = OPS[node.op[1]], node.proto
    if proto.overload:
        return f"it calls the overload '{proto.overload}'"
    for what, names, operands in (("inputs", proto.input, op.inputs), ("outputs", proto.output, op.outputs)):
        if len(names) != len(operands) or not all(names):
            return f"its {what} are not {', '.join(operand.name for operand in operands)}"
    counts = Counter(attribute.name for attribute in proto.attribute)
    declared = {attribute.name for attribute in op.attributes}
    for name, count in counts.items():
        if name not in declared or count > 1:
            return f"attribute '{name}' is {'unknown' if name not in declared else 'there twice'}"
    stored = {attribute.name: attribute for attribute in proto.attribute}
    flaws = ((attribute.name, _value_flaw(attribute, stored.get(attribute.name))) for attribute in op.attributes)
    return next((f"attribute '{name}' {flaw}" for name, flaw in flaws if flaw is not None), None)


def _value_flaw(attribute: Attribute, stored: AttributeProto | None) -> str | None:
    """Return what is wrong with an attribute. Nodes have all attributes, also those with a default."""
    if stored is None:
        return "is missing"
    if stored.ref_attr_name:
        return "refers to an attribute of a function"
    try:
        value = value_of(attribute, stored)
    except ValueError as error:
        return str(error)
    numbers = value if isinstance(value, tuple) else (value,)
    return f"is {value}, above {_LARGEST}" if any(isinstance(n, int) and n > _LARGEST for n in numbers) else None


def is_own_body(function: FunctionProto, opset: int) -> bool:
    """Whether a function is a body that this version makes for a model of this opset, but for what has no meaning."""
    return body_bytes(function) in own_bodies(function.name, opset)


@lru_cache
def own_bodies(op: str, opset: int) -> dict[bytes, FunctionProto]:
    """Return the function bodies of an operator at an opset, for all types and maxima, by `body_bytes`."""
    found, maxima = {}, OPS[op].bodies
    counts = range(1, len(TYPES[VALUE]) + 1)
    subsets = [types for count in counts for types in itertools.combinations(TYPES[VALUE], count)]
    for elements, index, maximum in itertools.product(subsets, TYPES[INDEX], maxima):
        try:
            body = function_body(op, opset, elements, index, maximum=maximum)
        except NoFunctionBodyError:
            continue
        found[body_bytes(body)] = body
    return found
