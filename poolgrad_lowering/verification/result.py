# SPDX-License-Identifier: Apache-2.0

"""The result of a verification as data and as text."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from poolgrad_lowering.model.diagnostics.text import counted, html_table, printable, with_layers

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Difference:
    """A difference of the two models outside the sites: its place, and a text."""

    where: str
    what: str


@dataclass(frozen=True)
class Mismatch:
    """The first element in which a site's two sides differ.

    `max_ulp` is the largest distance of two elements in ulp; None if one of them is NaN, or if the tensors are not
    floats of the same type and shape.
    """

    run: int
    output: str
    what: str
    index: tuple[int, ...] | None = None
    expected: str | None = None
    found: str | None = None
    max_ulp: int | None = None


@dataclass(frozen=True)
class SiteResult:
    """The result for one site, a region in which the models differ and that contains a node of the dialect.

    `name` is the site's identifier as in the report on the lowering; `layer` is the path of the module of a PyTorch
    model that it belongs to. Both come from the metadata of nodes; without it, `name` is the scope, a colon and the
    last value that both sides define, and `layer` None.
    `status` is "proven" (every run gave the same bits), "differs" (with `mismatch`) or "unproven" (with `reason`).
    `gradients` are the outputs of its gradient nodes; `expanded` are those of them that the nodes of a function body
    compute, which the execution provider does not run. `removed` and `added` are numbers of nodes; `reproducer` is the
    folder with the smallest failing case.
    """

    name: str
    scope: str
    status: str
    gradients: tuple[str, ...]
    removed: int
    added: int
    runs: int = 0
    not_drawn: tuple[str, ...] = ()
    mismatch: Mismatch | None = None
    reason: str | None = None
    reproducer: str | None = None
    expanded: tuple[str, ...] = ()
    layer: str | None = None


@dataclass(frozen=True)
class LevelResult:
    """Both models run from end to end at one optimisation level of onnxruntime, "default" or "ORT_DISABLE_ALL".

    Models of half precision may have a further level, "ORT_DISABLE_ALL with every rounding". `status` is "same",
    "differs" (the outputs differ, or the lowered model does not run) or "skipped" (the original does not run, or the
    outputs differ by roundings that are explained); `reason` says why. `ran`: whether both models ran.
    """

    level: str
    status: str
    reason: str | None = None
    ran: bool = True


@dataclass(frozen=True)
class WholeModel:
    """Both models run from end to end: a result for each optimisation level that was needed, none if nothing was run.

    `status` is "differs" if that of any level is, else "same" if that of any level is, else "skipped". `reason` joins
    the reasons of the levels with that status.
    """

    status: str
    reason: str | None = None
    levels: tuple[LevelResult, ...] = ()

    @property
    def ran(self) -> bool:
        """Whether both models ran at a level."""
        return any(level.ran for level in self.levels)

    @classmethod
    def of_levels(cls, levels: tuple[LevelResult, ...]) -> WholeModel:
        """Return the result for these levels."""
        found = {level.status for level in levels}
        status = next(status for status in ("differs", "same", "skipped") if status in found)
        places: dict[str, list[str]] = {}
        for each in levels:
            if each.status == status and each.reason:
                places.setdefault(each.reason, []).append(each.level)
        texts = [f"at level {' and '.join(names)}: {reason}" for reason, names in places.items()]
        return cls(status, "; ".join(texts) or None, levels)


@dataclass(frozen=True)
class OperatorResult:
    """The result for an operator of a training runtime that the lowered model has in standard ONNX.

    `status` is "proven" (each of the `nodes` gave the results of onnxruntime's kernel, up to rounding), "differs" or
    "unproven", with a `reason`. `error` is the largest difference, relative to the largest element that a node reads or
    writes.
    """

    operator: str
    status: str
    nodes: int
    error: float = 0.0
    reason: str | None = None

    def joined(self, other: OperatorResult) -> OperatorResult:
        """Return the result for the nodes of both: the worse status, with its reason."""
        order = ("proven", "unproven", "differs")
        worse = max(self, other, key=lambda each: order.index(each.status))
        nodes, error = self.nodes + other.nodes, max(self.error, other.error)
        return OperatorResult(self.operator, worse.status, nodes, error, worse.reason)


@dataclass(frozen=True)
class Verification:
    """The result of a verification: the sites, the differences outside them, and the runs of the whole models.

    `new_inputs` are the initializers of the original that the lowered model has as inputs, without a value. `operators`
    are those of training runtimes that the lowered model has in standard ONNX.
    """

    seed: int
    backend: str
    sites: tuple[SiteResult, ...]
    differences: tuple[Difference, ...]
    whole_model: WholeModel
    seconds: float
    new_inputs: tuple[str, ...] = ()
    operators: tuple[OperatorResult, ...] = ()

    @property
    def proven(self) -> bool:
        """Whether every site and every operator is proven, and nothing else differs; see `sites_only`."""
        statuses = {*(site.status for site in self.sites), *(found.status for found in self.operators)}
        return statuses <= {"proven"} and not self.differences and self.whole_model.status != "differs"

    @property
    def sites_only(self) -> bool:
        """Whether the whole models did not run: only sites, operators and the bytes of all else were compared."""
        return not self.whole_model.ran

    @property
    def first_failure(self) -> SiteResult | None:
        """The first site that differs, else the first that is unproven."""
        failed = (site for status in ("differs", "unproven") for site in self.sites if site.status == status)
        return next(failed, None)

    def __repr__(self) -> str:
        return f"<Verification: {self._totals()}>"

    def _repr_html_(self) -> str:
        rows = [
            (site.name, site.status, site.reason or (site.mismatch.what if site.mismatch else ""))
            for site in self.sites
        ]
        rows += [(difference.where, "differs", difference.what) for difference in self.differences]
        layers = [*(site.layer for site in self.sites), *(None for _ in self.differences)]
        return html_table(self._totals(), *with_layers(layers, ("site", "status", "what"), rows))

    def _totals(self) -> str:
        return (
            f"{'proven' if self.proven else 'not proven'}, {counted(len(self.sites), 'site')}, "
            f"{counted(len(self.differences), 'difference')} outside of sites, whole model: "
            f"{'not run' if self.sites_only else self.whole_model.status}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data, described in `docs/verify.md`."""
        return {"schema_version": SCHEMA_VERSION, "proven": self.proven, "sites_only": self.sites_only, **asdict(self)}

    def to_json(self) -> str:
        """Return the result as JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"


class UnprovenError(Exception):
    """A site can be neither proven nor disproven, for the reason in the message. Internal to this package."""


def site_row(site: SiteResult) -> tuple[str, str, str]:
    """Return a site's identifier, its status and a text on its result."""
    if site.mismatch is not None:
        return site.name, site.status, mismatch_text(site.mismatch)
    if site.reason is not None:
        return site.name, site.status, site.reason
    left_out = f"; not drawn: {', '.join(site.not_drawn)}" if site.not_drawn else ""
    for_atc = "; expanded as for ATC: the execution provider has no gradient to run here" if site.expanded else ""
    return site.name, site.status, f"{counted(site.runs, 'run')}{left_out}{for_atc}"


def operator_row(found: OperatorResult) -> tuple[str, str, str]:
    """Return an operator, its status and a text on its result."""
    if found.reason is not None:
        return found.operator, found.status, found.reason
    return found.operator, found.status, f"{counted(found.nodes, 'node')}, differences up to {found.error:.1e}"


def whole_lines(found: Verification) -> list[str]:
    """Return a line for each level at which the whole models were run, or one line on why they were not."""
    subject, whole = _compared(found), found.whole_model
    if not whole.levels:
        return [_whole_line(subject, whole)]
    return [_whole_line(f"{subject}, level {each.level}", each) for each in whole.levels]


def _whole_line(subject: str, result: WholeModel | LevelResult) -> str:
    return f"{subject}: {result.status}{f', {result.reason}' if result.reason else ''}"


def _compared(found: Verification) -> str:
    """Return what runs beside the original: of a model in standard ONNX the one with its operators put back."""
    return "whole model with the operators put back" if found.operators else "whole model"


def inputs_line(found: Verification) -> str:
    """Return a line on the initializers that became inputs; empty if there are none."""
    names = ", ".join(f"'{name}'" for name in found.new_inputs)
    return names and f"inputs of the lowered model instead of initializers, compared with their values: {names}"


def mismatch_text(found: Mismatch) -> str:
    """Return a text on where two results differ, and by how much."""
    where = ""
    if found.index is not None:
        where = f", the first at {list(found.index)}: {found.found}, expected {found.expected}"
    ulp = f"; at most {found.max_ulp} ulp" if found.max_ulp is not None else ""
    return f"run {found.run}, output '{found.output}': {found.what}{where}{ulp}"


def proven_text(found: Verification) -> str:
    """Return a text on what the proof of a model consists of."""
    runs = counted(sum(site.runs for site in found.sites), "run")
    parts = [f"{counted(len(found.sites), 'site')} by {runs}"]
    if found.operators:
        nodes = counted(sum(operator.nodes for operator in found.operators), "node")
        parts.append(f"{nodes} of {counted(len(found.operators), 'operator')} in standard ONNX")
    whole = found.whole_model
    text = f"not run, {whole.reason}" if found.sites_only else whole.status
    return ", ".join([*parts, "no difference outside of sites", f"{_compared(found)}: {text}"])


def totals_text(found: Verification) -> str:
    """Return the numbers of sites and differences, and whether the whole models did not run."""
    parts = [
        counted(len(found.sites), "site"),
        f"{sum(site.status == 'proven' for site in found.sites)} proven",
        f"{counted(len(found.differences), 'difference')} outside of sites",
    ]
    return ", ".join([*parts, *(["whole models not run"] if found.sites_only else [])])


def failure_text(found: Verification) -> str:
    """Return the first failure as one printable line; empty if there is none."""
    return printable(_failure(found))


def _failure(found: Verification) -> str:
    site = found.first_failure
    if site is not None and site.mismatch is not None:
        written = f"; reproducer in {site.reproducer}" if site.reproducer else ""
        return f"site {_named(site)} differs (seed {found.seed}): {site_row(site)[2]}{written}"
    if found.differences:
        return f"{found.differences[0].where}: {found.differences[0].what}"
    if found.whole_model.status == "differs":
        return f"the whole models differ {found.whole_model.reason}"
    operator = next((each for each in found.operators if each.status != "proven"), None)
    if operator is not None:
        verdict = "is unproven" if operator.status == "unproven" else "differs"
        return f"operator {operator.operator} {verdict}: {operator.reason}"
    return "" if site is None else f"site {_named(site)} is unproven: {site_row(site)[2]}"


def _named(site: SiteResult) -> str:
    return f"'{site.name}'" if site.layer is None else f"'{site.name}' of layer '{site.layer}'"
