# SPDX-License-Identifier: Apache-2.0

"""The rewrite: replaces each gradient by nodes of the dialect, and removes the nodes that only it used.

Modifies the indexed model in place. Every node, initializer and value_info outside the sites keeps its bytes and its
order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import onnx
from onnx import NodeProto

from poolgrad_lowering.compiler.rewriting.bodies import FunctionBodies, import_dialect
from poolgrad_lowering.compiler.rewriting.region import Region
from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.model.ir.index import ModelIndex, value_infos_of
from poolgrad_lowering.model.ir.metadata import layer_of
from poolgrad_lowering.model.ir.scopes import Node, Scope

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

    Entries = RepeatedCompositeFieldContainer[Any]
    """The nodes, value_infos or initializers of a graph or function."""


class Replacement(NamedTuple):
    """The replacement of one node: its new nodes in order, and the region that becomes dead.

    The new nodes stand at the place of `place`, a dead node: `root`, or one before it. One of the new nodes is of the
    dialect; `element_type` is the `TensorProto.DataType` of its x. `site` is the identifier of a gradient's site; None
    for a forward pool.
    """

    root: Node
    nodes: list[NodeProto]
    region: Region
    element_type: int
    place: Node
    site: str | None = None

    @property
    def dialect_node(self) -> NodeProto:
        """The new node of the dialect."""
        return next(node for node in self.nodes if node.domain == DOMAIN)

    @property
    def layer(self) -> str | None:
        """The layer of the model that the replaced node belongs to, or None."""
        return layer_of(self.dialect_node)


def rewrite(
    index: ModelIndex, replaced: Sequence[Replacement], bodies: FunctionBodies, added_outputs: Mapping[Node, str]
) -> int:
    """Apply all replacements, and give some nodes a second output of this name. The index is invalid afterwards.

    Returns the number of nodes by which the model grew, without function bodies.
    """
    edits: defaultdict[Scope, _Edit] = defaultdict(_Edit)
    types: defaultdict[str, set[int]] = defaultdict(set)
    for replacement in replaced:
        edits[replacement.place.scope].inserted[replacement.place.position] = replacement.nodes
        types[replacement.dialect_node.op_type].add(replacement.element_type)
        for node in replacement.region.producers:
            edit = edits[node.scope]
            edit.removed.add(node.position)
            edit.undefined.update([value.name for value in node.outputs if value is not None])
        for value in replacement.region.initializers:
            edits[value.scope].initializers.add(value.name)
    for node, name in added_outputs.items():
        node.proto.output[1:] = [name]  # it replaces one that is written as an empty name
    _apply(edits)
    if replaced:
        import_dialect(index.model)
        index.model.functions.extend(bodies.missing(types))
    return sum(len(edit.written) - len(edit.removed) for edit in edits.values())


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
    def written(self) -> list[NodeProto]:
        """All new nodes."""
        return [node for nodes in self.inserted.values() for node in nodes]


def _apply(edits: dict[Scope, _Edit]) -> None:
    # Inner scopes first: positions in outer ones are still valid.
    for scope, edit in sorted(edits.items(), key=lambda one: -one[0].depth):
        proto = scope.proto
        kept = {node.output[0] for node in edit.written}  # an argmax with the name of Indices has another type
        for run in _runs(edit.removed):
            _replace(proto.node, run, [node for position in run for node in edit.inserted.get(position, ())])
        _drop(proto.value_info, value_infos_of(scope, (edit.undefined - kept) | edit.initializers))
        if not isinstance(proto, onnx.FunctionProto):
            _drop(proto.initializer, [scope.initializers[name] for name in edit.initializers])
        if edit.inserted and isinstance(scope.root.proto, onnx.FunctionProto):
            import_dialect(scope.root.proto)


def _drop(entries: Entries, positions: Iterable[int]) -> None:
    """Remove the entries at these positions."""
    for run in _runs(positions):
        _replace(entries, run, ())


def _replace(entries: Entries, run: range, messages: Sequence[Any]) -> None:
    """Replace a run of entries with messages: overwrite entries while there are both, then delete or insert."""
    for position, message in zip(run, messages, strict=False):
        entries[position].CopyFrom(message)
    del entries[run.start + len(messages) : run.stop]
    for position, message in enumerate(messages[len(run) :], run.stop):
        entries.insert(position, message)


def _runs(positions: Iterable[int]) -> Iterator[range]:
    """Yield the ranges of consecutive positions, last range first, so that earlier positions stay valid.

    Every edit of a list moves all later entries; so each range is one edit.
    """
    for _, run in groupby(enumerate(sorted(positions, reverse=True)), sum):
        numbers = [position for _, position in run]
        yield range(numbers[-1], numbers[0] + 1)
