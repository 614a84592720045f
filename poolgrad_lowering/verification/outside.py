# SPDX-License-Identifier: Apache-2.0

"""Compares everything in two models except nodes: it must have the same bytes in the same order, with exceptions.

A lowered model may add the import of the dialect's domain and the bodies of the operators that it uses. It may lack
initializers and value_infos of values that no node uses or defines any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from google.protobuf.message import Message
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from poolgrad_lowering.dialect import DOMAIN, VERSION
from poolgrad_lowering.dialect.ops import OPS
from poolgrad_lowering.verification.flat import Unit, function_name
from poolgrad_lowering.verification.result import Difference

_OWN_RULES = ("node", "initializer", "value_info", "opset_import", "graph", "functions")


def compare_models(original: ModelProto, lowered: ModelProto) -> list[Difference]:
    """Return the differences in the fields of the models, their imports, and the names of their functions."""
    found = _other_fields("model", original, lowered)
    found += _imports("model", original.opset_import, lowered.opset_import, _all_nodes(lowered))
    before, after = ([function_name(f) for f in model.functions] for model in (original, lowered))
    found += [Difference("model", f"{name} is gone") for name in before if name not in after]
    if [name for name in after if name in before] != [name for name in before if name in after]:
        found.append(Difference("model", "the functions are in another order"))
    called = {(node.domain, node.op_type) for node in _all_nodes(lowered)}
    for function in lowered.functions:
        if function_name(function) in before:
            continue
        if function.domain != DOMAIN or function.name not in OPS:
            found.append(Difference("model", f"{function_name(function)} is new and not an operator of the dialect"))
        elif (function.domain, function.name) not in called:
            found.append(Difference("model", f"{function_name(function)} is new and nothing calls it"))
    return found


def compare_units(original: Unit, lowered: Unit) -> list[Difference]:
    """Return the differences in the fields, initializers and value_infos of two units' scopes."""
    read, made = (_used(original), _used(lowered)), (_defined(original), _defined(lowered))
    found: list[Difference] = []
    for path, before in original.scopes.items():
        after = lowered.scopes.get(path)
        if after is None:
            continue  # the node that contains it was removed, and is in a region
        prefix = "" if path == original.name else f"{path}: "
        found += _other_fields(path, before, after)
        found += _entries(path, "value_info", (before.value_info, after.value_info), prefix, made)
        if isinstance(before, GraphProto) and isinstance(after, GraphProto):
            found += _entries(path, "initializer", (before.initializer, after.initializer), prefix, read)
        elif isinstance(before, FunctionProto) and isinstance(after, FunctionProto):
            nodes = (node.proto for node in lowered.nodes)
            found += _imports(path, before.opset_import, after.opset_import, nodes)
    return found


def _used(unit: Unit) -> set[str]:
    return {value for node in unit.nodes for value in (*node.inputs, *node.captured)} | unit.results


def _defined(unit: Unit) -> set[str]:
    return {value for node in unit.nodes for value in node.outputs} | unit.inputs | unit.constants.keys()


def new_names(original: Unit, lowered: Unit) -> list[Difference]:
    """Return a difference for each new value whose name the original uses in any scope, where it could shadow."""
    names = {name for node in original.nodes for name in (*node.proto.input, *node.proto.output)}
    known = {value for node in original.nodes for value in node.outputs}
    return [
        Difference(lowered.name, f"the new value '{value}' has the name of another one")
        for node in lowered.nodes
        for value, name in zip(node.outputs, node.proto.output, strict=True)
        if value not in known and value and name in names
    ]


def _other_fields(where: str, before: Message, after: Message) -> list[Difference]:
    """Return the differences in fields that must keep their bytes."""
    first, second = _without_own_rules(before), _without_own_rules(after)
    if first.SerializeToString(deterministic=True) == second.SerializeToString(deterministic=True):
        return []
    fields = {field.name for message in (first, second) for field, _ in message.ListFields()}
    differing = sorted(name for name in fields if _field(first, name) != _field(second, name))
    return [Difference(where, f"field '{name}' differs") for name in differing or ["(unknown)"]]


def _field(message: Message, name: str) -> list[Any]:
    """Return the bytes of a field's entries, or its value."""
    value = getattr(message, name)
    if isinstance(value, Message):
        return [value.SerializeToString(deterministic=True)]
    if isinstance(value, (str, bytes, int, float)):
        return [value]
    return [entry.SerializeToString(deterministic=True) if isinstance(entry, Message) else entry for entry in value]


def _without_own_rules(message: Message) -> Message:
    bare = type(message)()
    bare.CopyFrom(message)
    names = {field.name for field in message.DESCRIPTOR.fields}
    for name in _OWN_RULES:
        if name in names:
            bare.ClearField(name)
    return bare


def _imports(where: str, before: Sequence[Any], after: Sequence[Any], nodes: Iterable[NodeProto]) -> list[Difference]:
    """Compare imports: only the dialect's may be new, as the last one, if a node needs it."""
    expected, found = ([(entry.domain, entry.version) for entry in entries] for entries in (before, after))
    imported = any(domain == DOMAIN for domain, _ in expected)
    if not imported and any(node.domain == DOMAIN for node in nodes):
        expected.append((DOMAIN, VERSION))
    if found == expected:
        return []
    return [Difference(where, f"the imported operator sets are {found}, not {expected}")]


def _entries(
    where: str, kind: str, entries: tuple[Sequence[Any], Sequence[Any]], prefix: str, needed: tuple[set[str], set[str]]
) -> list[Difference]:
    """Compare named entries: they keep bytes and order; only entries of values without uses may be removed."""
    first, second = ({entry.name: entry.SerializeToString(deterministic=True) for entry in e} for e in entries)
    what = [f"'{name}' is new" for name in second if name not in first]
    what += [f"'{name}' is changed" for name in second if first.get(name, second[name]) != second[name]]
    for name in first:
        gone = prefix + name in needed[0] - needed[1]
        if name not in second and not gone:
            what.append(f"'{name}' is gone")
        elif name in second and gone and kind == "value_info":
            what.append(f"'{name}' describes a value that was removed")
    if [name for name in first if name in second] != [name for name in second if name in first]:
        what.append("entries are in another order")
    return [Difference(where, f"{kind} {each}") for each in what]


def _all_nodes(model: ModelProto) -> Iterator[NodeProto]:
    pending: list[Iterable[NodeProto]] = [model.graph.node, *(function.node for function in model.functions)]
    while pending:
        for node in pending.pop():
            yield node
            pending += [graph.node for attribute in node.attribute for graph in (attribute.g, *attribute.graphs)]
