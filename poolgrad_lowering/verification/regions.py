"""Where two units differ: nodes taken out and nodes put in, in connected regions.

Nodes are the same node where their bytes are. A region is cut at values of one name that both sides make: what one
region makes and another reads is compared where it is made, and free where it is read.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import networkx as nx

from poolgrad_lowering.verification.flat import FlatNode, Unit
from poolgrad_lowering.verification.result import Difference


@dataclass(frozen=True)
class Region:
    """Nodes that only the original has, nodes that only the lowered unit has, and the values that both of them make."""

    unit: str
    removed: tuple[FlatNode, ...]
    added: tuple[FlatNode, ...]
    outputs: tuple[str, ...]

    @property
    def name(self) -> str:
        """The last value that both sides make, a gradient; of a region without one, its first node."""
        return self.outputs[-1] if self.outputs else next(iter((*self.added, *self.removed))).label


@dataclass(frozen=True)
class Split:
    """Two units taken apart: the regions where they differ, and what is wrong already.

    `makers` are the nodes that both have, by the values that they make.
    """

    makers: Mapping[str, FlatNode]
    regions: tuple[Region, ...]
    differences: tuple[Difference, ...]


def split(original: Unit, lowered: Unit) -> Split:
    """Take two units apart. Linear in their size."""
    theirs = lowered.order
    pairs = [(node, theirs[node.key]) for node in original.nodes if node.key in theirs]
    common = {node.key for node, _ in pairs}
    removed = [node for node in original.nodes if node.key not in common]
    added = [node for node in lowered.nodes if node.key not in common]
    return Split(
        {value: node for node, _ in pairs for value in node.makes if value},
        tuple(_regions(original.name, removed, added)),
        (*_out_of_order(original.name, pairs), *_not_defined_before(lowered)),
    )


def _regions(unit: str, removed: Sequence[FlatNode], added: Sequence[FlatNode]) -> Iterable[Region]:
    made_by_both = _made(removed) & _made(added)
    graph: nx.Graph[tuple[bool, int]] = nx.Graph()
    sides = {True: removed, False: added}
    for side, nodes in sides.items():
        maker = {value: number for number, node in enumerate(nodes) for value in node.makes if value}
        graph.add_nodes_from((side, number) for number in range(len(nodes)))
        for number, node in enumerate(nodes):
            graph.add_edges_from(
                ((side, maker[value]), (side, number))
                for value in (*node.reads, *node.captured)
                if value in maker and value not in made_by_both
            )
    first, second = ({value: i for i, node in enumerate(nodes) for value in node.makes} for nodes in sides.values())
    graph.add_edges_from(((True, first[value]), (False, second[value])) for value in made_by_both)
    for component in nx.connected_components(graph):
        gone = tuple(removed[number] for side, number in sorted(component) if side)
        come = tuple(added[number] for side, number in sorted(component) if not side)
        outputs = [value for node in gone for value in node.makes if value in made_by_both]
        yield Region(unit, gone, come, tuple(outputs))


def _made(nodes: Iterable[FlatNode]) -> set[str]:
    return {value for node in nodes for value in node.makes if value}


def _out_of_order(unit: str, pairs: Sequence[tuple[FlatNode, int]]) -> list[Difference]:
    return [
        Difference(unit, f"node '{node.label}' stands before '{after.label}', which it followed")
        for (after, one), (node, other) in itertools.pairwise(pairs)
        if other < one
    ][:1]


def _not_defined_before(lowered: Unit) -> list[Difference]:
    """Values that are read before they are made, or that nobody makes."""
    known = {"", *lowered.inputs, *lowered.constants}
    found = []
    for node in lowered.nodes:
        found += [
            Difference(lowered.name, f"node '{node.label}' reads '{value}', which nothing before it makes")
            for value in (*node.reads, *node.captured)
            if value not in known
        ]
        again = [value for value in node.makes if value and value in known]
        found += [Difference(lowered.name, f"node '{node.label}' makes '{value}' a second time") for value in again]
        known.update(node.makes)
    missing = sorted(lowered.results - known)
    return found + [Difference(lowered.name, f"nothing makes the output '{value}'") for value in missing]
