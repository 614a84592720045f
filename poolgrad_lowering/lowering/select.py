# SPDX-License-Identifier: Apache-2.0

"""Selects the sites to lower: those that POOLGRAD_ONLY and the plan choose and that can have a function body."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from poolgrad_lowering.diagnostics.codes import Refusal, attempt
from poolgrad_lowering.families.verdicts import Refused, Verdict
from poolgrad_lowering.ir.index import ModelIndex
from poolgrad_lowering.lowering.apply_plan import apply_plan
from poolgrad_lowering.lowering.plan import LoweringPlan
from poolgrad_lowering.lowering.switches import refuse_unselected
from poolgrad_lowering.rewriting.bodies import FunctionBodies
from poolgrad_lowering.targets.table import Target


@dataclass(frozen=True)
class Selected:
    """The verdicts after the selection, and the function bodies that their operators require."""

    verdicts: Sequence[Verdict]
    bodies: FunctionBodies


def select(index: ModelIndex, verdicts: Sequence[Verdict], target: Target, plan: LoweringPlan | None) -> Selected:
    """Return the selection among the verdicts of a model. Raises `PlanError` if the plan does not fit them."""
    bodies = FunctionBodies(index)
    able = [_with_body(verdict, bodies) for verdict in refuse_unselected(verdicts)]
    if plan is None:
        return Selected(able, bodies)
    # New bodies: below opset 15 a body supports only the type of the first site, which the plan may skip.
    bodies = FunctionBodies(index)
    return Selected(apply_plan(plan, able, target, bodies), bodies)


def _with_body(verdict: Verdict, bodies: FunctionBodies) -> Verdict:
    if isinstance(verdict, Refused):
        return verdict
    refusal = attempt(bodies.require, verdict.op.name, verdict.gradient.element_type, verdict.anchor.scope)
    if isinstance(refusal, Refusal):
        return Refused(verdict.site, verdict.anchor, verdict.pattern, refusal)
    return verdict
