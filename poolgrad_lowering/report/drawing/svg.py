# SPDX-License-Identifier: Apache-2.0

"""Draws a graph as SVG: boxes with text, and arrows between them. The page's style sheet gives the colours."""

from __future__ import annotations

import re
from importlib.resources import files

from poolgrad_lowering.report.drawing.graph import Box, Graph, Kind
from poolgrad_lowering.report.drawing.layered import Point, place
from poolgrad_lowering.report.drawing.markup import Markup, Setting, columns, element, fitted, joined, number, shown


def stylesheet() -> str:
    """The style sheet of a page with drawings."""
    return files(__package__).joinpath("style.css").read_text(encoding="utf-8")


def scoped(selector: str) -> str:
    """The style sheet for the drawings within a selector of a page of other origin, in the light colours."""
    light, _, rest = stylesheet().partition("@media")
    rules = "\n".join(line for line in rest.splitlines() if line.startswith("svg "))
    return light.replace(":root", selector) + re.sub(r"(^|, )svg ", rf"\1{selector} svg ", rules, flags=re.M)


_MAX_COLUMNS = 28
_COLUMN, _LINE, _FIRST_LINE = 7.3, 15.0, 17.0
"""Pixels: the width of a column in the fixed-width font of 12 pixels, the height of a line, and the offset of the first
base line."""

_MARGIN, _PADDING = 6.0, 11.0


def svg(graph: Graph, label: str) -> Markup:
    """The drawing of a graph as an SVG element. `label` is its title for screen readers."""
    texts = [[fitted(text, _MAX_COLUMNS) for text in (box.heading, *box.lines)] for box in graph.boxes]
    sizes = [(max(map(columns, lines)) * _COLUMN + 2 * _PADDING, len(lines) * _LINE + 9) for lines in texts]
    placed = place(sizes, graph.edges)
    arrows = element("path", d=" ".join(map(_arrow, placed.paths)), class_="arrow")
    width, height = placed.width + 2 * _MARGIN, placed.height + 2 * _MARGIN
    return element(
        "svg",
        element("title", label),
        arrows if graph.edges else "",
        *map(_box, graph.boxes, texts, sizes, placed.centres),
        role="img",
        width=width,
        height=height,
        viewBox=" ".join(map(number, (-_MARGIN, -_MARGIN, width, height))),
    )


def in_words(graph: Graph) -> list[str]:
    """The graph as sentences: the inputs of each node."""
    reads: dict[int, list[str]] = {}
    for source, target in graph.edges:
        reads.setdefault(target, []).append(_name(graph.boxes[source]))
    return [f"{_name(graph.boxes[target])} reads {', '.join(sources)}" for target, sources in sorted(reads.items())]


def _name(box: Box) -> str:
    return shown(" ".join((box.heading, *box.lines[:1])), 80)


def _box(box: Box, lines: list[str], size: tuple[float, float], centre: Point) -> Markup:
    (width, height), (x, y) = size, centre
    left, top = x - width / 2, y - height / 2
    is_value = box.kind in (Kind.OUTSIDE, Kind.RESULT)
    base = top + _FIRST_LINE
    text = [
        element("text", line, x=x, y=base + at * _LINE, class_=None if at else "heading", **_squeezed(line))
        for at, line in enumerate(lines)
    ]
    tooltip = [joined(shown(part), Markup("\n")) for part in (box.heading, *box.lines, *box.more)]
    radius = height / 2 if is_value and len(lines) == 1 else 12 if is_value else 4
    frame = element("rect", x=left, y=top, width=width, height=height, rx=radius)
    return element("g", element("title", *tooltip), frame, joined(*text), class_=f"box {box.kind.value}")


def _squeezed(line: str) -> dict[str, Setting]:
    """SVG attributes that scale a line with non-ASCII characters to its computed width: widths depend on the font."""
    if line.isascii():
        return {}
    return {"textLength": columns(line) * _COLUMN, "lengthAdjust": "spacingAndGlyphs"}


def _arrow(points: tuple[Point, ...]) -> str:
    """The path data of an arrow: curves with vertical tangents at each point, and a head."""
    x, y = points[0]
    drawn = [f"M{number(x)} {number(y)}"]
    for next_x, next_y in points[1:]:
        middle = number((y + next_y) / 2)
        drawn.append(f"C{number(x)} {middle} {number(next_x)} {middle} {number(next_x)} {number(next_y)}")
        x, y = next_x, next_y
    drawn.append(f"M{number(x - 3.5)} {number(y - 6)}L{number(x)} {number(y)}L{number(x + 3.5)} {number(y - 6)}")
    return "".join(drawn)
