# SPDX-License-Identifier: Apache-2.0

"""Boxes with text and arrows between them as SVG, with the layout of the report's drawings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from poolgrad_lowering.report.drawing.layered import place

_COLUMN, _LINE, _PADDING, _MARGIN = 8.4, 17.0, 10.0, 8.0
"""Pixels: the width of a character, the height of a line, and the margins in a box and around the drawing."""


def picture(
    title: str,
    boxes: Mapping[str, Sequence[str]],
    edges: Sequence[tuple[str, str]],
    coloured: Mapping[str, str] | None = None,
) -> str:
    """An SVG with a box for each key, which shows its lines of text, and an arrow for each edge, from top to bottom.

    `coloured` are the fills of some boxes.
    """
    number = {name: position for position, name in enumerate(boxes)}
    texts = list(boxes.values())
    sizes = [(max(map(len, lines)) * _COLUMN + 2 * _PADDING, len(lines) * _LINE + 11) for lines in texts]
    placed = place(sizes, [(number[above], number[below]) for above, below in edges])
    drawn = [
        f'<path d="M {" L ".join(f"{x:.1f} {y:.1f}" for x, y in path)}" marker-end="url(#head)"/>'
        for path in placed.paths
    ]
    for name, lines, (width, height), (x, y) in zip(boxes, texts, sizes, placed.centres, strict=True):
        fill = f' style="fill: {coloured[name]}"' if coloured and name in coloured else ""
        left, top = x - width / 2, y - height / 2
        drawn.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="4"{fill}/>'
            + "".join(
                f'<text x="{x:.1f}" y="{top + 19 + _LINE * row:.1f}">{escape(line)}</text>'
                for row, line in enumerate(lines)
            )
        )
    size = placed.width + 2 * _MARGIN, placed.height + 2 * _MARGIN
    head = _HEAD.format(title=escape(title), margin=-_MARGIN, width=f"{size[0]:.1f}", height=f"{size[1]:.1f}")
    return "\n".join((head, *drawn, "</svg>\n"))


_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="{margin} {margin} {width} {height}" width="{width}" height="{height}">
<title>{title}</title>
<style>
rect {{ fill: #eef3fa; stroke: #3b5b8c; }} path {{ fill: none; stroke: #77889e; stroke-width: 1.2; }}
text {{ font: 13px ui-monospace, Consolas, monospace; fill: #16202e; text-anchor: middle; }}
</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">\
<path d="M 0 0 L 8 4 L 0 8 z" style="fill: #77889e; stroke: none"/></marker></defs>
<rect x="{margin}" y="{margin}" width="{width}" height="{height}" style="fill: #ffffff; stroke: none"/>"""
