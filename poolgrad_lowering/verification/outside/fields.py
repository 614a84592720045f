# SPDX-License-Identifier: Apache-2.0

"""Compares everything in two models except nodes: it must have the same bytes in the same order, with exceptions.

A lowered model may add the import of the dialect's domain, the bodies of the operators that it uses, and initializers
that its new nodes read. It may lack initializers, functions and imports that nothing in it uses, and value_infos of
values that it does not define.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from copy import deepcopy
from typing import Any

import onnx
from google.protobuf.message import Message
from onnx import FunctionProto, GraphProto, ModelProto, TensorProto, ValueInfoProto

from poolgrad_lowering.dialect import DOMAIN, VERSION
from poolgrad_lowering.dialect.ops import OPS
from poolgrad_lowering.model.ir.graphs import all_nodes, domains_used
from poolgrad_lowering.verification.graph.flat import MAIN, Unit, called_name, function_name
from poolgrad_lowering.verification.graph.protos import replace_entries
from poolgrad_lowering.verification.result import Difference

_OWN_RULES = ("node", "initializer", "value_info", "opset_import", "graph", "functions")


def compare_models(original: ModelProto, lowered: ModelProto) -> list[Difference]:
    """Return the differences in the fields of the models, their imports, and the names of their functions."""
    domains = domains_used(lowered)
    domains |= {""} if "ai.onnx" in domains else set()
    found = _other_fields("model", original, lowered)
    imports = original.opset_import, lowered.opset_import
    found += _imports("model", *imports, domains, uses_dialect=DOMAIN in domains_used(original))
    found += compare_inputs(original, lowered)
    before, after = ([function_name(f) for f in model.functions] for model in (original, lowered))
    called = set(map(called_name, all_nodes(lowered)))
    both = set(before).intersection(after)
    found += [Difference("model", f"{name} is gone") for name in before if name not in both and name in called]
    found += [Difference("model", f"{name} is defined twice") for name in sorted(_repeated(after))]
    if [name for name in after if name in both] != [name for name in before if name in both]:
        found.append(Difference("model", "the functions are in another order"))
    for function in lowered.functions:
        if function_name(function) in both:
            continue
        if function.domain != DOMAIN or function.name not in OPS:
            found.append(Difference("model", f"{function_name(function)} is new and not an operator of the dialect"))
        elif function_name(function) not in called:
            found.append(Difference("model", f"{function_name(function)} is new and nothing calls it"))
    return found


def compare_units(original: Unit, lowered: Unit) -> list[Difference]:
    """Return the differences in the fields, initializers and value_infos of two units' scopes."""
    found: list[Difference] = []
    gone = original.defined - lowered.defined
    made = {name for node in lowered.nodes if node.op[0] == DOMAIN for name in node.proto.output}
    for path, before in original.scopes.items():
        if (after := lowered.scopes.get(path)) is None:
            continue  # the node that contains it was removed, and is in a region
        prefix = "" if path == original.name else f"{path}: "
        found += _other_fields(path, before, after, ("input",) if path == MAIN else ())
        removed = {value.name for value in before.value_info if prefix + value.name in gone}
        infos = before.value_info, after.value_info
        found += _entries(path, "value_info", *infos, may_go=removed, must_go=removed, may_come=made)
        if isinstance(before, GraphProto) and isinstance(after, GraphProto):
            found += _initializers(path, before, after, prefix, (original, lowered))
        elif isinstance(before, FunctionProto) and isinstance(after, FunctionProto):
            domains, own = ({node.op[0] for node in unit.nodes} for unit in (lowered, original))
            found += _imports(path, before.opset_import, after.opset_import, domains, uses_dialect=DOMAIN in own)
    return found


def _initializers(
    path: str, before: GraphProto, after: GraphProto, prefix: str, units: tuple[Unit, Unit]
) -> list[Difference]:
    fed = initializers_as_inputs(before, after) if path == MAIN else {}
    unread = {tensor.name for tensor in before.initializer if prefix + tensor.name not in units[1].read}
    read = {tensor.name for tensor in after.initializer if prefix + tensor.name in units[1].read}
    lists = before.initializer, after.initializer
    return _entries(path, "initializer", *lists, may_go=unread | fed.keys(), may_come=read - units[0].names)


def new_names(original: Unit, lowered: Unit) -> list[Difference]:
    """Return a difference for each new value whose name the original uses in any scope, where it could shadow."""
    known = {value for node in original.nodes for value in node.outputs}
    return [
        Difference(lowered.name, f"the new value '{value}' has the name of another one")
        for node in lowered.nodes
        for value, name in zip(node.outputs, node.proto.output, strict=True)
        if value not in known and value and name in original.names
    ]


def _other_fields(where: str, before: Message, after: Message, but: Sequence[str] = ()) -> list[Difference]:
    """Return the differences in fields that must keep their bytes, except fields with rules of their own and `but`."""
    first, second = (_without(message, (*_OWN_RULES, *but)) for message in (before, after))
    if first.SerializeToString(deterministic=True) == second.SerializeToString(deterministic=True):
        return []
    fields = {field.name for message in (first, second) for field, _ in message.ListFields()}
    differing = sorted(name for name in fields if _field(first, name) != _field(second, name))
    return [Difference(where, f"field '{name}' differs") for name in differing or ["(unknown)"]]


def _field(message: Message, name: str) -> bytes:
    return type(message)(**{name: getattr(message, name)}).SerializeToString(deterministic=True)


def _without(message: Message, fields: Sequence[str]) -> Message:
    bare = deepcopy(message)
    for name in set(fields).intersection(message.DESCRIPTOR.fields_by_name):
        bare.ClearField(name)
    return bare


def _imports(
    where: str, before: Sequence[Any], after: Sequence[Any], domains: Collection[str], *, uses_dialect: bool
) -> list[Difference]:
    """Compare imports: the dialect's may be new, as the last one; imports that nothing uses may go.

    The dialect's may also be new without a use: a tool that inlines its function bodies leaves the import. It may get
    its version if the original does not use it (`uses_dialect`): onnxruntime writes imports of all domains that a
    process has registered, with the version 1000.
    `domains` are those of the lowered model's nodes and functions.
    """
    expected, found = ([(entry.domain, entry.version) for entry in entries] for entries in (before, after))
    if not uses_dialect and (DOMAIN, VERSION) in found:
        expected = [(domain, VERSION if domain == DOMAIN else version) for domain, version in expected]
    imported = any(domain == DOMAIN for domain, _ in expected)
    if not imported and (DOMAIN in domains or (DOMAIN, VERSION) in found):
        expected.append((DOMAIN, VERSION))
    if found == [entry for entry in expected if entry in found or entry[0] in domains]:
        return []
    return [Difference(where, f"the imported operator sets are {found}, not {expected}")]


def _entries(
    where: str,
    kind: str,
    before: Sequence[Any],
    after: Sequence[Any],
    *,
    may_go: Collection[str] = (),
    must_go: Collection[str] = (),
    may_come: Collection[str] = (),
) -> list[Difference]:
    """Compare named entries of one field, which keep their bytes and their order.

    `may_go`, `must_go` and `may_come` are the names that need not be in both models.
    """
    first, second = _by_name(before), _by_name(after)
    twice = _repeated([entry.name for entry in after]) - _repeated([entry.name for entry in before])
    what = [f"'{name}' is there twice" for name in sorted(twice)]
    what += [f"'{name}' is new" for name in second if name not in first and name not in may_come]
    what += [f"'{name}' is changed" for name in second if first.get(name, second[name]) != second[name]]
    what += [f"'{name}' is gone" for name in first if name not in second and name not in may_go]
    what += [f"'{name}' describes a value that was removed" for name in second if name in must_go]
    if [name for name in first if name in second] != [name for name in second if name in first]:
        what.append("entries are in another order")
    return [Difference(where, f"{kind} {each}") for each in what]


def _by_name(entries: Sequence[Any]) -> dict[str, bytes]:
    return {entry.name: entry.SerializeToString(deterministic=True) for entry in entries}


def _repeated(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


def initializers_as_inputs(original: GraphProto, lowered: GraphProto) -> dict[str, TensorProto]:
    """Return the initializers of the original without a value in the lowered model that are inputs there, by name.

    They are weights that are to be trained. They are compared, and fed, with the values that the original has.
    """
    valued = {tensor.name for tensor in lowered.initializer}
    inputs = {value.name for value in lowered.input}
    return {tensor.name: tensor for tensor in original.initializer if tensor.name in inputs - valued}


def compare_inputs(original: ModelProto, lowered: ModelProto) -> list[Difference]:
    """Return the differences in the inputs of the main graphs: new ones have the type of an initializer."""
    weights = initializers_as_inputs(original.graph, lowered.graph)
    known = {value.name for value in original.graph.input}
    kept = [value for value in lowered.graph.input if value.name in known or value.name not in weights]
    found = [
        Difference("main", f"input '{value.name}' has another type than the initializer whose place it takes")
        for value in lowered.graph.input
        if value.name in weights and value.name not in known and value != _declared(weights[value.name])
    ]
    names = [value.name for value in lowered.graph.input]
    if len(set(names)) < len(names) or kept != list(original.graph.input):
        found.append(Difference("main", "field 'input' differs"))
    return found


def with_inputs_of(lowered: ModelProto, original: ModelProto) -> ModelProto:
    """Return the original with the same initializers as inputs, so that runtimes optimise both alike."""
    if not (weights := initializers_as_inputs(original.graph, lowered.graph)):
        return original
    changed = deepcopy(original)
    replace_entries(changed.graph, "initializer", [t for t in original.graph.initializer if t.name not in weights])
    declared = {value.name for value in original.graph.input}
    changed.graph.input.extend(_declared(tensor) for name, tensor in weights.items() if name not in declared)
    return changed


def _declared(tensor: TensorProto) -> ValueInfoProto:
    return onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
