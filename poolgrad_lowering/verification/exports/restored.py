# SPDX-License-Identifier: Apache-2.0

"""Turns an export for CANN's graph engine back into the model's own nodes, before it is compared with the original.

Two changes of an export are undone: forms of single nodes (`forms`), and axes of values that have rank 0 in the
original (`scalar_axes`). A node is put back only if what stands in its place provably computes the same. Whatever else
differs stays, and is compared as in any lowered model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.dialect.scalars import UNSQUEEZE_SCALARS, unsqueeze_scalars_body
from poolgrad_lowering.verification.exports.forms import OWN, Context, Form, forms_of
from poolgrad_lowering.verification.exports.scalar_axes import without_axes
from poolgrad_lowering.verification.graph.matching import Match
from poolgrad_lowering.verification.graph.order import in_order
from poolgrad_lowering.verification.graph.protos import (
    constant_tensor,
    default_opset,
    nested_nodes,
    node_bytes,
    replace_entries,
    subgraphs,
)
from poolgrad_lowering.verification.graph.types import tensor_types

_ROUNDED = ("BatchNormalization",)
"""Operators with forms whose results are rounded otherwise."""


def restored(original: ModelProto, lowered: ModelProto) -> ModelProto:
    """Return the lowered model with the original's nodes where an export has forms or axes; the same object if none."""
    before = {node_bytes(node): node for node in original.graph.node}
    made = [name for node in lowered.graph.node for name in node.output if name]
    if len(set(made)) < len(made) or all(node_bytes(n) in before or n.domain == DOMAIN for n in lowered.graph.node):
        return lowered
    original = in_order(original)  # types of values are inferred in the order of the nodes
    changed = deepcopy(in_order(lowered))
    opset, types = default_opset(original), tensor_types(original)
    context = Context(opset, types, _constants(original.graph))
    nodes = _without_forms(original.graph, changed.graph, changed.graph.node, context)
    nodes = without_axes(original.graph, changed.graph, nodes, types)
    nodes = _without_forms(original.graph, changed.graph, nodes, context)
    if len(nodes) == len(lowered.graph.node) and all(map(_same, nodes, lowered.graph.node)):
        return lowered
    replace_entries(changed.graph, "node", nodes)
    if all(node.op_type != UNSQUEEZE_SCALARS for node in nodes):
        _drop_functions(changed, opset)
    _restore_declarations(original.graph, changed.graph, {name for node in lowered.graph.node for name in node.output})
    return changed


def with_rounded_forms(original: ModelProto, lowered: ModelProto) -> ModelProto:
    """Return the original with its nodes in the forms that the lowered model has, where runtimes round them otherwise.

    Both models then compute the same sums in the same order; the same object if there are none.
    """
    left = {name for node in lowered.graph.node if node.op_type in _ROUNDED for name in node.output}
    rounded = [n for n in original.graph.node if n.op_type in _ROUNDED and not left.intersection(n.output)]
    if not rounded:
        return original
    context = Context(default_opset(original), tensor_types(original), _constants(original.graph))
    changed = deepcopy(original)
    changed.graph.ClearField("node")
    for number, node in enumerate(original.graph.node):
        form = next((form for form in forms_of(node, context) if form.rounded), None) if node in rounded else None
        changed.graph.node.extend([node] if form is None else _spelled_out(form, f"rounded_{number}", changed))
    return changed


def _spelled_out(form: Form, prefix: str, model: ModelProto) -> Iterator[NodeProto]:
    """Yield the nodes of a form with names of their own, and add its constants to the model."""

    def name_of(value: str) -> str:
        return value.removeprefix(OWN) if not value or value.startswith(OWN) else f"{prefix}/{value}"

    for name, array in form.constants.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name_of(name)))
    for part in form.nodes:
        named = deepcopy(part)
        for field in (named.input, named.output):
            field[:] = list(map(name_of, field))
        yield named


def _same(one: NodeProto, other: NodeProto) -> bool:
    return node_bytes(one) == node_bytes(other)


def _constants(graph: GraphProto) -> dict[str, TensorProto]:
    """Return the initializers that no caller overrides, and the tensors of Constant nodes."""
    overridable = {value.name for value in graph.input}
    found = {tensor.name: tensor for tensor in graph.initializer if tensor.name not in overridable}
    tensors = ((node, constant_tensor(node)) for node in graph.node)
    return found | {node.output[0]: tensor for node, tensor in tensors if tensor is not None}


def _without_forms(
    original: GraphProto, lowered: GraphProto, nodes: Sequence[NodeProto], context: Context
) -> list[NodeProto]:
    """Return the nodes of the lowered graph, in order, with a node of the original in place of each form of it."""
    producers = {name: node for node in nodes for name in node.output if name}
    stored = {tensor.name: tensor for tensor in lowered.initializer}
    in_place: dict[int, NodeProto] = {}  # by the identity of a form's last node
    gone: set[int] = set()
    for node in original.node:
        found = producers.get(node.output[0]) if node.output else None
        if found is None or _same(node, found):
            continue
        _restore_subgraphs(node, found, context)
        for form in forms_of(node, context):
            matched = _match(form, node, producers, stored)
            if matched:
                in_place[id(found)] = node
                gone.update(id(each) for each in matched)
                break
    return [in_place.get(id(node), node) for node in nodes if id(node) in in_place or id(node) not in gone]


def _restore_subgraphs(node: NodeProto, found: NodeProto, context: Context) -> None:
    """Put the original's nodes back in the subgraphs of a node that both have."""
    for (_, one), (_, other) in zip(subgraphs(node), subgraphs(found), strict=False):
        inner = Context(context.opset, context.types, {**context.constants, **_constants(one)})
        before = {name for each in other.node for name in each.output}
        replace_entries(other, "node", _without_forms(one, other, other.node, inner))
        _restore_declarations(one, other, before)


def _match(
    form: Form, node: NodeProto, producers: Mapping[str, NodeProto], stored: Mapping[str, TensorProto]
) -> list[NodeProto]:
    """Return the nodes that stand for a node in this form; none if they do not."""
    match = Match(form.nodes, form.constants, producers, stored)
    match.bound.update((OWN + name, name) for name in node.input)
    return match.nodes if all(match.computes(OWN + name, name) for name in node.output if name) else []


def _drop_functions(model: ModelProto, opset: int) -> None:
    """Remove the bodies for scalars that this version makes, and the dialect's import if nothing uses it."""
    kept = [
        function
        for function in model.functions
        if (function.domain, function.name) != (DOMAIN, UNSQUEEZE_SCALARS)
        or function != unsqueeze_scalars_body(len(function.input), opset)
    ]
    replace_entries(model, "functions", kept)
    uses = {node.domain for node in model.graph.node} | {function.domain for function in kept}
    if DOMAIN not in uses:
        replace_entries(model, "opset_import", [entry for entry in model.opset_import if entry.domain != DOMAIN])


def _restore_declarations(original: GraphProto, lowered: GraphProto, before: set[str]) -> None:
    """Put back the declarations of values that have been put back, and drop initializers that were the forms'.

    `before` are the values that the lowered graph's nodes defined.
    """
    made = {name for node in lowered.node for name in node.output}
    put_back, dropped = made - before, before - made
    kept = {value.name: value for value in lowered.value_info if value.name not in dropped}
    infos = [kept.pop(value.name, value) for value in original.value_info if value.name in kept.keys() | put_back]
    infos += kept.values()
    read = {name for node in nested_nodes(lowered.node) for name in node.input}
    theirs = {tensor.name for tensor in original.initializer}
    stored = [tensor for tensor in lowered.initializer if tensor.name in theirs or tensor.name in read]
    stored += [t for t in original.initializer if t.name in read and t.name not in {each.name for each in stored}]
    replace_entries(lowered, "value_info", infos)
    replace_entries(lowered, "initializer", stored)
