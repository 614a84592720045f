# SPDX-License-Identifier: Apache-2.0

"""Layered layout of a directed acyclic graph, from top to bottom. Deterministic.

The usual steps of such layouts: layers by longest paths, a dummy node (here: passage) in each layer that an arrow
crosses, and an order and positions by the mean of the neighbours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from itertools import pairwise
from typing import NamedTuple

GAP, LAYER_GAP, PASSAGE = 16.0, 30.0, 8.0
"""Distances between boxes of a layer and between layers, and the width of a passage."""

_SWEEPS = 8
_PORT_GAP = 14.0

Point = tuple[float, float]
Edge = tuple[int, int]


class Placed(NamedTuple):
    """The centres of the boxes, the points of each arrow in the order of the edges, and the size of the drawing."""

    centres: tuple[Point, ...]
    paths: tuple[tuple[Point, ...], ...]
    width: float
    height: float


def place(sizes: Sequence[tuple[float, float]], edges: Sequence[Edge]) -> Placed:
    """The layout of boxes with these widths and heights. Raises `ValueError` if the edges have a cycle.

    An arrow leads from its first box down, vertically through each passage, to the top of its last box.
    """
    net = _Net([width for width, _ in sizes], _layers(len(sizes), edges))
    chains = [net.chain(source, target) for source, target in edges]
    layers, xs = _across(net)
    tall = [max(sizes[box][1] for box in layer if box < len(sizes)) for layer in layers]
    middles = [sum(tall[:number]) + number * LAYER_GAP + height / 2 for number, height in enumerate(tall)]
    heights = [*(height for _, height in sizes), *(tall[layer] for layer in net.layer[len(sizes) :])]
    centres = [(x, middles[layer]) for x, layer in zip(xs, net.layer, strict=True)]
    spans = [(y - height / 2, y + height / 2) for (_, y), height in zip(centres, heights, strict=True)]
    paths = tuple(
        (
            (start, spans[chain[0]][1]),
            *((xs[passage], y) for passage in chain[1:-1] for y in spans[passage]),
            (stop, spans[chain[-1]][0]),
        )
        for chain, (start, stop) in zip(chains, _ports(net, chains, xs), strict=True)
    )
    width = max((x + width / 2 for x, width in zip(xs, net.width, strict=True)), default=0.0)
    return Placed(tuple(centres[: len(sizes)]), paths, width, middles[-1] + tall[-1] / 2 if tall else 0.0)


@dataclass
class _Net:
    """Boxes and passages with their widths, layers, and neighbours in the layers above and below."""

    width: list[float]
    layer: list[int]
    above: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    below: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def chain(self, source: int, target: int) -> list[int]:
        """The boxes of an arrow, with new passages through the layers between its ends."""
        between = range(self.layer[source] + 1, self.layer[target])
        chain = [source, *range(len(self.width), len(self.width) + len(between)), target]
        self.width += [PASSAGE] * len(between)
        self.layer += between
        for upper, lower in pairwise(chain):
            self.below[upper].append(lower)
            self.above[lower].append(upper)
        return chain


def _layers(count: int, edges: Sequence[Edge]) -> list[int]:
    """The layer of each box: below all its predecessors; a box without predecessors is just above its successors."""
    above: dict[int, list[int]] = {box: [] for box in range(count)}
    for source, target in edges:
        above[target].append(source)
    layer = [0] * count
    for box in TopologicalSorter(above).static_order():
        layer[box] = max((layer[source] + 1 for source in above[box]), default=0)
    for box in range(count):
        if not above[box]:
            layer[box] = min((layer[target] - 1 for source, target in edges if source == box), default=0)
    used = {number: position for position, number in enumerate(sorted(set(layer)))}
    return [used[number] for number in layer]


def _across(net: _Net) -> tuple[list[list[int]], list[float]]:
    """The boxes of each layer from left to right, and the centre of each box.

    The first sweeps order the boxes of a layer by the mean of the neighbours' centres, those above on the way down and
    those below on the way up. The others keep the order, and place each box near its neighbours on both sides.
    """
    layers = [[box for box, number in enumerate(net.layer) if number == layer] for layer in sorted(set(net.layer))]
    xs = [0.0] * len(net.width)
    for layer in layers:
        _settle(net, layer, xs, dict.fromkeys(layer, 0.0))
    both = {box: net.above[box] + net.below[box] for box in range(len(xs))}
    for sweep in range(2 * _SWEEPS):
        neighbours = both if sweep >= _SWEEPS else net.below if sweep % 2 else net.above
        for layer in reversed(layers) if sweep % 2 else layers:
            wanted = {box: _mean([xs[near] for near in neighbours[box]], xs[box]) for box in layer}
            if sweep < _SWEEPS:
                layer.sort(key=wanted.__getitem__)
            _settle(net, layer, xs, wanted)
    left = min((x - width / 2 for x, width in zip(xs, net.width, strict=True)), default=0.0)
    return layers, [x - left for x in xs]


def _settle(net: _Net, layer: Sequence[int], xs: list[float], wanted: Mapping[int, float]) -> None:
    """Place a layer's boxes with the least squared distances to the wanted centres (pool adjacent violators)."""
    offsets, offset = [], 0.0
    for number, box in enumerate(layer):
        if number:
            offset += (net.width[layer[number - 1]] + net.width[box]) / 2 + GAP
        offsets.append(offset)
    blocks: list[list[float]] = []
    for box, offset in zip(layer, offsets, strict=True):
        blocks.append([wanted[box] - offset])
        while len(blocks) > 1 and _mean(blocks[-2], 0) > _mean(blocks[-1], 0):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    starts = [_mean(block, 0) for block in blocks for _ in block]
    for box, start, offset in zip(layer, starts, offsets, strict=True):
        xs[box] = start + offset


def _ports(net: _Net, chains: Sequence[Sequence[int]], xs: Sequence[float]) -> list[tuple[float, float]]:
    """The horizontal positions at which each arrow starts and ends, ordered by its neighbours from left to right."""
    ends = []
    for end, beside in ((0, 1), (-1, -2)):
        at_box = defaultdict[int, list[int]](list)
        for number in sorted(range(len(chains)), key=[xs[chain[beside]] for chain in chains].__getitem__):
            at_box[chains[number][end]].append(number)
        ends.append([0.0] * len(chains))
        for box, numbers in at_box.items():
            gap = min(_PORT_GAP, 0.8 * net.width[box] / len(numbers))
            for place, number in enumerate(numbers):
                ends[-1][number] = xs[box] + (place - (len(numbers) - 1) / 2) * gap
    return list(zip(*ends, strict=True))


def _mean(values: Sequence[float], absent: float) -> float:
    return sum(values) / len(values) if values else absent
