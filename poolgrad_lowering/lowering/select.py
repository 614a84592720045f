# SPDX-License-Identifier: Apache-2.0

"""Selects the sites to lower: those that POOLGRAD_ONLY and the plan choose and that can have a function body."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from poolgrad_lowering.diagnostics.codes import Code, Refusal, attempt
from poolgrad_lowering.families.verdicts import Refused, Verdict
from poolgrad_lowering.ir.index import ModelIndex
from poolgrad_lowering.lowering.apply_plan import apply_plan
from poolgrad_lowering.lowering.options import Options
from poolgrad_lowering.lowering.switches import refuse_unselected
from poolgrad_lowering.rewriting.bodies import FunctionBodies


@dataclass(frozen=True)
class Selected:
    """The verdicts after the selection, and the function bodies that their operators require."""

    verdicts: Sequence[Verdict]
    bodies: FunctionBodies


def select(index: ModelIndex, verdicts: Sequence[Verdict], options: Options) -> Selected:
    """Return the selection among the verdicts of a model. Raises `PlanError` if the plan does not fit them."""
    bodies, plan, target = FunctionBodies(index), options.plan, options.product
    kept = [_in_onnx(verdict, options.keep_onnx) for verdict in refuse_unselected(verdicts)]
    able = [_with_body(verdict, bodies) for verdict in kept]
    if plan is None:
        return Selected(able, bodies)
    # New bodies: below opset 15 a body supports only the type of the first site, which the plan may skip.
    bodies = FunctionBodies(index)
    return Selected(apply_plan(plan, able, target, bodies), bodies)


def _in_onnx(verdict: Verdict, operators: Collection[str]) -> Verdict:
    """Refuse a site that would become one of the operators and whose gradient is written in operators of ONNX."""
    if isinstance(verdict, Refused) or verdict.op.name not in operators or not verdict.gradient.in_onnx:
        return verdict
    refusal = Refusal(Code.IN_ONNX, "'{}' is computed by operators of ONNX", (verdict.gradient.dx.value.name,))
    return Refused(verdict.site, verdict.anchor, verdict.pattern, refusal)


def _with_body(verdict: Verdict, bodies: FunctionBodies) -> Verdict:
    if isinstance(verdict, Refused):
        return verdict
    refusal = attempt(bodies.require, verdict.op.name, verdict.gradient.element_type, verdict.anchor.scope)
    if isinstance(refusal, Refusal):
        return Refused(verdict.site, verdict.anchor, verdict.pattern, refusal)
    return verdict
