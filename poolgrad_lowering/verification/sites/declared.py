# SPDX-License-Identifier: Apache-2.0

"""Checks a node of the dialect, and the function body of its operator, against the table of the dialect.

A node has exactly the operands and attributes of its operator, each with an allowed value: the provider takes no other
node. A function body is the one that this version makes. An export may have the nodes of a body in place of a gradient,
with other names, with initializers for its Constant nodes, and with its TopK as CANN's graph engine reads it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import onnx
from onnx import AttributeProto, FunctionProto, NodeProto, TensorProto

from poolgrad_lowering.dialect import OPS, TYPES, NoFunctionBodyError, function_body
from poolgrad_lowering.dialect.functions import body_bytes
from poolgrad_lowering.dialect.op import INDEX, VALUE, Attribute, Part, value_of
from poolgrad_lowering.verification.exports.node_rewrite import Context
from poolgrad_lowering.verification.exports.rewrites import rewrites_of
from poolgrad_lowering.verification.graph.flat import FlatNode
from poolgrad_lowering.verification.graph.matching import Match

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


_EXPANDED = tuple(name for name, op in OPS.items() if op.is_gradient and op.prototype is None)
"""The gradients that no graph of CANN can have."""


class ExpandedGradient(NamedTuple):
    """A gradient as the nodes of its function body: its result, the incoming gradient, and the keys of the nodes."""

    result: str
    grad: str
    nodes: frozenset[bytes]


def expanded_gradients(
    nodes: Iterable[FlatNode], constants: Mapping[str, TensorProto], opset: int
) -> list[ExpandedGradient]:
    """Return the expanded gradients among the nodes.

    `constants` are the initializers that the nodes can read; `opset` is the version of the default domain.
    """
    scopes: dict[str, list[FlatNode]] = {}
    for node in (node for node in nodes if node.outputs):
        scopes.setdefault(node.scope, []).append(node)
    found = []
    bodies = [body for name in _EXPANDED for body in own_bodies(name, opset).values()] if scopes else ()
    for body, pattern in ((each, nodes) for each in bodies for nodes in _patterns(each)):
        grad = next(operand.name for operand in OPS[body.name].inputs if operand.part is Part.GRAD)
        given = [node for node in body.node if node.op_type == "Constant"]
        numbers = {node.output[0]: onnx.numpy_helper.to_array(node.attribute[0].t) for node in given}
        for own in scopes.values():
            values = {name: value for node in own for name, value in zip(node.proto.input, node.inputs, strict=True)}
            stored = {name: constants[value] for name, value in values.items() if value in constants}
            producers = {name: node.proto for node in own for name in node.proto.output if name}
            keys = {name: node.key for node in own for name in node.proto.output}
            for node in own:
                match = Match(pattern, numbers, producers, stored)
                result = match.computes(body.output[0], node.proto.output[0])
                if result and match.bound.keys() >= set(body.input):
                    laid_onto = frozenset(keys[next(filter(None, each.output))] for each in match.nodes)
                    found.append(ExpandedGradient(node.outputs[0], values[match.bound[grad]], laid_onto))
    return found


def _patterns(body: FunctionProto) -> Iterator[Sequence[NodeProto]]:
    """Yield the nodes of a body, and those with what an export has in place of a TopK."""
    yield body.node
    for at, node in enumerate(body.node):
        if node.op_type == "TopK":
            [rewrite] = rewrites_of(node, Context(0, {}, {}))
            yield [*body.node[:at], *rewrite.nodes, *body.node[at + 1 :]]
