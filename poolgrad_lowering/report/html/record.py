# SPDX-License-Identifier: Apache-2.0

"""The data that the page shows for each anchor, collected before the model is rewritten. Knows nothing of HTML."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from poolgrad_lowering.compiler.families.registry import family_of
from poolgrad_lowering.compiler.families.shared.derivation import Derivation
from poolgrad_lowering.compiler.families.verdicts import Refused
from poolgrad_lowering.compiler.lowering.pipeline import Decisions
from poolgrad_lowering.dialect import DOMAIN
from poolgrad_lowering.ge.placement import Placement
from poolgrad_lowering.model.diagnostics.diagnostic import reading_order
from poolgrad_lowering.report.drawing.graph import Graph
from poolgrad_lowering.report.drawing.parts import Parts

MAX_DRAWN = 200
"""The number of anchors whose graphs are drawn, the first ones of the page; the others are shown without drawings."""


class AnchorRecord(NamedTuple):
    """An anchor: its position in the node list of its graph, the names of its values, its drawings, and its derivation.

    `before` and `after` are None if they are not drawn, `derivation` is None if the anchor was not lowered.
    """

    position: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    before: Graph | None
    after: Graph | None
    derivation: Derivation | None


class Recorder:
    """An observer of a lowering that collects a record per anchor, in order.

    `written` counts the new nodes outside the dialect by operator. `placement` says where the nodes of the lowered
    model run; it is set after the lowering, and None without a map.
    """

    def __init__(self) -> None:
        self.anchors: list[AnchorRecord] = []
        self.written: Counter[str] = Counter()
        self.placement: Placement | None = None

    def __call__(self, decisions: Decisions) -> None:
        """Collect all records."""
        facts, verdicts, replaced = decisions.facts, decisions.verdicts, decisions.replaced
        for one in replaced:
            self.written.update(node.op_type for node in one.nodes if node.domain != DOMAIN)
        parts, of_sites = Parts(facts, replaced), {one.site: one for one in replaced}
        numbers = sorted(range(len(verdicts)), key=lambda number: reading_order(verdicts[number].status))
        first = frozenset(numbers[:MAX_DRAWN])
        for number, verdict in enumerate(verdicts):
            before = after = derivation = None
            if isinstance(verdict, Refused):
                before = parts.around(verdict.anchor) if number in first else None
            else:
                derivation = family_of(verdict.gradient).derivation(verdict)
                if number in first:
                    replacement = of_sites[verdict.site]
                    before, after = parts.before(verdict, replacement), parts.after(verdict, replacement)
            anchor = verdict.anchor
            inputs, outputs = (tuple(value.name for value in ends if value) for ends in (anchor.inputs, anchor.outputs))
            self.anchors.append(AnchorRecord(anchor.position, inputs, outputs, before, after, derivation))
