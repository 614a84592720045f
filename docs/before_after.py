# SPDX-License-Identifier: Apache-2.0

"""Draws a site before and after its lowering as one SVG for the README, with the drawings and colours of the report.

The site is the gradient of LeNet's first pool, as PyTorch writes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import onnx

from poolgrad_lowering.compiler.lowering.options import Options
from poolgrad_lowering.entry.lower import lower_in_place
from poolgrad_lowering.model.gate.gate import Gate
from poolgrad_lowering.report.drawing.graph import Graph, Kind
from poolgrad_lowering.report.drawing.markup import Markup, element
from poolgrad_lowering.report.drawing.svg import stylesheet, svg
from poolgrad_lowering.report.html import Recorder
from poolgrad_lowering.report.html.anchor import KEY

_MODEL = Path(__file__).parents[1] / "models" / "built" / "torch" / "lenet.onnx"
_SCATTERED = "scatter_add_1"
_HEADINGS = ("Before, as PyTorch writes it", "After, for the NPU")

_MARGIN, _GAP, _LINE, _BASE = 16.0, 32.0, 30.0, 14.0
"""Pixels: around the picture, between the drawings, the height of a line of text, and the offset of its base line."""

_PATCH, _COLUMN = 24.0, 7.3
"""Pixels: the width of a patch of colour in the key, and of a character beside it."""

_STYLE = "svg .page { fill: var(--page); stroke: none; } svg .label { text-anchor: start; }"


def picture() -> str:
    """The SVG: the two drawings side by side under their headings, and what the colours mean.

    It has its own background, and follows its reader's choice of light or dark.
    """
    graphs = _graphs()
    drawings = [svg(graph, heading) for graph, heading in zip(graphs, _HEADINGS, strict=True)]
    (width, height), (right_width, right_height) = map(_size, drawings)
    starts = (_MARGIN, _MARGIN + width + _GAP)
    key = _MARGIN + _LINE + max(height, right_height) + _LINE / 2
    size = (starts[1] + right_width + _MARGIN, key + _LINE + _MARGIN / 2)
    content = [
        element("title", "The gradient of a max pool before and after its lowering"),
        element("style", Markup(_style())),
        element("rect", width="100%", height="100%", class_="page"),
        *(_label(heading, x, _MARGIN, "heading ") for heading, x in zip(_HEADINGS, starts, strict=True)),
        *(
            element("g", drawing, transform=f"translate({x:.1f} {_MARGIN + _LINE:.1f})")
            for drawing, x in zip(drawings, starts, strict=True)
        ),
        *_key({box.kind.value for graph in graphs for box in graph.boxes}, key),
    ]
    wide, tall = (f"{side:.0f}" for side in size)
    picture = element(
        "svg",
        *content,
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        width=wide,
        height=tall,
        viewBox=f"0 0 {wide} {tall}",
    )
    return f"{picture}\n"


def _graphs() -> tuple[Graph, Graph]:
    recorder = Recorder()
    lower_in_place(onnx.load(_MODEL), Options(), Gate(), recorder)
    [site] = [record for record in recorder.anchors if record.outputs == (_SCATTERED,)]
    if site.before is None or site.after is None:
        raise ValueError(f"{_SCATTERED} is not drawn")
    return _without_node_names(site.before), _without_node_names(site.after)


def _without_node_names(graph: Graph) -> Graph:
    """The graph without the first line below each operator, which is the long name of its node."""
    values = (Kind.OUTSIDE, Kind.RESULT)
    boxes = (box if box.kind in values else box._replace(lines=box.lines[1:]) for box in graph.boxes)
    return graph._replace(boxes=tuple(boxes))


def _size(drawing: str) -> tuple[float, float]:
    root = ET.fromstring(drawing)
    return float(root.get("width", "")), float(root.get("height", ""))


def _style() -> str:
    """The report's colours and its rules for drawings."""
    style = stylesheet()
    return style[style.index(":root") :] + _STYLE


def _label(text: str, x: float, y: float, kind: str = "") -> Markup:
    return element("text", text, x=f"{x:.1f}", y=f"{y + _BASE:.1f}", class_=f"{kind}label")


def _key(kinds: set[str], y: float) -> Iterator[Markup]:
    """A patch of colour and its meaning for each of the kinds, from left to right."""
    x = _MARGIN
    for kind, meaning in KEY:
        if kind in kinds:
            patch = element("rect", x=f"{x:.1f}", y=f"{y + 3:.1f}", width=f"{_PATCH:.0f}", height="14", rx="4")
            yield element("g", patch, class_=f"box {kind}")
            yield _label(meaning, x + _PATCH + 8, y)
            x += _PATCH + 32 + len(meaning) * _COLUMN
