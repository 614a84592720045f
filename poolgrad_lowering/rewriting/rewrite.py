"""The rewrite: puts the dialect's nodes where the gradients were, and takes out what only those used.

Works in place on the model that was indexed. Every node, initializer and value_info outside the sites keeps its
bytes and its order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import onnx
from onnx import NodeProto

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.ir.index import ModelIndex
from poolgrad_lowering.ir.model import replace_run
from poolgrad_lowering.ir.scopes import Node, Scope, Value
from poolgrad_lowering.rewriting.bodies import Bodies, import_dialect
from poolgrad_lowering.rewriting.emit import emit, emit_forward, record_replaced
from poolgrad_lowering.rewriting.forward_pools import ForwardSite
from poolgrad_lowering.rewriting.indices_output import add_outputs, missing_outputs, pooled_by
from poolgrad_lowering.rewriting.region import Readers, Region, dying_region
from poolgrad_lowering.verdicts import Lowered

if TYPE_CHECKING:
    from poolgrad_lowering.ir.model import Entries


@dataclass(frozen=True)
class Replacement:
    """What takes the place of one node: new nodes in their order, and the region that dies with it.

    One of the nodes is the dialect's; the x that it reads is of `element_type`.
    """

    root: Node
    nodes: list[NodeProto]
    region: Region
    element_type: int


def replacements(
    facts: Facts, sites: Sequence[Lowered], forwards: Sequence[ForwardSite], taken: set[str]
) -> list[Replacement]:
    """What takes the place of every site, then of the forward pools that move; the model is not changed yet.

    `taken` are all names of the model; the new ones are added.
    """
    written = [
        (
            _maker(site.gradient.dx),
            emit(facts, site, taken),
            site.gradient.element_type,
        )
        for site in sites
    ]
    written += [(forward.pool, [emit_forward(forward, taken)], forward.element_type) for forward in forwards]
    read = [value for site in sites for value in site.gradient.operands] + pooled_by(missing_outputs(sites))
    # A pool that moves goes as the root of its own region, not in a gradient's because nobody else reads it.
    readers = Readers([*read, *[value for forward in forwards for value in (forward.x, forward.y)]])
    return [_replacement(root, nodes, element_type, readers) for root, nodes, element_type in written]


def _replacement(root: Node, nodes: list[NodeProto], element_type: int, readers: Readers) -> Replacement:
    region = dying_region(root, readers)
    record_replaced(nodes, [node.label for node in region.nodes])
    return Replacement(root, nodes, region, element_type)


def rewrite(index: ModelIndex, replaced: Sequence[Replacement], bodies: Bodies, missing: Mapping[Node, str]) -> int:
    """Put all replacements in place, and the Indices outputs that pools miss. The index is void afterwards.

    Returns by how many nodes the model grew (function bodies not counted).
    """
    edits: defaultdict[Scope, _Edit] = defaultdict(_Edit)
    for one in replaced:
        edits[one.root.scope].inserted[one.root.position] = one.nodes
        _collect(one.region, edits)
    add_outputs(missing)
    _apply(edits)
    if replaced:
        import_dialect(index.model)
        index.model.functions.extend(bodies.missing(_element_types(replaced)))
    return sum(edit.growth for edit in edits.values())


class _Edit:
    """What changes in one scope: nodes to insert where one is taken out, positions and initializers to take out.

    `unmade` are the values that the nodes at those positions make.
    """

    def __init__(self) -> None:
        self.inserted: dict[int, list[NodeProto]] = {}
        self.removed: set[int] = set()
        self.unmade: set[str] = set()
        self.initializers: set[str] = set()

    @property
    def growth(self) -> int:
        """By how many nodes the scope grows."""
        return len(self.written) - len(self.removed)

    @property
    def written(self) -> list[NodeProto]:
        """All new nodes."""
        return [node for nodes in self.inserted.values() for node in nodes]


def _collect(region: Region, edits: defaultdict[Scope, _Edit]) -> None:
    for node in region.makers:
        edit = edits[node.scope]
        edit.removed.add(node.position)
        edit.unmade.update([value.name for value in node.outputs if value is not None])
    for value in region.initializers:
        edits[value.scope].initializers.add(value.name)


def _element_types(replaced: Sequence[Replacement]) -> dict[str, set[int]]:
    """The operators of the dialect that are written, with the element types of their nodes."""
    types: defaultdict[str, set[int]] = defaultdict(set)
    for one in replaced:
        for node in one.nodes:
            if node.domain == DOMAIN:
                types[node.op_type].add(one.element_type)
    return types


def _apply(edits: dict[Scope, _Edit]) -> None:
    for scope, edit in sorted(edits.items(), key=lambda one: -one[0].depth):  # before positions around it move
        proto = scope.proto
        kept = {name for node in edit.written for name in node.output}
        _edit_nodes(proto.node, edit)
        _drop(proto.value_info, scope.value_infos, (edit.unmade - kept) | edit.initializers)
        if not isinstance(proto, onnx.FunctionProto):
            _drop(proto.initializer, scope.initializers, edit.initializers)
        if edit.inserted and isinstance(scope.root.proto, onnx.FunctionProto):
            import_dialect(scope.root.proto)
        if scope.parent is not None:
            scope.parent.write_back(scope.holder)


def _edit_nodes(nodes: Entries, edit: _Edit) -> None:
    """What takes a node's place goes where the run began that it stood in: nothing of that run is left."""
    for run in _runs(edit.removed):
        replace_run(nodes, run, [node for position in run for node in edit.inserted.get(position, ())])


def _drop(entries: Entries, positions: Mapping[str, int], names: Collection[str]) -> None:
    """The entries of these names gone, which are at these positions."""
    for run in _runs(positions[name] for name in names if name in positions):
        replace_run(entries, run, ())


def _runs(positions: Iterable[int]) -> Iterator[range]:
    """Consecutive positions together, the last first: what is before them stays where it is.

    Every edit moves the references behind it, in any list; so a run is one edit.
    """
    for _, run in groupby(enumerate(sorted(positions, reverse=True)), sum):
        numbers = [position for _, position in run]
        yield range(numbers[-1], numbers[0] + 1)


def _maker(value: Value) -> Node:
    maker = value.producer
    if maker is None:
        raise AssertionError(f"the result '{value.name}' of a gradient has no maker")
    return maker


def names(index: ModelIndex) -> set[str]:
    """Every value and node name of the model, so that new ones are new."""
    names: set[str] = set()
    for scope in index.scopes:
        names.update(scope.producers, scope.initializers, scope.inputs, scope.interface, scope.value_infos)
        names.update(scope.node_names)
    return names
