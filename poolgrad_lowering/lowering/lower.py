# SPDX-License-Identifier: Apache-2.0

"""The entry points of the compiler in memory: `lower` returns a lowered model and its report, `inspect` the report."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnx import ModelProto

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.diagnostics.codes import Refusal
from poolgrad_lowering.diagnostics.counted import counted
from poolgrad_lowering.diagnostics.status import Status
from poolgrad_lowering.drawing.site import SiteDrawing, first_site
from poolgrad_lowering.families.max_pool.legality.alternatives import alternatives
from poolgrad_lowering.families.max_pool.legality.gradients import LoweredOp
from poolgrad_lowering.families.verdicts import Lowered, Refused
from poolgrad_lowering.gate.gate import Gate
from poolgrad_lowering.gate.limits import DEFAULT_LIMITS, Limits
from poolgrad_lowering.io.atomic_write import PathLike
from poolgrad_lowering.io.external_data import ExternalData
from poolgrad_lowering.io.external_files import DataWarning, data_warnings
from poolgrad_lowering.io.model_file import require_model
from poolgrad_lowering.ir.collector import collector_paused
from poolgrad_lowering.ir.external import ModelFolder
from poolgrad_lowering.ir.index import ModelIndex
from poolgrad_lowering.ir.metadata import layer_of
from poolgrad_lowering.lowering.anchors import match_anchors
from poolgrad_lowering.lowering.switches import dump, refuse_unselected
from poolgrad_lowering.patterns import broken_plugins
from poolgrad_lowering.plans.apply import apply_plan, check_forward_pools, resolve_target
from poolgrad_lowering.plans.lowering_plan import LoweringPlan
from poolgrad_lowering.plans.site_names import site_names
from poolgrad_lowering.report.notes import notes
from poolgrad_lowering.report.operator_counts import Operators, count_operators, edited
from poolgrad_lowering.report.report import AnchorReport, Note, OperatorCount, Report
from poolgrad_lowering.rewriting.bodies import FunctionBodies
from poolgrad_lowering.rewriting.forward_pools import LoweredPool, choose_forward_pools
from poolgrad_lowering.rewriting.indices_output import missing_outputs, name_indices
from poolgrad_lowering.rewriting.rewrite import Replacement, names, replacements, rewrite
from poolgrad_lowering.targets.table import Target

logger = logging.getLogger(__name__)

Verdict = Lowered | Refused
Observer = Callable[[Facts, Sequence[Verdict], Sequence[Replacement]], None]
"""Called with the final verdicts and the replacements before the model is changed."""


@dataclass(frozen=True)
class LoweringResult:
    """A lowered model, and the report of what was done with each anchor."""

    model: ModelProto
    report: Report

    def __repr__(self) -> str:
        return f"<LoweringResult: {self.report!r}>"

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


@dataclass(frozen=True)
class Outcome:
    """The result of a lowering without the model's sizes in bytes, which are known when the model is written."""

    target: str
    anchors: tuple[AnchorReport, ...]
    nodes_before: int
    nodes_after: int
    seconds: float
    warnings: tuple[DataWarning, ...]
    notes: tuple[Note, ...]
    operators: tuple[OperatorCount, ...]
    drawing: SiteDrawing | None

    @property
    def changed(self) -> bool:
        """Whether a gradient was lowered."""
        return any(anchor.status == Status.LOWERED for anchor in self.anchors)

    def report(self, bytes_before: int, bytes_after: int) -> Report:
        """Return the report, given the sizes of the serialised model."""
        return Report(
            target=self.target,
            anchors=self.anchors,
            nodes_before=self.nodes_before,
            nodes_after=self.nodes_after,
            bytes_before=bytes_before,
            bytes_after=bytes_after,
            seconds=self.seconds,
            broken_plugins=broken_plugins(),
            warnings=self.warnings,
            notes=self.notes,
            operators=self.operators,
            drawing=self.drawing,
        )


def lower(
    model: ModelProto,
    *,
    target: str | None = None,
    forward: bool = True,
    plan: LoweringPlan | None = None,
    trust_defaults: bool = False,
    base_dir: PathLike | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> LoweringResult:
    """Lower every max-pool gradient of a model that the target can run.

    The model that is given is not modified. What is not lowered stays as it is: the report names each refused candidate
    with a code and a reason. If nothing is lowered, the result's model serialises to the same bytes.

    Args:
        model: A training graph, forward and backward in one model.
        target: A product or SoC name (`poolgrad targets` lists them); by default the plan's target, else atlas-a2.
        forward: Whether forward pools are lowered with their gradients.
        plan: Chooses the operator of each site. It must name the sites of this model; its SHA-256 is not checked.
        trust_defaults: Whether to take initializers that are also graph inputs for constants. A plan that was made with
            this option implies it. The lowered model is right if no caller overrides them.
        base_dir: The folder of the model's external data, from which proofs read constants; without it, gradients that
            need external data are refused.
        limits: The largest model that is accepted, and how much external data is read, for models of unknown origin.
            The defaults are 2 GiB, 2^22 nodes, 32 levels of subgraphs, and 64 GiB of external data.

    Raises:
        TypeError: The model is not an `onnx.ModelProto`, but a path for example.
        UnknownTargetError: No product and no SoC has the name `target`.
        InvalidModelError: The model is not valid ONNX, or exceeds one of `limits`.
        PlanError: The plan does not fit the model or the target.

    Example:
        >>> import onnx
        >>> from poolgrad_lowering import lower
        >>> result = lower(onnx.load("training.onnx"), target="Ascend910B3")
        >>> result.report
        <Report for atlas-a2: 3 candidates, 2 lowered, 0 refused, 1 unrelated; nodes 78 → 69>
        >>> [(anchor.site, anchor.code) for anchor in result.report.unrelated]
        [('main:scatter', 'unrelated-indices')]
        >>> onnx.save(result.model, "lowered.onnx")
    """
    require_model(model)
    resolved = resolve_target(target, plan)
    lowered = ModelProto()
    lowered.CopyFrom(model)
    gate = Gate(limits, None if base_dir is None else ModelFolder(Path(base_dir)))
    bytes_before = len(gate.serialised(model))
    outcome = lower_in_place(lowered, resolved, forward=forward, plan=plan, gate=gate, trust_defaults=trust_defaults)
    bytes_after = len(gate.serialised(lowered)) if outcome.changed else bytes_before
    return LoweringResult(lowered, outcome.report(bytes_before, bytes_after))


def inspect(
    model: ModelProto,
    *,
    target: str | None = None,
    forward: bool = True,
    trust_defaults: bool = False,
    base_dir: PathLike | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Report:
    """Return the report that `lower` would give for a model.

    The parameters and the errors are those of `lower`.

    Example:
        >>> import onnx
        >>> from poolgrad_lowering import inspect
        >>> inspect(onnx.load("training.onnx"), target="Ascend310P3").refused_by_code
        {'target': 2}
    """
    result = lower(
        model, target=target, forward=forward, trust_defaults=trust_defaults, base_dir=base_dir, limits=limits
    )
    return result.report


@collector_paused()
def lower_in_place(
    model: ModelProto,
    target: Target,
    *,
    forward: bool,
    gate: Gate,
    plan: LoweringPlan | None = None,
    trust_defaults: bool = False,
    observer: Observer | None = None,
) -> Outcome:
    """As `lower`, but modifies the model and calls `observer` first. Raises `InvalidModelError` and `PlanError`."""
    started = time.perf_counter()
    index = gate.index(model)
    warnings = data_warnings(gate.external, gate.folder)
    operators = count_operators(index)
    trusts = trust_defaults or (plan is not None and plan.trust_defaults)
    facts = Facts(index, ExternalData(gate.folder, gate.limits), trust_defaults=trusts)
    identifiers, verdicts, bodies = _verdicts(index, facts, target, plan)
    sites = [verdict for verdict in verdicts if isinstance(verdict, Lowered)]
    pools: list[LoweredPool] = []
    nodes_before = sum(len(scope.proto.node) for scope in index.scopes)
    taken = names(index) if sites else set()
    sites = name_indices(sites, taken)
    if forward:
        sites, pools = choose_forward_pools(sites, target, bodies, taken)
    verdicts = _final(verdicts, sites)
    named = dict(zip(identifiers, verdicts, strict=True))
    lowered = {name: verdict for name, verdict in named.items() if isinstance(verdict, Lowered)}
    if plan is not None:
        check_forward_pools(plan, lowered)
    missing = missing_outputs(sites)
    replaced = replacements(facts, lowered, pools, missing, taken)
    layers = {name: one.layer for name, one in zip(lowered, replaced, strict=False)}  # those of the pools come last
    anchors = tuple(  # before the rewrite, which removes the names
        _describe(name, verdict, layers.get(name) or layer_of(verdict.anchor.proto), target)
        for name, verdict in named.items()
    )
    dump(replaced)
    if observer is not None:
        observer(facts, verdicts, replaced)
    drawing = first_site(facts, lowered, replaced)
    has_anchors = any(anchor.status != Status.UNRELATED for anchor in anchors)
    found_notes = notes(index, operators, target, has_anchors=has_anchors)
    counts = _operator_counts(operators, replaced)
    nodes_added = rewrite(index, replaced, bodies, missing)
    index.release()
    for anchor in anchors:
        logger.debug("%s %s: %s", anchor.site, anchor.status, anchor.op or f"{anchor.code}, {anchor.reason}")
    logger.info("lowered %d of %s for %s", len(sites), counted(len(anchors), "candidate"), target.name)
    seconds = time.perf_counter() - started
    return Outcome(
        target=target.name,
        anchors=anchors,
        nodes_before=nodes_before,
        nodes_after=nodes_before + nodes_added,
        seconds=seconds,
        warnings=warnings,
        notes=found_notes,
        operators=counts,
        drawing=drawing,
    )


def _verdicts(
    index: ModelIndex, facts: Facts, target: Target, plan: LoweringPlan | None
) -> tuple[list[str], list[Verdict], FunctionBodies]:
    """Return the identifiers of the anchors, their verdicts, and the function bodies that the verdicts require."""
    found = match_anchors(index, facts, target)
    identifiers = site_names(verdict.anchor for verdict in found)
    bodies = FunctionBodies(index)
    verdicts = [_with_body(verdict, bodies) for verdict in refuse_unselected(found, identifiers)]
    if plan is None:
        return identifiers, verdicts, bodies
    # New bodies: below opset 15 a body supports only the type of the first site, which the plan may skip.
    bodies = FunctionBodies(index)
    return identifiers, apply_plan(plan, verdicts, identifiers, target, bodies), bodies


def _with_body(verdict: Verdict, bodies: FunctionBodies) -> Verdict:
    if isinstance(verdict, Refused):
        return verdict
    refusal = bodies.require(verdict.op.name, verdict.gradient.element_type, verdict.anchor.scope)
    return verdict if refusal is None else Refused(verdict.anchor, verdict.pattern, refusal)


def _final(verdicts: Sequence[Verdict], sites: Sequence[Lowered]) -> list[Verdict]:
    """Return the verdicts with the lowered ones replaced by `sites`, in the same order."""
    final = iter(sites)
    return [next(final) if isinstance(verdict, Lowered) else verdict for verdict in verdicts]


def _operator_counts(before: Operators, replaced: Sequence[Replacement]) -> tuple[OperatorCount, ...]:
    after = edited(
        before,
        (node for replacement in replaced for node in replacement.region.producers),
        (node for replacement in replaced for node in replacement.nodes),
    )
    return tuple(OperatorCount(*op, before[op], number) for op, number in sorted(after.items()))


def _describe(identifier: str, verdict: Verdict, layer: str | None, target: Target) -> AnchorReport:
    anchor = verdict.anchor
    domain, op_type = anchor.op
    common: dict[str, Any] = {
        "name": anchor.label,
        "site": identifier,
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
        alternatives=alternatives(verdict.gradient, target, verdict.op.name),
        forward_op=forward.name if isinstance(forward, LoweredOp) else None,
        forward_code=stays.code.value if stays is not None else None,
        forward_reason=stays.reason if stays is not None else None,
        trusted_defaults=list(verdict.trusted_defaults) or None,
    )
