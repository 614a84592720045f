# SPDX-License-Identifier: Apache-2.0

"""The result of a verification as text."""

from __future__ import annotations

from poolgrad_lowering.model.diagnostics.text import counted, printable
from poolgrad_lowering.verification.result import (
    LevelResult,
    Mismatch,
    OperatorResult,
    SiteResult,
    Verification,
    WholeModel,
)


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
