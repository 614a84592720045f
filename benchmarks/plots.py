# SPDX-License-Identifier: Apache-2.0

"""Plots as small SVG files, readable on light and dark pages. Knows nothing of what is plotted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_STYLE = """<style>
text { font: 12px system-ui, sans-serif; fill: #444 }
.bar { fill: #8a9bb0 } .own { fill: #2f81f7 } .mark { stroke: #444; stroke-width: 1.5 }
.axis { stroke: #999 } .line { stroke: #2f81f7; fill: none; stroke-width: 1.5; stroke-dasharray: 4 3 }
@media (prefers-color-scheme: dark) { text { fill: #bbb } .mark { stroke: #bbb } .axis { stroke: #777 } }
</style>"""


@dataclass(frozen=True)
class Bar:
    """A bar from zero to `value` with a whisker from `low` to `high`; `own` bars are highlighted."""

    label: str
    value: float
    low: float
    high: float
    shown: str
    own: bool = False


def bars(title: str, entries: Sequence[Bar]) -> str:
    """An SVG with horizontal bars. The axis is logarithmic if values differ by more than a factor of 20."""
    values = [entry.value for entry in entries]
    least = min(values) / 2 if max(values) > 20 * min(values) else 0.0
    left, right, top, step = 190, 500, 34, 24

    def place(value: float) -> float:
        if least:
            part = math.log(max(value, least) / least) / math.log(max(values) * 1.1 / least)
        else:
            part = value / (max(values) * 1.1)
        return left + part * (right - left)

    rows = [
        f'<text x="{left - 8}" y="{y + 12}" text-anchor="end">{escape(entry.label)}</text>'
        f'<rect class="{"own" if entry.own else "bar"}" x="{left}" y="{y}" width="{place(entry.value) - left:.1f}" '
        f'height="16"/>'
        f'<line class="mark" x1="{place(entry.low):.1f}" x2="{place(entry.high):.1f}" y1="{y + 8}" y2="{y + 8}"/>'
        f'<text x="{right + 8}" y="{y + 12}">{escape(entry.shown)}</text>'
        for y, entry in zip(range(top, top + step * len(entries), step), entries, strict=True)
    ]
    scale = " (logarithmic)" if least else ""
    return _svg(620, top + step * len(entries) + 6, [f'<text x="{left}" y="18">{escape(title + scale)}</text>', *rows])


@dataclass(frozen=True)
class Point:
    """A point with a whisker from `low` to `high`."""

    x: float
    y: float
    low: float
    high: float


def points(title: str, entries: Sequence[Point], slope: float, intercept: float) -> str:
    """An SVG with points and a straight line; both axes start at zero."""
    left, right, top, bottom = 46, 280, 34, 160
    most_x, most_y = max(entry.x for entry in entries) * 1.05, max(entry.high for entry in entries) * 1.1

    def at(x: float, y: float) -> tuple[float, float]:
        return left + x / most_x * (right - left), bottom - y / most_y * (bottom - top)

    def line(kind: str, start: tuple[float, float], end: tuple[float, float]) -> str:
        (x1, y1), (x2, y2) = start, end
        return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'

    drawn = [
        f'<text x="{left}" y="18">{escape(title)}</text>',
        line("axis", (left, bottom), (right, bottom)),
        line("axis", (left, bottom), (left, top)),
        line("line", at(0, intercept), at(most_x, intercept + slope * most_x)),
        f'<text x="{right}" y="{bottom + 16}" text-anchor="end">{max(entry.x for entry in entries):,.0f}</text>',
        f'<text x="{left - 4}" y="{top + 10}" text-anchor="end">{most_y:.2g} s</text>',
        f'<text x="{left - 4}" y="{bottom + 4}" text-anchor="end">0</text>',
    ]
    for entry in entries:
        x, y = at(entry.x, entry.y)
        drawn.append(line("mark", at(entry.x, entry.low), at(entry.x, entry.high)))
        drawn.append(f'<circle class="own" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>')
    return _svg(300, 184, drawn)


def _svg(width: int, height: int, drawn: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    return "\n".join([head, _STYLE, *drawn, "</svg>"]) + "\n"
