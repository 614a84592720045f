# SPDX-License-Identifier: Apache-2.0

"""Puts the original's nodes back where an export has written them otherwise, before the models are compared.

An export for CANN's graph engine rewrites single nodes (`rewrites`), and gives values of rank 0 an axis
(`scalar_axes`). Such a node is put back only if what stands in its place provably computes the same. Whatever else
differs stays, and is compared as in any lowered model.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from copy import deepcopy
from operator import itemgetter

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.dialect.scalars import UNSQUEEZE_SCALARS, unsqueeze_scalars_body
from poolgrad_lowering.model.ir.graphs import subgraphs, with_inner
from poolgrad_lowering.model.ir.tensors import constant_tensor
from poolgrad_lowering.verification.exports.gathered_pools import find_planes
from poolgrad_lowering.verification.exports.node_rewrite import INNER, Context, NodeRewrite
from poolgrad_lowering.verification.exports.rewrites import rewrites_of
from poolgrad_lowering.verification.exports.scalar_axes import AxisRemoval
from poolgrad_lowering.verification.graph import protos
from poolgrad_lowering.verification.graph.matching import Match
from poolgrad_lowering.verification.graph.types import TensorTypes, rank_of, tensor_types

_ROUNDED = ("AveragePool", "BatchNormalization", "Dropout", "ReduceL1", "ReduceLogSum")
"""Operators with rewrites whose results are rounded otherwise, or have other random numbers."""
_VIEWS = ("Expand", "Reshape", "Squeeze", "Unsqueeze")


def restored(original: ModelProto, lowered: ModelProto) -> ModelProto:
    """Return the lowered model with the original's nodes where an export has others; the same object if none.

    A model that stores what the original computes is no export.
    """
    computed = {name for node in original.graph.node if constant_tensor(node) is None for name in node.output}
    before = set(map(protos.node_bytes, original.graph.node))
    made = [name for node in lowered.graph.node for name in node.output if name]
    is_lowered = all(protos.node_bytes(node) in before or node.domain == DOMAIN for node in lowered.graph.node)
    if is_lowered or len(set(made)) < len(made) or any(each.name in computed for each in lowered.graph.initializer):
        return lowered
    original = protos.in_order(original)  # types of values are inferred in the order of the nodes
    changed = deepcopy(protos.in_order(lowered))
    opset, types = protos.default_opset(original), tensor_types(original)
    inputs = [value.name for value in original.graph.input]
    constants = _constants(original.graph)
    planes = find_planes(original.graph, types, constants)
    context = Context(opset, types, constants, inputs, _measured(original.graph, types), planes)
    put_back = set[str]()
    nodes = _without_rewrites(original.graph, changed.graph, changed.graph.node, context, put_back)
    spelled = _with_scalars_spelled_out(original, nodes, context)
    known = types if spelled is original else tensor_types(spelled)
    own, theirs = ({name for node in model.graph.node for name in node.output} for model in (original, spelled))
    nodes = AxisRemoval(spelled.graph, changed.graph, nodes, known, theirs - own).restored()
    nodes = _without_rewrites(original.graph, changed.graph, nodes, context, put_back)
    nodes = _with_sources(original.graph, nodes, _unmade(lowered.graph.node))
    scalars = [name for node in lowered.graph.node if node.op_type == UNSQUEEZE_SCALARS for name in node.input]
    nodes = _in_order_of(original.graph, nodes, scalars)
    if len(nodes) == len(lowered.graph.node) and all(map(_same, nodes, lowered.graph.node)):
        return lowered
    protos.replace_entries(changed.graph, "node", nodes)
    if all(node.op_type != UNSQUEEZE_SCALARS for node in nodes):
        _drop_functions(changed, opset)
    _restore_declarations(original.graph, changed.graph, {name for node in lowered.graph.node for name in node.output})
    return protos.in_order(changed)


def with_rounded_rewrites(original: ModelProto, lowered: ModelProto) -> ModelProto:
    """Return the original with the rewrites that the lowered model has, where runtimes round them otherwise.

    Both models then compute the same sums in the same order; the same object if there are none.
    """
    left = {name for node in lowered.graph.node if node.op_type in _ROUNDED for name in node.output}
    context = Context(protos.default_opset(original), tensor_types(original), _constants(original.graph))

    def rounded(node: NodeProto) -> NodeRewrite | None:
        if node.op_type not in _ROUNDED or not left.isdisjoint(node.output):
            return None
        return next((one for one in rewrites_of(node, context) if one.rounded), None)

    return _spelled_out(original, rounded, lowered)


def _with_scalars_spelled_out(original: ModelProto, nodes: Sequence[NodeProto], context: Context) -> ModelProto:
    """Return the original with rewrites of the nodes of rank 0 that are not put back; the same object if none.

    What a rewrite computes in between has one axis too in an export for graph mode.
    """
    there = {protos.node_bytes(node) for node in nodes}
    made = {name for node in nodes for name in node.output}

    def of_scalars(node: NodeProto) -> NodeRewrite | None:
        is_scalar = all(rank_of(name, context.types) == 0 for name in node.output)
        if not is_scalar or node.op_type in _VIEWS or made.isdisjoint(node.output) or protos.node_bytes(node) in there:
            return None
        return next(rewrites_of(node, context), None)

    return _spelled_out(original, of_scalars, original)


def _spelled_out(
    original: ModelProto, rewrite_of: Callable[[NodeProto], NodeRewrite | None], lowered: ModelProto
) -> ModelProto:
    """Return the original with rewrites in place of nodes; random numbers in them are those of the lowered model."""
    rewrites = {at: found for at, node in enumerate(original.graph.node) if (found := rewrite_of(node)) is not None}
    if not rewrites:
        return original
    producers = {name: node for node in lowered.graph.node for name in node.output if name}
    changed = deepcopy(original)
    changed.graph.ClearField("node")
    for at, node in enumerate(original.graph.node):
        if (rewrite := rewrites.get(at)) is None:
            changed.graph.node.append(node)
        else:
            drawn = {each.output[0]: _drawn_for(node, producers) for each in rewrite.nodes if _draws(each)}
            changed.graph.node.extend(_named(rewrite, f"rewritten_{at}", changed, drawn))
    return changed


def _draws(node: NodeProto) -> bool:
    return node.op_type == "RandomUniformLike"


def _drawn_for(node: NodeProto, producers: Mapping[str, NodeProto]) -> str:
    """Return the random numbers that the lowered model computes the result of a node from, "" if from none.

    Numbers of one name are the same ones.
    """
    names = [*node.output[:1]]
    for name in names:
        found = producers.get(name)
        if found is not None and _draws(found):
            return name
        names += [] if found is None or name in node.input else [each for each in found.input if each not in names]
    return ""


def _named(rewrite: NodeRewrite, prefix: str, model: ModelProto, names: Mapping[str, str]) -> Iterator[NodeProto]:
    """Yield the nodes of a rewrite with these names or others of their own, and add its constants to the model."""

    def name_of(value: str) -> str:
        own = f"{prefix}/{value.removeprefix(INNER)}" if value.startswith(INNER) else value
        return names.get(value) or own

    for name, array in rewrite.constants.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name_of(name)))
    for part in rewrite.nodes:
        named = deepcopy(part)
        for field in (named.input, named.output):
            field[:] = list(map(name_of, field))
        yield named


def _same(one: NodeProto, other: NodeProto) -> bool:
    return protos.node_bytes(one) == protos.node_bytes(other)


def _constants(graph: GraphProto) -> dict[str, TensorProto]:
    """Return the initializers that no caller overrides, the tensors of Constant nodes, and vectors with other signs."""
    overridable = {value.name for value in graph.input}
    found = {tensor.name: tensor for tensor in graph.initializer if tensor.name not in overridable}
    for node in graph.node:
        tensor = constant_tensor(node)
        if node.op_type == "Neg" and not node.domain and (numbers := protos.integers(found.get(node.input[0]))):
            tensor = numpy_helper.from_array(-np.array(numbers))
        if tensor is not None:
            found[node.output[0]] = tensor
    return found


def _measured(graph: GraphProto, types: TensorTypes) -> dict[str, str]:
    """Return the values whose whole shapes are computed, by the shapes."""
    nodes = [node for node in graph.node if node.op_type == "Shape" and not node.domain and node.input]
    whole = [node for node in nodes if not any(each.name == "end" or each.i for each in node.attribute)]
    return {node.output[0]: node.input[0] for node in whole if node.input[0] in types}


def _without_rewrites(
    original: GraphProto, lowered: GraphProto, nodes: Sequence[NodeProto], context: Context, put_back: set[str]
) -> list[NodeProto]:
    """Return the nodes of the lowered graph, in order, with a node of the original in place of each rewrite of it.

    What these nodes compute is added to `put_back`.
    """
    producers = {name: node for node in nodes for name in node.output if name}
    stored = {tensor.name: tensor for tensor in lowered.initializer}
    in_place: dict[int, NodeProto] = {}  # by the identity of a rewrite's last node
    gone: set[int] = set()
    for node in original.node:
        found = next((producers[name] for name in node.output if name in producers), None)
        if found is None or _same(node, found):
            continue
        _restore_subgraphs(node, found, context)
        shown = (
            _without_indices(node) if node.op_type == found.op_type == "MaxPool" and len(found.output) == 1 else node
        )
        for rewrite in rewrites_of(shown, context):
            if matched := _match(rewrite, shown, producers, stored):
                in_place[id(found)] = node
                gone.update(id(each) for each in matched)
                break
    put_back.update(name for node in in_place.values() for name in node.output if name)
    needed = {name for node in nodes if id(node) not in gone for name in node.input} - put_back
    for node in reversed(nodes):  # several rewrites may share zeros
        if id(node) in gone and id(node) not in in_place and not needed.isdisjoint(node.output):
            gone.remove(id(node))
            needed.update(node.input)
    return [in_place.get(id(node), node) for node in nodes if id(node) in in_place or id(node) not in gone]


def _without_indices(pool: NodeProto) -> NodeProto:
    """Return a MaxPool without the Indices that nothing reads, as in an export."""
    shown = deepcopy(pool)
    del shown.output[1:]
    return shown


def _unmade(nodes: Collection[NodeProto]) -> set[str]:
    """Return the names that nodes read and none of them makes."""
    return {name for node in nodes for name in node.input} - {name for node in nodes for name in node.output}


def _with_sources(original: GraphProto, nodes: Sequence[NodeProto], unmade: Set[str]) -> list[NodeProto]:
    """Return the nodes with those of the original, in its order, that nodes which were put back need and no others.

    What was `unmade` in the lowered model stays so.
    """
    made = {name for node in nodes for name in node.output}
    place = {name: at for at, node in enumerate(original.node) for name in node.output if name}
    pending = [name for node in nodes for name in node.input if name not in unmade]
    missing: set[int] = set()
    while pending:
        if (name := pending.pop()) in place and name not in made:
            missing.add(place[name])
            made.update(original.node[place[name]].output)
            pending += original.node[place[name]].input
    waiting, found = sorted(missing, reverse=True), list[NodeProto]()
    for node in nodes:
        while waiting and waiting[-1] < max((place.get(name, -1) for name in node.output), default=-1):
            found.append(original.node[waiting.pop()])
        found.append(node)
    return found + [original.node[at] for at in reversed(waiting)]


def _in_order_of(original: GraphProto, nodes: Sequence[NodeProto], scalars: Collection[str]) -> list[NodeProto]:
    """Return the nodes with those that need one of the scalars between the others, as they are in the original.

    An export has them behind all others. Where either have not the order of the original, the nodes stay as they are.
    """
    place = {name: at for at, node in enumerate(original.node) for name in node.output if name}
    reached = set(scalars)
    parts: tuple[list[tuple[int, NodeProto]], ...] = ([], [])
    for node in nodes:
        needs = any(name in reached for each in with_inner([node]) for name in each.input)
        reached.update(node.output if needs else ())
        part, places = parts[needs], [place[name] for name in node.output if name in place]
        behind = part[-1][0] if part else -1  # where a node is that the original has not
        part.append((max(places, default=behind), node))
    if any(part != sorted(part, key=itemgetter(0)) for part in parts):
        return list(nodes)
    return [node for _, node in heapq.merge(*parts, key=itemgetter(0))]


def _restore_subgraphs(node: NodeProto, found: NodeProto, context: Context) -> None:
    """Put the original's nodes back in the subgraphs of a node that both have."""
    for (_, one), (_, other) in zip(subgraphs(node.attribute), subgraphs(found.attribute), strict=False):
        inner = Context(context.opset, context.types, {**context.constants, **_constants(one)})
        before = {name for each in other.node for name in each.output}
        put_back, unmade = set[str](), _unmade(other.node)
        nodes = _without_rewrites(one, other, other.node, inner, put_back)
        protos.replace_entries(other, "node", _with_sources(one, nodes, unmade))
        _restore_declarations(one, other, before)


def _match(
    rewrite: NodeRewrite, node: NodeProto, producers: Mapping[str, NodeProto], stored: Mapping[str, TensorProto]
) -> list[NodeProto]:
    """Return the nodes that stand for a node in this rewrite; none if they do not."""
    match = Match(rewrite.nodes, rewrite.constants, producers, stored)
    match.bound.update((name, name) for name in (*node.input, *rewrite.reads))
    results = [name for name in node.output if name in producers]
    return match.nodes if results and all(match.computes(name, name) for name in results) else []


def _drop_functions(model: ModelProto, opset: int) -> None:
    """Remove the bodies for scalars that this version makes, and the dialect's import if nothing uses it."""
    kept = [
        function
        for function in model.functions
        if (function.domain, function.name) != (DOMAIN, UNSQUEEZE_SCALARS)
        or function != unsqueeze_scalars_body(len(function.input), opset)
    ]
    protos.replace_entries(model, "functions", kept)
    uses = {node.domain for node in model.graph.node} | {function.domain for function in kept}
    if DOMAIN not in uses:
        protos.replace_entries(model, "opset_import", [entry for entry in model.opset_import if entry.domain != DOMAIN])


def _restore_declarations(original: GraphProto, lowered: GraphProto, before: set[str]) -> None:
    """Put back the declarations of values that have been put back, and drop initializers that were the rewrites'.

    `before` are the values that the lowered graph's nodes defined.
    """
    stored = {tensor.name for tensor in lowered.initializer}
    protos.restore_initializers(original, lowered)
    made = {name for node in lowered.node for name in node.output}
    put_back = (made - before) | ({tensor.name for tensor in lowered.initializer} - stored)
    dropped = before - made
    kept = {value.name: value for value in lowered.value_info if value.name not in dropped}
    infos = [kept.pop(value.name, value) for value in original.value_info if value.name in kept.keys() | put_back]
    infos += kept.values()
    protos.replace_entries(lowered, "value_info", infos)
