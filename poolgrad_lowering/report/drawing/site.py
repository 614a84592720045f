# SPDX-License-Identifier: Apache-2.0

"""The drawing of one site for notebooks, collected before the model is rewritten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.families.verdicts import Lowered, Verdict
from poolgrad_lowering.report.drawing.graph import Graph
from poolgrad_lowering.report.drawing.parts import Parts
from poolgrad_lowering.rewriting.rewrite import Replacement

_CLASS = "poolgrad-drawing"


@dataclass(frozen=True)
class SiteDrawing:
    """A site before and after its lowering. `name` is its layer, or its identifier if the layer is not known."""

    name: str
    before: Graph
    after: Graph

    def to_html(self) -> str:
        """Return both drawings with their own style sheet, for a part of a page of other origin."""
        from poolgrad_lowering.report.drawing.markup import Markup, element  # noqa: PLC0415 - a lowering needs no markup
        from poolgrad_lowering.report.drawing.style import scoped  # noqa: PLC0415 - as above
        from poolgrad_lowering.report.drawing.svg import svg  # noqa: PLC0415 - as above
        from poolgrad_lowering.report.drawing.text import shown  # noqa: PLC0415 - as above

        figures = [
            element("figure", element("figcaption", caption), svg(graph, caption), style="margin: 0 1.5rem 0 0")
            for caption, graph in (
                (f"{shown(self.name)} before", self.before),
                (f"{shown(self.name)} after", self.after),
            )
        ]
        style = element("style", Markup(scoped(f".{_CLASS}")))
        frame = "display: flex; flex-wrap: wrap; overflow-x: auto; padding: 0.5rem; color: #1c2024; background: #fff"
        return element("div", style, *figures, class_=_CLASS, style=frame)


def first_site(facts: Facts, verdicts: Sequence[Verdict], replaced: Sequence[Replacement]) -> SiteDrawing | None:
    """Return the drawing of the first site, None if there is none."""
    site = next((verdict for verdict in verdicts if isinstance(verdict, Lowered)), None)
    if site is None:
        return None
    [replacement] = [one for one in replaced if one.site == site.site]
    parts = Parts(
        facts, [replacement, *(one for one in replaced if one.site is None and one.root == site.gradient.pooling)]
    )
    return SiteDrawing(replacement.layer or site.site, parts.before(site, replacement), parts.after(site, replacement))
