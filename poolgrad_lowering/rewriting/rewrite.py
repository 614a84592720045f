# SPDX-License-Identifier: Apache-2.0

"""The rewrite: replaces each gradient by nodes of the dialect, and removes the nodes that only it used.

Modifies the indexed model in place. Every node, initializer and value_info outside the sites keeps its bytes and its
order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import onnx
from onnx import NodeProto

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.families.verdicts import Lowered
from poolgrad_lowering.ir.index import ModelIndex, value_infos_of
from poolgrad_lowering.ir.metadata import layer_of
from poolgrad_lowering.ir.scopes import Node, Scope, Value
from poolgrad_lowering.rewriting.bodies import FunctionBodies, import_dialect
from poolgrad_lowering.rewriting.emit import dialect_node, emit, emit_forward, record_replaced, record_site
from poolgrad_lowering.rewriting.forward_pools import LoweredPool
from poolgrad_lowering.rewriting.indices_output import add_outputs, pooled_by
from poolgrad_lowering.rewriting.region import Region, UseCounts, dead_region

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

    Entries = RepeatedCompositeFieldContainer[Any]
    """The nodes, value_infos or initializers of a graph or function."""


@dataclass(frozen=True)
class Replacement:
    """The replacement of one node: its new nodes in order, and the region that becomes dead.

    The new nodes stand at the place of `place`, a dead node: `root`, or one before it. One of the new nodes is of the
    dialect; `element_type` is the `TensorProto.DataType` of its x.
    """

    root: Node
    nodes: list[NodeProto]
    region: Region
    element_type: int
    place: Node

    @property
    def layer(self) -> str | None:
        """The layer of the model that the replaced node belongs to, or None."""
        return layer_of(dialect_node(self.nodes))


def replacements(
    facts: Facts,
    sites: Mapping[str, Lowered],
    pools: Sequence[LoweredPool],
    missing: Iterable[Node],
    taken: set[str],
) -> list[Replacement]:
    """Return the replacements of all sites, then those of the lowered forward pools. The model is not changed.

    `sites` are in order, by their identifiers. `missing` are the pools that get an Indices output. `taken` are all
    names of the model; the new names are added.
    """
    roots = [_producer(site.gradient.dx.value) for site in sites.values()]
    written = [
        (root, emit(facts, site, taken), site.gradient.element_type, root)
        for root, site in zip(roots, sites.values(), strict=True)
    ]
    written += [(pool.pool, emit_forward(pool, taken), pool.element_type, pool.place) for pool in pools]
    used = [value for site in sites.values() for value in site.gradient.operands] + pooled_by(missing)
    # A use of y keeps a lowered pool out of the regions of gradients: it is the root of its own region.
    use_counts = UseCounts([*used, *[value for pool in pools for value in (pool.x, pool.y)]])
    found = [_replacement(*one, use_counts) for one in written]
    for (identifier, site), one in zip(sites.items(), found, strict=False):  # those of the pools come last
        pool = site.gradient.pooling
        record_site(one.nodes, identifier, [*([] if pool is None else [pool]), *one.region.nodes])
    return found


def _replacement(
    root: Node, nodes: list[NodeProto], element_type: int, place: Node, use_counts: UseCounts
) -> Replacement:
    region = dead_region(root, use_counts)
    record_replaced(nodes, [node.label for node in region.nodes])
    return Replacement(root, nodes, region, element_type, place)


def rewrite(
    index: ModelIndex, replaced: Sequence[Replacement], bodies: FunctionBodies, missing: Mapping[Node, str]
) -> int:
    """Apply all replacements and add the missing Indices outputs of pools. The index is invalid afterwards.

    Returns the number of nodes by which the model grew, without function bodies.
    """
    edits: defaultdict[Scope, _Edit] = defaultdict(_Edit)
    for replacement in replaced:
        edits[replacement.place.scope].inserted[replacement.place.position] = replacement.nodes
        _collect(replacement.region, edits)
    add_outputs(missing)
    _apply(edits)
    if replaced:
        import_dialect(index.model)
        index.model.functions.extend(bodies.missing(_element_types(replaced)))
    return sum(edit.growth for edit in edits.values())


class _Edit:
    """The changes in one scope: the new nodes for each replaced position, the removed positions and initializers.

    `undefined` are the outputs of the removed nodes.
    """

    def __init__(self) -> None:
        self.inserted: dict[int, list[NodeProto]] = {}
        self.removed: set[int] = set()
        self.undefined: set[str] = set()
        self.initializers: set[str] = set()

    @property
    def growth(self) -> int:
        """The number of nodes by which the scope grows."""
        return len(self.written) - len(self.removed)

    @property
    def written(self) -> list[NodeProto]:
        """All new nodes."""
        return [node for nodes in self.inserted.values() for node in nodes]


def _collect(region: Region, edits: defaultdict[Scope, _Edit]) -> None:
    for node in region.producers:
        edit = edits[node.scope]
        edit.removed.add(node.position)
        edit.undefined.update([value.name for value in node.outputs if value is not None])
    for value in region.initializers:
        edits[value.scope].initializers.add(value.name)


def _element_types(replaced: Sequence[Replacement]) -> dict[str, set[int]]:
    """Return the dialect operators among the new nodes, with the element types of their nodes."""
    types: defaultdict[str, set[int]] = defaultdict(set)
    for replacement in replaced:
        for node in replacement.nodes:
            if node.domain == DOMAIN:
                types[node.op_type].add(replacement.element_type)
    return types


def _apply(edits: dict[Scope, _Edit]) -> None:
    for scope, edit in sorted(
        edits.items(), key=lambda one: -one[0].depth
    ):  # inner scopes first: positions in outer ones are still valid
        proto = scope.proto
        kept = {node.output[0] for node in edit.written}  # an argmax with the name of Indices has another type
        _edit_nodes(proto.node, edit)
        _drop(proto.value_info, value_infos_of(scope, (edit.undefined - kept) | edit.initializers))
        if not isinstance(proto, onnx.FunctionProto):
            _drop(proto.initializer, [scope.initializers[name] for name in edit.initializers])
        if edit.inserted and isinstance(scope.root.proto, onnx.FunctionProto):
            import_dialect(scope.root.proto)


def _edit_nodes(nodes: Entries, edit: _Edit) -> None:
    """Replace each run of consecutive removed nodes by its new nodes, back to front, so that positions stay valid."""
    for run in _runs(edit.removed):
        _replace(nodes, run, [node for position in run for node in edit.inserted.get(position, ())])


def _drop(entries: Entries, positions: Iterable[int]) -> None:
    """Remove the entries at these positions."""
    for run in _runs(positions):
        _replace(entries, run, ())


def _replace(entries: Entries, run: range, messages: Sequence[Any]) -> None:
    """Replace a run of entries with messages."""
    del entries[run.start : run.stop]
    for message in reversed(messages):
        entries.insert(run.start, message)


def _runs(positions: Iterable[int]) -> Iterator[range]:
    """Yield the ranges of consecutive positions, last range first, so that earlier positions stay valid.

    Every edit of a list moves all later entries; so each range is one edit.
    """
    for _, run in groupby(enumerate(sorted(positions, reverse=True)), sum):
        numbers = [position for _, position in run]
        yield range(numbers[-1], numbers[0] + 1)


def _producer(value: Value) -> Node:
    producer = value.producer
    if producer is None:
        raise AssertionError(f"no node produces the result '{value.name}' of a gradient")
    return producer


def names(index: ModelIndex) -> set[str]:
    """Return every value and node name of the model."""
    names: set[str] = set()
    for scope in index.scopes:
        names.update(scope.producers, scope.initializers, scope.inputs, scope.interface, scope.value_infos)
        names.update(scope.node_names)
    return names
