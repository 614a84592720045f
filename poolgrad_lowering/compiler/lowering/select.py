# SPDX-License-Identifier: Apache-2.0

"""Selects the sites to lower: those that POOLGRAD_ONLY and the plan choose and that can have a function body.

With a plan, each site becomes exactly what the plan says, or `PlanError` is raised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from poolgrad_lowering.compiler.families.registry import family_of
from poolgrad_lowering.compiler.families.verdicts import Lowered, LoweredOp, Refused, Verdict
from poolgrad_lowering.compiler.lowering.debugging import not_selected
from poolgrad_lowering.compiler.lowering.options import Options
from poolgrad_lowering.compiler.rewriting.bodies import FunctionBodies
from poolgrad_lowering.dialect.targets import Target
from poolgrad_lowering.model.diagnostics.codes import Code, Refusal, attempt
from poolgrad_lowering.model.diagnostics.errors import PlanError
from poolgrad_lowering.model.diagnostics.text import did_you_mean
from poolgrad_lowering.model.ir.index import ModelIndex

if TYPE_CHECKING:
    from poolgrad_lowering.compiler.lowering.plan import LoweringPlan, SiteChoice


def select(index: ModelIndex, verdicts: Sequence[Verdict], options: Options) -> tuple[list[Verdict], FunctionBodies]:
    """Return the verdicts after the selection, and the function bodies that their operators require.

    Raises `PlanError` if the plan does not fit the verdicts of the model.
    """
    bodies = FunctionBodies(index)
    able = [_selected(verdict, options, bodies) if isinstance(verdict, Lowered) else verdict for verdict in verdicts]
    if options.plan is None:
        return able, bodies
    # New bodies: below opset 15 a body supports only the type of the first site, which the plan may skip.
    bodies = FunctionBodies(index)
    return apply_plan(options.plan, able, options.product, bodies), bodies


def _selected(site: Lowered[Any], options: Options, bodies: FunctionBodies) -> Verdict:
    """Return the site, or that it is not lowered; require its function body."""
    refusal = not_selected(site)
    if refusal is None and site.gradient.in_onnx and options.keeps_onnx(site.op.name):
        refusal = Refusal(Code.IN_ONNX, "'{}' is computed by operators of ONNX", (site.gradient.dx.value.name,))
    refusal = refusal or attempt(bodies.require, site.op.name, site.gradient.element_type, site.anchor.scope)
    return site if refusal is None else site.refused(refusal)


def require_same_file(plan: LoweringPlan, sha256: str) -> None:
    """Raise `PlanError` unless the plan is for the file with this SHA-256."""
    if plan.model_sha256 != sha256:
        raise PlanError(
            plan.where.get("model_sha256", ""),
            f"the plan is for another model file, its SHA-256 is not {sha256}: write a new plan",
        )


def apply_plan(
    plan: LoweringPlan, verdicts: Sequence[Verdict], target: Target, bodies: FunctionBodies
) -> list[Verdict]:
    """The verdicts with the plan's choice for each site. `bodies` collects the function bodies that these require.

    Raises `PlanError` if the plan does not name exactly the sites of the model, or if a choice is not possible.
    """
    by_site = {verdict.site: verdict for verdict in verdicts}
    choices = {choice.site: choice for choice in plan.sites}
    for choice in plan.sites:
        _require_site(choice, by_site)
    for site, verdict in by_site.items():
        if isinstance(verdict, Lowered) and site not in choices:
            raise PlanError(plan.where.get("sites", ""), f"site '{site}' is missing: a plan names every site")
    return [
        _apply_choice(verdict, choices[verdict.site], target, bodies) if isinstance(verdict, Lowered) else verdict
        for verdict in verdicts
    ]


def check_forward_pools(plan: LoweringPlan, sites: Sequence[Lowered[Any]]) -> None:
    """Raise `PlanError` unless every forward pool became what the plan says. `sites` are the lowered sites."""
    by_site = {site.site: site for site in sites}
    for choice in plan.sites:
        if choice.forward is None:
            continue
        became = by_site[choice.site].forward
        if isinstance(became, LoweredOp) and became.name == choice.forward:
            continue
        if isinstance(became, LoweredOp):
            what = f"on {plan.target} it can only become {became.name}"
        else:
            what = "forward pools are not lowered" if became is None else f"{became.reason} ({became.code.value})"
        raise PlanError(choice.where, f"the forward pool of '{choice.site}' cannot become {choice.forward}: {what}")


def _require_site(choice: SiteChoice, by_site: Mapping[str, Verdict]) -> None:
    verdict = by_site.get(choice.site)
    if verdict is None:
        raise PlanError(choice.where, f"the model has no site '{choice.site}'{did_you_mean(choice.site, by_site)}")
    if isinstance(verdict, Refused):
        raise PlanError(choice.where, f"'{choice.site}' cannot be lowered: {_explained(verdict.refusal)}")


def _apply_choice(site: Lowered[Any], choice: SiteChoice, target: Target, bodies: FunctionBodies) -> Verdict:
    if choice.operator is None:
        return site.refused(Refusal(Code.SKIPPED_BY_PLAN, "the plan leaves '{}' as it is", (choice.site,)))
    op = attempt(_select, site, choice.operator, target, bodies)
    if isinstance(op, Refusal):
        raise PlanError(choice.where, f"'{choice.site}' cannot become {choice.operator}: {_explained(op)}")
    forward = None
    if choice.forward is None:
        what = "the plan leaves the forward pool of '{}' as it is"
        forward = Refusal(Code.SKIPPED_BY_PLAN, what, (choice.site,))
    return replace(site, op=op, forward=forward)


def _select(site: Lowered[Any], operator: str, target: Target, bodies: FunctionBodies) -> LoweredOp:
    """Return the lowering of a site to an operator, and require its body. Raises `Refuse` if there is none."""
    is_first = operator == site.op.name
    op = site.op if is_first else family_of(site.gradient).select(site.gradient, target, operator)
    bodies.require(op.name, site.gradient.element_type, site.anchor.scope)
    return op


def _explained(refusal: Refusal) -> str:
    return f"{refusal.reason} ({refusal.code.value})"
