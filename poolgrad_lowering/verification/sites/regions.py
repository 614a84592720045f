# SPDX-License-Identifier: Apache-2.0

"""Finds the regions in which two units differ: connected removed and added nodes.

Nodes with the same bytes are the same node. Values of the same name that both sides define separate regions: such a
value is compared in the region that defines it, and is a free input of regions that use it.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import networkx as nx

from poolgrad_lowering.model.diagnostics.text import first_of
from poolgrad_lowering.model.ir.metadata import layer_of, site_of
from poolgrad_lowering.verification.graph.flat import FlatNode, Unit
from poolgrad_lowering.verification.result import Difference
from poolgrad_lowering.verification.sites.declared import ExpandedGradient

MAX_NAMED = 3
"""The number of sites of one region that its identifier names."""


class ChangedRegion(NamedTuple):
    """The nodes of only the original, the nodes of only the lowered unit, and the values that both define.

    `expanded` are the gradients that the lowered unit computes by the nodes of a function body of the dialect.
    """

    unit: str
    removed: tuple[FlatNode, ...]
    added: tuple[FlatNode, ...]
    outputs: tuple[str, ...]
    expanded: tuple[ExpandedGradient, ...] = ()

    @property
    def name(self) -> str:
        """The last value that both sides define, a gradient; without one, the label of the first node."""
        return self.outputs[-1] if self.outputs else next(iter((*self.added, *self.removed))).label

    @property
    def identifier(self) -> str:
        """The identifiers of the sites in it, as the metadata of lowered nodes has them; without it its unit and name.

        Metadata may be missing or wrong, and decides nothing.
        """
        sites = dict.fromkeys(site for node in self.added if (site := site_of(node.proto)))
        return first_of(list(sites), MAX_NAMED) or f"{self.unit}:{self.name}"

    @property
    def layer(self) -> str | None:
        """The layer that the metadata of a lowered gradient names, else that of any node, new ones first."""
        nodes = sorted(self.added, key=lambda node: site_of(node.proto) is None)
        return next((layer for node in (*nodes, *self.removed) if (layer := layer_of(node.proto))), None)


def split(original: Unit, lowered: Unit, *, ordered: bool) -> tuple[list[ChangedRegion], list[Difference]]:
    """Return the regions in which two units differ, and the differences that are errors in any case.

    These are values that are not defined, and with `ordered` nodes that are in another order. Nodes that are
    the same must have the same keys. Takes linear time.
    """
    theirs = lowered.order
    pairs = [(node, theirs[node.key]) for node in original.nodes if node.key in theirs]
    common = {node.key for node, _ in pairs}
    removed, added = (_outermost(unit, common) for unit in (original, lowered))
    errors = _out_of_order(original.name, pairs) if ordered else []
    return list(_regions(original.name, removed, added)), errors + _not_defined_before(lowered)


def _outermost(unit: Unit, common: Collection[bytes]) -> list[FlatNode]:
    """Return the nodes that are not in `common`, without those in subgraphs of others of them."""
    found: list[FlatNode] = []
    position = len(unit.nodes) - 1
    while position >= 0:
        node = unit.nodes[position]
        if node.key not in common:
            found.append(node)
            position -= node.inside
        position -= 1
    return found[::-1]


def _regions(unit: str, removed: Sequence[FlatNode], added: Sequence[FlatNode]) -> Iterable[ChangedRegion]:
    defined_by_both = _defined(removed) & _defined(added)
    graph: nx.Graph[str | tuple[bool, int]] = nx.Graph()  # of nodes, by side and number, and the values between them
    for side, nodes in ((True, removed), (False, added)):
        read = _defined(nodes) - defined_by_both
        for number, node in enumerate(nodes):
            graph.add_node((side, number))
            values = [value for value in (*node.inputs, *node.captured) if value in read]
            graph.add_edges_from(((side, number), value) for value in (*values, *node.outputs) if value)
    for component in nx.connected_components(graph):
        numbers = sorted(found for found in component if isinstance(found, tuple))
        only_original = tuple(removed[number] for side, number in numbers if side)
        only_lowered = tuple(added[number] for side, number in numbers if not side)
        outputs = [value for node in only_original for value in node.outputs if value in defined_by_both]
        yield ChangedRegion(unit, only_original, only_lowered, tuple(outputs))


def _defined(nodes: Iterable[FlatNode]) -> set[str]:
    return {value for node in nodes for value in node.outputs if value}


def _out_of_order(unit: str, pairs: Sequence[tuple[FlatNode, int]]) -> list[Difference]:
    return [
        Difference(unit, f"node '{node.label}' is before '{after.label}', which it followed in the original")
        for (after, one), (node, other) in itertools.pairwise(pairs)
        if other < one
    ][:1]


def _not_defined_before(lowered: Unit) -> list[Difference]:
    """Return a difference for each value that is used before its definition, defined twice, or never defined."""
    known = {"", *lowered.inputs, *lowered.constants}
    found = []
    for node in lowered.nodes:
        found += [
            Difference(lowered.name, f"node '{node.label}' uses '{value}', which no node before it defines")
            for value in (*node.inputs, *node.captured)
            if value not in known
        ]
        again = [value for value in node.outputs if value and value in known]
        found += [Difference(lowered.name, f"node '{node.label}' defines '{value}' a second time") for value in again]
        known.update(node.outputs)
    missing = sorted(lowered.results - known)
    return found + [Difference(lowered.name, f"no node defines the output '{value}'") for value in missing]
