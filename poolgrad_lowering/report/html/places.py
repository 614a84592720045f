# SPDX-License-Identifier: Apache-2.0

"""Where the nodes of the lowered model run beside onnxruntime's CANN provider: a table, and a map of the whole graph.

The map has a cell for each node, in the order in which onnxruntime runs them, grouped by sub-model. If there are more
than `MAX_CELLS`, a cell is several nodes of one run; so the map's size on the page is bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from poolgrad_lowering.ge.placement import Place, PlacedNode, Placement
from poolgrad_lowering.ge.records import PLACES
from poolgrad_lowering.model.diagnostics.text import counted
from poolgrad_lowering.report.drawing.markup import Markup, element, joined, shown
from poolgrad_lowering.report.html.tables import code, table

MAX_CELLS = 2000
"""The largest number of cells of the map."""

MAX_LISTED = 100
"""The largest number of runs that are listed in words, and of operators in a table."""

_NAME, _OPERATORS = 60, 4
"""Characters of a name in a tooltip, and operators of a cell with several nodes."""

_WIDTH, _STEP, _CELL, _HEIGHT, _ROW, _GAP = 960, 11, 9, 16, 22, 8
"""Units of the map: its width, the distance of cells, a cell's width and height, the distance of rows, and the gap
between runs."""

_LOW = 4
"""By how much a cell of the CANN provider is lower at both ends."""


class _Cell(NamedTuple):
    """One or more consecutive nodes of a run; `first` is the number of the first one in a step, from 1 on."""

    first: int
    nodes: Sequence[PlacedNode]


def places_section(placement: Placement | None) -> Markup | str:
    """The section on places; empty if they are not known, or if no node runs."""
    if placement is None or not placement.nodes:
        return ""
    text = "Where the nodes of the lowered model run beside onnxruntime's CANN provider in graph mode, as predicted: "
    head = element("h2", "Places", id="places"), element("p", text, _totals(placement), class_="note")
    return element("section", *head, _table(placement), _of_the_cpu(placement), _figure(placement))


def _totals(placement: Placement) -> str:
    return (
        f"{counted(placement.report.sub_models, 'sub-model')}, "
        f"{counted(placement.copies, 'value')} copied between host and device inside a step."
    )


def _table(placement: Placement) -> Markup:
    found = placement.report
    rows = [(each.title, f"{each.nodes:,}", f"{each.bytes:,}", found.share_of_bytes(each)) for each in found.places]
    unknown = f" ({counted(placement.unknown_sizes, 'tensor')} of unknown size left out)"
    caption = "Nodes by place, and the bytes that they read and write" + (unknown if placement.unknown_sizes else "")
    return table(caption, ("place", "nodes", "bytes", "share of bytes"), rows)


def _of_the_cpu(placement: Placement) -> Markup:
    operators = Counter(node.operator for node in placement.nodes if node.place is Place.CPU)
    rows = [(code(shown(operator)), count) for operator, count in operators.most_common(MAX_LISTED)]
    more = f", the {MAX_LISTED} most frequent of {len(operators)}" if len(operators) > MAX_LISTED else ""
    return table(f"Nodes on the CPU, by operator{more}", ("operator", "nodes"), rows)


def _figure(placement: Placement) -> Markup:
    runs = [list(nodes) for _, nodes in groupby(placement.nodes, key=lambda node: (node.place, node.sub_model))]
    size, drawn = _cells(runs)
    shown_nodes = sum(len(cell.nodes) for run in drawn for cell in run)
    remarks = [f"a cell is up to {size} nodes" if size > 1 else "a cell is a node"]
    if shown_nodes < len(placement.nodes):
        remarks.append(f"the first {shown_nodes:,} of {len(placement.nodes):,} nodes are drawn")
    by_place = ", ".join(f"{each.nodes:,} on {each.title}" for each in placement.report.places)
    key = (element("span", PLACES[place.value], class_=place.value) for place in Place)
    words = element("ul", *(element("li", line) for line in _in_words(runs)))
    return element(
        "figure",
        element("figcaption", f"The nodes in the order of a step; {'; '.join(remarks)}"),
        _svg(drawn, f"{counted(len(placement.nodes), 'node')}: {by_place}; {_totals(placement)}"),
        element("p", *key, class_="key"),
        element("details", element("summary", "In words"), words, class_="words"),
        class_="places",
    )


def _cells(runs: Sequence[Sequence[PlacedNode]]) -> tuple[int, list[list[_Cell]]]:
    """Return the nodes per cell, and the cells of each run, `MAX_CELLS` in all at most."""
    size = 1
    while len(runs) < MAX_CELLS and sum(-(-len(run) // size) for run in runs) > MAX_CELLS:
        size += 1 + size // 8
    first, left, drawn = 1, MAX_CELLS, []
    for run in runs:
        cells = [_Cell(first + at, run[at : at + size]) for at in range(0, len(run), size)][:left]
        first, left = first + len(run), left - len(cells)
        if cells:
            drawn.append(cells)
    return size, drawn


def _svg(runs: Iterable[Sequence[_Cell]], label: str) -> Markup:
    x, y, groups = 0, 0, []
    for run in runs:
        paths = []
        for cell in run:
            if x + _CELL > _WIDTH:
                x, y = 0, y + _ROW
            paths.append(element("path", element("title", _tooltip(cell)), d=_shape(cell.nodes[0].place, x, y)))
            x += _STEP
        x += _GAP if x else 0
        groups.append(element("g", joined(*paths), class_=run[0].nodes[0].place.value))
    box = f"-1 -1 {_WIDTH + 2} {y + _HEIGHT + 2}"  # strokes are half outside
    return element("svg", element("title", label), *groups, role="img", width=_WIDTH, viewBox=box, class_="map")


def _shape(place: Place, x: int, y: int) -> str:
    """The outline of a cell: places differ in shape as well as in colour."""
    if place is Place.CPU:
        return f"M{x} {y + _HEIGHT}h{_CELL}l-{_CELL / 2:g}-{_HEIGHT}z"
    low = _LOW if place is Place.CANN else 0
    return f"M{x} {y + low}h{_CELL}v{_HEIGHT - 2 * low}h-{_CELL}z"


def _tooltip(cell: _Cell) -> Markup:
    node = cell.nodes[0]
    part = PLACES[node.place.value] if node.sub_model is None else f"sub-model {node.sub_model + 1}"
    if len(cell.nodes) == 1:
        lines = [f"{cell.first}. {shown(node.operator, _NAME)} {shown(node.name, _NAME)}", part]
    else:
        numbers = f"{cell.first}–{cell.first + len(cell.nodes) - 1}"
        lines = [f"{numbers}. {_by_operator(cell.nodes)}", f"from {shown(node.name, _NAME)}", part]
    return Markup("\n".join(map(joined, lines)))


def _by_operator(nodes: Sequence[PlacedNode]) -> str:
    counts = Counter(node.operator for node in nodes)
    named = [f"{count} {shown(name, _NAME)}" for name, count in counts.most_common(_OPERATORS)]
    return ", ".join([*named, *(["…"] if len(counts) > _OPERATORS else [])])


def _in_words(runs: Sequence[Sequence[PlacedNode]]) -> Iterator[str]:
    """The runs in the order of a step, one sentence each."""
    for run in runs[:MAX_LISTED]:
        node, name = run[0], shown(run[0].name, _NAME)
        part = f"On {PLACES[node.place.value]}" if node.sub_model is None else f"Sub-model {node.sub_model + 1}"
        if len(run) == 1:
            yield f"{part}: {shown(node.operator, _NAME)} {name}"
        else:
            yield f"{part}: {len(run)} nodes, {_by_operator(run)}, from {name}"
    if len(runs) > MAX_LISTED:
        yield f"… and {len(runs) - MAX_LISTED} more runs"
