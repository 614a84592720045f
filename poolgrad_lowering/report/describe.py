# SPDX-License-Identifier: Apache-2.0

"""Makes the report of a lowering from what the pass decided, before the model is rewritten."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import ModelProto

from poolgrad_lowering.compiler.families.registry import Choices
from poolgrad_lowering.compiler.families.verdicts import LoweredOp, Refused, Verdict
from poolgrad_lowering.compiler.lowering.pipeline import Decisions
from poolgrad_lowering.compiler.rewriting.rewrite import Replacement
from poolgrad_lowering.model.diagnostics.codes import Refusal
from poolgrad_lowering.model.diagnostics.diagnostic import Status
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.metadata import layer_of
from poolgrad_lowering.model.ir.scopes import canonical_domain
from poolgrad_lowering.patterns import broken_plugins
from poolgrad_lowering.report.notes import Operators, count_operators, notes
from poolgrad_lowering.report.report import AnchorReport, OperatorCount, Report


def describe(decisions: Decisions) -> Report:
    """Return the report of a lowering, without what is known only after it: bytes, seconds, nodes of other passes."""
    index, choices, replaced = decisions.index, decisions.choices, decisions.replaced
    operators, nodes = count_operators(index), sum(len(scope.proto.node) for scope in index.scopes)
    layers = {one.site: one.layer for one in replaced if one.site is not None}
    anchors = tuple(
        _anchor(verdict, layers.get(verdict.site) or layer_of(verdict.anchor.proto), choices)
        for verdict in decisions.verdicts
    )
    in_onnx = sum(site.gradient.in_onnx for site in decisions.joined.sites)
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
    )


def recounted(counts: Sequence[OperatorCount], model: ModelProto) -> tuple[OperatorCount, ...]:
    """Return counts of operators with the numbers that the model has now."""
    before = {(count.domain, count.op_type): count.before for count in counts}
    after = count_operators(ModelIndex(model))
    return tuple(OperatorCount(*op, before.get(op, 0), after[op]) for op in sorted({*before, *after}))


def _operator_counts(before: Operators, replaced: Sequence[Replacement]) -> tuple[OperatorCount, ...]:
    """Return the counts before and after the replacements; operators that are gone have the count 0 after."""
    after = before.copy()
    after.subtract([node.op for node in {node for one in replaced for node in one.region.producers}])
    after.update((canonical_domain(node.domain), node.op_type) for one in replaced for node in one.nodes)
    return tuple(OperatorCount(*op, before[op], number) for op, number in sorted(after.items()))


def _anchor(verdict: Verdict, layer: str | None, choices: Choices) -> AnchorReport:
    """Return the entry for an anchor, which belongs to `layer` of the model if that is known."""
    anchor = verdict.anchor
    domain, op_type = anchor.op
    where = anchor.label, verdict.site, op_type, domain, anchor.scope.path
    entry = AnchorReport(*where, verdict.status.value, verdict.form, layer=layer)
    if isinstance(verdict, Refused):
        return entry._replace(code=verdict.refusal.code.value, reason=verdict.refusal.reason)
    forward = verdict.forward
    stays = forward if isinstance(forward, Refusal) else None
    return entry._replace(
        op=verdict.op.name,
        attributes=dict(verdict.op.attributes),
        alternatives=choices.alternatives(verdict.gradient, verdict.op.name),
        forward_op=forward.name if isinstance(forward, LoweredOp) else None,
        forward_code=stays.code.value if stays is not None else None,
        forward_reason=stays.reason if stays is not None else None,
        trusted_defaults=list(verdict.trusted_defaults) or None,
    )
