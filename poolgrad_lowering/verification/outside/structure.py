# SPDX-License-Identifier: Apache-2.0

"""Compares the structure of two models: finds forbidden differences, and the sites that have to be run."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import NamedTuple

from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto, ValueInfoProto

from poolgrad_lowering.dialect import DOMAIN, OPS
from poolgrad_lowering.model.ir.graphs import all_nodes, subgraphs
from poolgrad_lowering.verification.graph import flat, roles
from poolgrad_lowering.verification.graph.protos import default_opset, in_order, replace_entries
from poolgrad_lowering.verification.graph.types import TensorType, function_types, tensor_types, value_info
from poolgrad_lowering.verification.outside.fields import compare_models, compare_units, new_names
from poolgrad_lowering.verification.result import Difference
from poolgrad_lowering.verification.sites.declared import expanded_gradients, node_flaw
from poolgrad_lowering.verification.sites.regions import ChangedRegion, split

Pair = tuple[ModelProto, ModelProto]


class Obligation(NamedTuple):
    """A site with the models that have it in the main graph, their flat graphs, and the types of values."""

    models: Pair
    units: tuple[flat.Unit, flat.Unit]
    region: ChangedRegion
    types: dict[str, TensorType]


def compare_structure(models: Pair) -> tuple[list[Difference], list[Obligation]]:
    """Return the differences outside the sites, and the sites as cases.

    A site in a function is one case for each call with different types or attributes, without a call a difference.
    """
    differences = compare_models(*models)
    given, models = models, (in_order(models[0]), in_order(models[1]))
    ordered = all(map(operator.is_, given, models))
    found, cases = _cases(models, tensor_types, ordered=ordered)
    differences += found
    theirs = {flat.function_name(function): function for function in models[1].functions}
    for function in models[0].functions:
        name = flat.function_name(function)
        if name not in theirs:
            continue
        functions = function, theirs[name]
        before, after = map(flat.function_unit, functions)
        _, found, sites = _compared(before, after, default_opset(functions[1]), ordered=ordered)
        differences += found
        calls = list(calls_of(models, functions)) if sites else []
        in_calls = (case for pair in calls for case in _cases(pair, function_types, ordered=False)[1])
        cases += [case._replace(region=case.region._replace(unit=name)) for case in in_calls]
        if sites and not calls:
            differences.append(Difference(name, "differs, and the main graph does not call it: it cannot run"))
    return differences, cases


def _cases(
    models: Pair, types_of: Callable[[ModelProto, flat.Unit], dict[str, TensorType]], *, ordered: bool
) -> tuple[list[Difference], list[Obligation]]:
    """Return the differences of main graphs outside the sites, and the sites."""
    before, after = map(flat.main_unit, models)
    units, found, sites = _compared(before, after, default_opset(models[1]), ordered=ordered)
    types = types_of(models[0], before) if sites else {}
    return found, [Obligation(models, units, region, types) for region in sites]


def _compared(
    before: flat.Unit, after: flat.Unit, opset: int, *, ordered: bool
) -> tuple[tuple[flat.Unit, flat.Unit], list[Difference], list[ChangedRegion]]:
    """Return two units as they are compared, their differences outside of the sites, and the sites."""
    units = replace(before, nodes=[_like_one_of(after, node) for node in before.nodes]), after
    regions, found = split(*units, ordered=ordered)
    found += [*compare_units(*units), *new_names(*units)]
    sites = []
    for region in regions:
        expanded = expanded_gradients(region.added, units[1].constants, opset)
        if expanded or any(map(roles.is_dialect, region.added)):
            sites.append(region._replace(expanded=tuple(expanded)))
        else:
            counts = f"{len(region.removed)} removed and {len(region.added)} added nodes"
            what = f"{counts} at '{region.name}' differ, without a node of the dialect"
            found.append(Difference(region.unit, what))
    return units, found + _flawed(sites, units[1]), sites


def mistaken(original: ModelProto, lowered: ModelProto) -> list[Difference]:
    """Return a difference if the two models were exchanged, or the second one is not the first one lowered.

    Models are exchanged if only the first one has nodes of the dialect; a lowered model has the original's outputs.
    """
    first, second = (
        any(node.domain == DOMAIN and node.op_type in OPS for node in all_nodes(model)) for model in (original, lowered)
    )
    if first and not second:
        what = f"the first model has nodes of domain {DOMAIN}, the second one has none: they are exchanged"
        return [Difference("models", f"{what}, the original is given first")]
    missing = {value.name for value in original.graph.output}.difference(value.name for value in lowered.graph.output)
    if not missing:
        return []
    what = f"output '{min(missing)}' of the first model is none of the second one"
    return [Difference("models", f"{what}: it is not the first one lowered")]


def _flawed(sites: Iterable[ChangedRegion], lowered: flat.Unit) -> list[Difference]:
    """Return a difference for each new node that is not as its operator declares it, or that nothing reads."""
    found = []
    for region in sites:
        for node in region.added:
            flaw = node_flaw(node) if roles.is_dialect(node) else None
            if flaw is None and not any(value in lowered.read or value in region.outputs for value in node.outputs):
                flaw = "nothing reads its outputs"
            if flaw is not None:
                found.append(Difference(region.unit, f"node '{node.label}' ({node.op[1]}): {flaw}"))
    return found


_REQUIRED_OUTPUTS = {"Dropout": 1, "MaxPool": 1}
"""Operators whose outputs do not depend on which further outputs a node has. (Those of BatchNormalization do.)"""


def _like_one_of(lowered: flat.Unit, node: flat.FlatNode) -> flat.FlatNode:
    """Return the node, with the key of one of `lowered` that only lacks outputs that nobody reads."""
    required = _REQUIRED_OUTPUTS.get(node.op[1], len(node.outputs)) if node.op[0] == "" else len(node.outputs)
    if node.key in lowered.order or not any(node.outputs[required:]):
        return node
    key = flat.node_key(_without_unread(node, lowered.read, required), node.scope)
    return node._replace(key=key) if key in lowered.order else node


def _without_unread(node: flat.FlatNode, read: Collection[str], required: int) -> NodeProto:
    """Return the node without the names of outputs after the first `required` ones that are not in `read`."""
    proto = deepcopy(node.proto)
    for position in range(required, len(proto.output)):
        if node.outputs[position] not in read:
            proto.output[position] = ""
    while len(proto.output) > required and not proto.output[-1]:
        del proto.output[-1]
    return proto


def calls_of(models: Pair, functions: tuple[FunctionProto, FunctionProto]) -> Iterator[Pair]:
    """Yield a function of both models as main graphs, once for each call with different types or attributes.

    Only calls in the original's main graph and its subgraphs count, not those in other functions.
    """
    unit = flat.main_unit(models[0])
    known = tensor_types(models[0], unit)
    seen = set()
    for node in unit.nodes:
        if flat.called_name(node.proto) != flat.function_name(functions[0]):
            continue
        values = [*node.inputs, *[""] * max(len(function.input) for function in functions)]  # a call may omit inputs
        pair = []
        for model, function in zip(models, functions, strict=True):
            inputs = [value_info(name, known.get(value)) for name, value in zip(function.input, values, strict=False)]
            pair.append(_as_graph(model, function, node, inputs))
        key = pair[0].SerializeToString(deterministic=True)
        if key not in seen:
            seen.add(key)
            yield pair[0], pair[1]


def _as_graph(
    model: ModelProto, function: FunctionProto, call: flat.FlatNode, inputs: Sequence[ValueInfoProto]
) -> ModelProto:
    made = ModelProto(ir_version=model.ir_version)
    made.opset_import.extend(function.opset_import)
    made.functions.extend(model.functions)
    made.graph.name = function.name
    made.graph.input.extend(inputs)
    made.graph.output.extend(value_info(name, None) for name in function.output)
    made.graph.value_info.extend(function.value_info)
    made.graph.node.extend(function.node)
    given = {attribute.name: attribute for attribute in (*function.attribute_proto, *call.proto.attribute)}
    for node in made.graph.node:
        _give_attributes(node, given)
    return made


def _give_attributes(node: NodeProto, given: Mapping[str, AttributeProto]) -> None:
    """Resolve the attribute references of a node and of its subgraphs; references without a value are removed."""
    resolved = []
    for attribute in node.attribute:
        source = given.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if source is not None:
            resolved.append(deepcopy(source))
            resolved[-1].name = attribute.name
    replace_entries(node, "attribute", resolved)
    for _, graph in subgraphs(node.attribute):
        for inner in graph.node:
            _give_attributes(inner, given)
