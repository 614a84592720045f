# SPDX-License-Identifier: Apache-2.0

"""The report of a lowering as data: what was done with every anchor.

Schema version 1 is documented in `docs/report.md`; fields are added, never renamed.
"""

from __future__ import annotations

import json
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from poolgrad_lowering.model.diagnostics.codes import DEFECTS
from poolgrad_lowering.model.diagnostics.diagnostic import Status, reading_order
from poolgrad_lowering.model.diagnostics.text import counted, html_table, with_layers
from poolgrad_lowering.model.io.external_files import DataWarning
from poolgrad_lowering.patterns import BrokenPlugin

if TYPE_CHECKING:
    from poolgrad_lowering.compiler.lowering.plan import LoweringPlan
    from poolgrad_lowering.ge.records import PlacementReport, Way
    from poolgrad_lowering.standard.result import Standardised

SCHEMA_VERSION = 1
_DEFECTS = {code.value for code in DEFECTS}
_LISTS = ("anchors", "broken_plugins", "warnings", "ways", "notes", "operators")
"""The fields of a report that are lists of records."""


class AnchorReport(NamedTuple):
    """What was done with one anchor, a node that can be a pool gradient. `site` is its identifier, unique in the model.

    `status` is "lowered", "refused", or "unrelated" if the anchor is proven to be no gradient of a pool. Lowered
    anchors have `op` and `attributes` (those of the dialect node) and `alternatives`, the other operators that a plan
    may choose; the others have `code` and `reason`. `forward_op` is the dialect operator of the forward pool;
    `forward_code` and `forward_reason` say why the pool was not lowered. All three are None if forward pools were not
    to be lowered. `trusted_defaults` names the graph inputs whose defaults the proof takes for constants
    (`trust_defaults`), None if there are none. `pattern` is the form that matched, None if none did.
    `layer` is the path of the module of a PyTorch model that the gradient belongs to (`features.3`), None if not known.
    """

    name: str
    site: str
    op_type: str
    domain: str
    scope: str
    status: str
    pattern: str | None = None
    op: str | None = None
    attributes: dict[str, Any] | None = None
    alternatives: list[str] | None = None
    code: str | None = None
    reason: str | None = None
    forward_op: str | None = None
    forward_code: str | None = None
    forward_reason: str | None = None
    trusted_defaults: list[str] | None = None
    layer: str | None = None


class Note(NamedTuple):
    """A sentence on the model as a whole, with its code; `warning` is whether the user has to change something."""

    code: str
    warning: bool
    text: str


class OperatorCount(NamedTuple):
    """The number of nodes of an operator before and after the lowering, without function bodies of the dialect.

    ONNX's own domain is the empty string.
    """

    domain: str
    op_type: str
    before: int
    after: int


class Report(NamedTuple):
    """All anchors in the order of the model, totals, forms of other packages that could not be used, warnings about
    external data, notes on the model as a whole, and all operators sorted by domain and name. `ways` is empty and
    `placement` None except in the report of an inspected file. `standard` says what became of the operators of training
    runtimes, None if they were not to be replaced.

    Node counts include all graphs and functions, without the function bodies that the lowering adds. Bytes are those of
    the serialised model; seconds are wall time.
    """

    target: str
    anchors: tuple[AnchorReport, ...]
    nodes_before: int
    nodes_after: int
    bytes_before: int
    bytes_after: int
    seconds: float
    broken_plugins: tuple[BrokenPlugin, ...] = ()
    warnings: tuple[DataWarning, ...] = ()
    ways: tuple[Way, ...] = ()
    notes: tuple[Note, ...] = ()
    operators: tuple[OperatorCount, ...] = ()
    placement: PlacementReport | None = None
    standard: Standardised | None = None

    @property
    def refused_by_code(self) -> dict[str, int]:
        """The number of refused anchors by code."""
        return dict(sorted(Counter(anchor.code for anchor in self.refused if anchor.code).items()))

    @property
    def lowered(self) -> tuple[AnchorReport, ...]:
        """The anchors that were lowered."""
        return self._with(Status.LOWERED)

    @property
    def refused(self) -> tuple[AnchorReport, ...]:
        """The anchors that were refused."""
        return self._with(Status.REFUSED)

    @property
    def unrelated(self) -> tuple[AnchorReport, ...]:
        """The anchors that are proven to be no gradient of a pool."""
        return self._with(Status.UNRELATED)

    @property
    def defects(self) -> tuple[AnchorReport, ...]:
        """The anchors on which a form raised an error."""
        return tuple(anchor for anchor in self.refused if anchor.code in _DEFECTS)

    @property
    def incomplete(self) -> bool:
        """Whether an anchor was refused, or a node was left that was to be replaced by its definition."""
        return bool(self.refused) or (self.standard is not None and bool(self.standard.left))

    @property
    def for_people(self) -> tuple[AnchorReport, ...]:
        """The anchors in the order in which people read them: lowered, refused, unrelated."""
        return tuple(sorted(self.anchors, key=lambda anchor: reading_order(anchor.status)))

    @property
    def totals(self) -> str:
        """The numbers of anchors and nodes as text for people; unrelated anchors are named if there are any."""
        unrelated = f", {len(self.unrelated)} unrelated" if self.unrelated else ""
        return (
            f"{counted(len(self.anchors), 'anchor')}, {len(self.lowered)} lowered, {len(self.refused)} refused"
            f"{unrelated}; nodes {self.nodes_before} → {self.nodes_after}"
        )

    def _with(self, status: Status) -> tuple[AnchorReport, ...]:
        return tuple(anchor for anchor in self.anchors if anchor.status == status)

    def __repr__(self) -> str:
        return f"<Report for {self.target}: {self.totals}>"

    def _repr_html_(self) -> str:
        anchors = self.for_people
        rows = [(a.site, a.status, a.op or f"{a.code}: {a.reason}") for a in anchors]
        header = "anchor", "status", "what"
        return html_table(f"{self.target}: {self.totals}", *with_layers([a.layer for a in anchors], header, rows))

    def plan(self, model_sha256: str) -> LoweringPlan:
        """Return the plan of this lowering, for the model with this SHA-256 in hexadecimal."""
        from poolgrad_lowering.compiler.lowering.plan import LoweringPlan, SiteChoice  # noqa: PLC0415 - needed only here

        choices = (
            SiteChoice(one.site, one.op, one.forward_op, one.pattern, tuple(one.alternatives or ()), layer=one.layer)
            for one in self.lowered
        )
        trusting = any(anchor.trusted_defaults for anchor in self.lowered)
        return LoweringPlan(self.target, model_sha256, tuple(choices), trusting)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data with the keys of the JSON report."""
        return {
            "schema_version": SCHEMA_VERSION,
            "target": self.target,
            **{name: [deepcopy(each._asdict()) for each in getattr(self, name)] for name in _LISTS},
            "placement": None if self.placement is None else self.placement.to_dict(),
            "standard": None if self.standard is None else self.standard.to_dict(),
            "summary": {
                "anchors": len(self.anchors),
                "lowered": len(self.lowered),
                "refused": len(self.refused),
                "unrelated": len(self.unrelated),
                "refused_by_code": self.refused_by_code,
                "nodes_before": self.nodes_before,
                "nodes_after": self.nodes_after,
                "bytes_before": self.bytes_before,
                "bytes_after": self.bytes_after,
                "bytes_saved": self.bytes_before - self.bytes_after,
                "seconds": self.seconds,
            },
        }

    def to_json(self) -> str:
        """Return the report as JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class FileResult:
    """The result for one model: its path relative to the folder, and its report or its error.

    A folder that cannot be read is a result with an error. A model that `strict` did not write has both. `written` is
    whether the model was written.
    """

    path: str
    report: Report | None = None
    error: str | None = None
    written: bool = False
