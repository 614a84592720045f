# SPDX-License-Identifier: Apache-2.0

"""The pass: index, match, select, join, emit, report, rewrite. Each step is a module or a function with one result.

Until `rewrite` the model is not changed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from onnx import ModelProto

from poolgrad_lowering.compiler.families.registry import Choices
from poolgrad_lowering.compiler.families.verdicts import Lowered, LoweredOp, Refused, Verdict
from poolgrad_lowering.compiler.lowering.apply_plan import check_forward_pools
from poolgrad_lowering.compiler.lowering.emit import emit
from poolgrad_lowering.compiler.lowering.join import join
from poolgrad_lowering.compiler.lowering.match import match_anchors
from poolgrad_lowering.compiler.lowering.options import Options
from poolgrad_lowering.compiler.lowering.select import select
from poolgrad_lowering.compiler.lowering.switches import dump
from poolgrad_lowering.compiler.rewriting.rewrite import Replacement, names, rewrite
from poolgrad_lowering.model.diagnostics.codes import Refusal
from poolgrad_lowering.model.diagnostics.status import Status
from poolgrad_lowering.model.diagnostics.text import counted
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.gate.gate import Gate
from poolgrad_lowering.model.io.external_data import ExternalData
from poolgrad_lowering.model.io.external_files import data_warnings
from poolgrad_lowering.model.ir.collector import collector_paused
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.metadata import layer_of
from poolgrad_lowering.patterns import broken_plugins
from poolgrad_lowering.report.drawing.parts import first_site
from poolgrad_lowering.report.notes import Operators, count_operators, edited, notes
from poolgrad_lowering.report.report import AnchorReport, OperatorCount, Report
from poolgrad_lowering.standard.result import Standardised

logger = logging.getLogger(__name__)

Observer = Callable[[Facts, Sequence[Verdict], Sequence[Replacement]], None]
"""Called with the final verdicts and the replacements before the model is changed."""


@dataclass(frozen=True)
class Outcome:
    """The result of a lowering: its report, but for the model's sizes in bytes, which are known when it is written."""

    unsized: Report

    @property
    def changed(self) -> bool:
        """Whether the model is another one: a gradient was lowered, or an operator replaced by its definition."""
        standard = self.unsized.standard
        return bool(self.unsized.lowered) or (standard is not None and bool(standard.replaced))

    def report(self, bytes_before: int, bytes_after: int) -> Report:
        """Return the report, given the sizes of the serialised model."""
        return replace(self.unsized, bytes_before=bytes_before, bytes_after=bytes_after)


@collector_paused()
def lower_in_place(model: ModelProto, options: Options, gate: Gate, observer: Observer | None = None) -> Outcome:
    """As `lower`, but modifies the model and calls `observer` first. Raises `InvalidModelError` and `PlanError`."""
    started, target, plan = time.perf_counter(), options.product, options.plan
    index = gate.index(model)
    warnings = data_warnings(gate.external, gate.folder)
    facts = Facts(index, ExternalData(gate.folder, gate.limits), trust_defaults=options.trusts_defaults)

    choices = Choices(target)
    selected, bodies = select(index, match_anchors(index, facts, choices), options)
    taken = names(index) if any(verdict.status == Status.LOWERED for verdict in selected) else set()
    joined = join(selected, target, bodies, taken, forward=options.forward)
    if plan is not None:
        check_forward_pools(plan, joined.sites)
    replaced = emit(facts, joined, taken)

    dump(replaced)
    if observer is not None:
        observer(facts, joined.verdicts, replaced)
    report = _describe(index, facts, joined.verdicts, replaced, choices)  # before the rewrite, which removes names
    growth = rewrite(index, replaced, bodies, joined.added_outputs)
    index.release()
    for anchor in report.anchors:
        logger.debug("%s %s: %s", anchor.site, anchor.status, anchor.op or f"{anchor.code}, {anchor.reason}")
    logger.info("lowered %d of %s for %s", len(joined.sites), counted(len(report.anchors), "anchor"), target.name)
    if options.standard:
        standard = standardise_in_place(model, gate)
        growth += standard.growth
        report = replace(report, operators=_counts_after(report.operators, model), standard=standard)
    nodes_after, seconds = report.nodes_before + growth, time.perf_counter() - started
    return Outcome(replace(report, nodes_after=nodes_after, seconds=seconds, warnings=warnings))


def standardise_in_place(model: ModelProto, gate: Gate) -> Standardised:
    """Write the operators of training runtimes that are left in the model in standard ONNX."""
    from poolgrad_lowering.standard.rewrite import standardise  # noqa: PLC0415 - what a plain lowering does not load

    index = gate.index(model)
    return standardise(model, index, Facts(index, ExternalData(gate.folder, gate.limits)))


def _describe(
    index: ModelIndex, facts: Facts, verdicts: Sequence[Verdict], replaced: Sequence[Replacement], choices: Choices
) -> Report:
    """Return what the report says of the sites; the model is still as it was."""
    operators, nodes = count_operators(index), sum(len(scope.proto.node) for scope in index.scopes)
    layers = {one.site: one.layer for one in replaced if one.site is not None}
    anchors = tuple(
        describe(verdict, layers.get(verdict.site) or layer_of(verdict.anchor.proto), choices) for verdict in verdicts
    )
    in_onnx = sum(isinstance(verdict, Lowered) and verdict.gradient.in_onnx for verdict in verdicts)
    has_anchors = any(anchor.status != Status.UNRELATED for anchor in anchors)
    return Report(
        target=choices.target.name,
        anchors=anchors,
        nodes_before=nodes,
        nodes_after=nodes,
        bytes_before=0,
        bytes_after=0,
        seconds=0,
        broken_plugins=broken_plugins(),
        notes=notes(index, operators, choices.target, has_anchors=has_anchors, in_onnx=in_onnx),
        operators=_operator_counts(operators, replaced),
        drawing=first_site(facts, verdicts, replaced),
    )


def _counts_after(counts: Sequence[OperatorCount], model: ModelProto) -> tuple[OperatorCount, ...]:
    """Return counts of operators with the numbers that the model has now."""
    before = {(count.domain, count.op_type): count.before for count in counts}
    after = count_operators(ModelIndex(model))
    return tuple(OperatorCount(*op, before.get(op, 0), after[op]) for op in sorted({*before, *after}))


def _operator_counts(before: Operators, replaced: Sequence[Replacement]) -> tuple[OperatorCount, ...]:
    after = edited(
        before,
        (node for replacement in replaced for node in replacement.region.producers),
        (node for replacement in replaced for node in replacement.nodes),
    )
    return tuple(OperatorCount(*op, before[op], number) for op, number in sorted(after.items()))


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
