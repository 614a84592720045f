# SPDX-License-Identifier: Apache-2.0

"""Draws the losses of several trainings as an SVG: a curve each, over the steps, on a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 640, 320, 56, 16, 40
_LOW, _HIGH = 1e-3, 4.0
"""The ends of the axis of losses; a smaller loss is drawn at its lower end."""

_STYLES = (("#3b5b8c", 6, ""), ("#e08214", 3, ""), ("#16202e", 1.2, "5 4"))
"""Colour, width and dashes of each curve. Curves that lie on each other stay visible: the first is the widest."""

_PAIRS = (
    ("#3b5b8c", "#16202e"),
    ("#e08214", "#7f3b08"),
    ("#7fb57a", "#1b5e20"),
    ("#b58ec2", "#4a148c"),
    ("#e6a5a1", "#8c1c13"),
)
"""Colours of pairs of curves: the one below, and the one on it."""

_AVERAGED = 15
"""Steps over which a curve is averaged."""


@dataclass(frozen=True)
class Curve:
    """The losses of a training, step by step."""

    name: str
    losses: Sequence[float]


def draw(curves: Sequence[Curve]) -> str:
    """Return an SVG of the curves, each averaged over the steps before."""
    parts = [_HEAD, *(_grid(value) for value in (1.0, 0.1, 0.01))]
    for number, curve in enumerate(curves):
        colour, width, dashes = _STYLES[number]
        line = f'fill="none" stroke="{colour}" stroke-width="{width}" stroke-dasharray="{dashes}"'
        parts.append(f'<path d="{_path(curve.losses)}" {line}/>')
        y = _TOP + 18 + 20 * number
        parts.append(f'<path d="M {_WIDTH - 190} {y} h 36" {line}/>')
        parts.append(f'<text x="{_WIDTH - 146}" y="{y + 4}">{curve.name}</text>')
    steps = len(curves[0].losses)
    parts.append(f'<text x="{_LEFT}" y="{_HEIGHT - 12}">loss over {steps} steps</text>')
    return "\n".join([*parts, "</svg>\n"])


def draw_pairs(pairs: Sequence[tuple[Curve, Curve]], title: str) -> str:
    """Return an SVG of pairs of curves, the second of each dashed on the first; names are those of the first."""
    head = _HEAD.replace("Losses of three trainings of the same network.", title)
    parts = [head, *(_grid(value) for value in (1.0, 0.1, 0.01))]
    for number, (below, above) in enumerate(pairs):
        light, dark = _PAIRS[number]
        x, y = _WIDTH - 250, _TOP + 76 + 18 * number
        for curve, style in ((below, (light, 6, "")), (above, (dark, 1.4, "5 4"))):
            colour, width, dashes = style
            line = f'fill="none" stroke="{colour}" stroke-width="{width}" stroke-dasharray="{dashes}"'
            parts.append(f'<path d="{_path(curve.losses)}" {line}/>')
            parts.append(f'<path d="M {x} {y} h 36" {line}/>')
        parts.append(f'<text x="{x + 44}" y="{y + 4}">{below.name}</text>')
    steps = len(pairs[0][0].losses)
    parts.append(f'<text x="{_LEFT}" y="{_HEIGHT - 12}">loss over {steps} steps</text>')
    return "\n".join([*parts, "</svg>\n"])


def _path(losses: Sequence[float]) -> str:
    averages = [
        sum(losses[max(0, end - _AVERAGED) : end]) / (end - max(0, end - _AVERAGED))
        for end in range(1, len(losses) + 1)
    ]
    scale = (_WIDTH - _LEFT - 8) / max(1, len(losses) - 1)
    return "M " + " L ".join(f"{_LEFT + step * scale:.1f} {_y(loss):.1f}" for step, loss in enumerate(averages))


def _y(loss: float) -> float:
    part = math.log(_HIGH / min(max(loss, _LOW), _HIGH)) / math.log(_HIGH / _LOW)
    return _TOP + part * (_HEIGHT - _TOP - _BOTTOM)


def _grid(loss: float) -> str:
    y = _y(loss)
    return (
        f'<path d="M {_LEFT} {y:.1f} H {_WIDTH - 8}" stroke="#d5dbe5" fill="none"/>'
        f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{loss:g}</text>'
    )


_HEAD = f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}">
<title>Losses of three trainings of the same network.</title>
<style>text {{ font: 13px ui-sans-serif, sans-serif; fill: #16202e; }}</style>
<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>"""
