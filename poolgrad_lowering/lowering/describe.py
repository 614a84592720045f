# SPDX-License-Identifier: Apache-2.0

"""Describes the verdict on an anchor for the report."""

from __future__ import annotations

from typing import Any

from poolgrad_lowering.diagnostics.codes import Refusal
from poolgrad_lowering.families.registry import Choices
from poolgrad_lowering.families.verdicts import LoweredOp, Refused, Verdict
from poolgrad_lowering.report.report import AnchorReport


def describe(verdict: Verdict, layer: str | None, choices: Choices) -> AnchorReport:
    """Return the entry of the report for an anchor, which belongs to `layer` of the model if that is known."""
    anchor = verdict.anchor
    domain, op_type = anchor.op
    common: dict[str, Any] = {
        "name": anchor.label,
        "site": verdict.site,
        "op_type": op_type,
        "domain": domain,
        "scope": anchor.scope.path,
        "status": verdict.status.value,
        "layer": layer,
    }
    if isinstance(verdict, Refused):
        refusal = verdict.refusal
        return AnchorReport(**common, pattern=verdict.pattern, code=refusal.code.value, reason=refusal.reason)
    forward = verdict.forward
    stays = forward if isinstance(forward, Refusal) else None
    return AnchorReport(
        **common,
        pattern=verdict.pattern,
        op=verdict.op.name,
        attributes=dict(verdict.op.attributes),
        alternatives=choices.alternatives(verdict.gradient, verdict.op.name),
        forward_op=forward.name if isinstance(forward, LoweredOp) else None,
        forward_code=stays.code.value if stays is not None else None,
        forward_reason=stays.reason if stays is not None else None,
        trusted_defaults=list(verdict.trusted_defaults) or None,
    )
