# SPDX-License-Identifier: Apache-2.0

"""Applies a plan to the sites of a model: each site becomes exactly what the plan says, or `PlanError` is raised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from poolgrad_lowering.diagnostics.codes import Code, Refusal, refuse
from poolgrad_lowering.diagnostics.errors import PlanError
from poolgrad_lowering.diagnostics.suggestions import did_you_mean
from poolgrad_lowering.families.max_pool.legality.alternatives import select_op_named
from poolgrad_lowering.families.max_pool.legality.gradients import LoweredOp
from poolgrad_lowering.families.verdicts import Lowered, Refused
from poolgrad_lowering.plans.lowering_plan import LoweringPlan, SiteChoice
from poolgrad_lowering.rewriting.bodies import FunctionBodies
from poolgrad_lowering.targets.table import DEFAULT_TARGET, Target, find_target


def resolve_target(name: str | None, plan: LoweringPlan | None) -> Target:
    """The target of this name; without a name the target of the plan; without both the default.

    Raises `UnknownTargetError`, and `PlanError` if the plan is for another product.
    """
    if plan is None:
        return find_target(DEFAULT_TARGET if name is None else name)
    target = find_target(plan.target)
    if name is not None and find_target(name) != target:
        raise PlanError(plan.where.get("target", ""), f"the plan is for {plan.target}, not for {name}")
    return target


def require_same_file(plan: LoweringPlan, sha256: str) -> None:
    """Raise `PlanError` unless the plan is for the file with this SHA-256."""
    if plan.model_sha256 != sha256:
        raise PlanError(
            plan.where.get("model_sha256", ""),
            f"the plan is for another model file, its SHA-256 is not {sha256}: write a new plan",
        )


def apply_plan(
    plan: LoweringPlan,
    verdicts: Sequence[Lowered | Refused],
    names: Sequence[str],
    target: Target,
    bodies: FunctionBodies,
) -> list[Lowered | Refused]:
    """The verdicts with the plan's choice for each site.

    `names` are the identifiers of the anchors, in the order of `verdicts`. `bodies` collects the function bodies that
    the chosen operators require. Raises `PlanError` if the plan does not name exactly the sites of the model, or if a
    choice is not possible.
    """
    by_name = dict(zip(names, verdicts, strict=True))
    choices = {choice.site: choice for choice in plan.sites}
    for choice in plan.sites:
        _require_site(choice, by_name)
    for name, verdict in by_name.items():
        if isinstance(verdict, Lowered) and name not in choices:
            raise PlanError(plan.where.get("sites", ""), f"site '{name}' is missing: a plan names every site")
    return [
        _apply_choice(verdict, choices[name], target, bodies) if isinstance(verdict, Lowered) else verdict
        for name, verdict in by_name.items()
    ]


def check_forward_pools(plan: LoweringPlan, sites: Mapping[str, Lowered]) -> None:
    """Raise `PlanError` unless every forward pool became what the plan says. `sites` are the lowered sites, by name."""
    for choice in plan.sites:
        if choice.forward is None:
            continue
        became = sites[choice.site].forward
        if isinstance(became, LoweredOp) and became.name == choice.forward:
            continue
        if isinstance(became, LoweredOp):
            what = f"on {plan.target} it can only become {became.name}"
        else:
            what = "forward pools are not lowered" if became is None else f"{became.reason} ({became.code.value})"
        raise PlanError(choice.where, f"the forward pool of '{choice.site}' cannot become {choice.forward}: {what}")


def _require_site(choice: SiteChoice, by_name: Mapping[str, Lowered | Refused]) -> None:
    verdict = by_name.get(choice.site)
    if verdict is None:
        raise PlanError(choice.where, f"the model has no site '{choice.site}'{did_you_mean(choice.site, by_name)}")
    if isinstance(verdict, Refused):
        raise PlanError(choice.where, f"'{choice.site}' cannot be lowered: {_explained(verdict.refusal)}")


def _apply_choice(site: Lowered, choice: SiteChoice, target: Target, bodies: FunctionBodies) -> Lowered | Refused:
    if choice.operator is None:
        skipped = refuse(Code.SKIPPED_BY_PLAN, "the plan leaves '{}' as it is", choice.site)
        return Refused(site.anchor, site.pattern, skipped)
    op = site.op if choice.operator == site.op.name else select_op_named(choice.operator, site.gradient, target)
    if isinstance(op, LoweredOp):
        op = bodies.require(op.name, site.gradient.element_type, site.anchor.scope) or op
    if isinstance(op, Refusal):
        raise PlanError(choice.where, f"'{choice.site}' cannot become {choice.operator}: {_explained(op)}")
    forward = None
    if choice.forward is None:
        forward = refuse(Code.SKIPPED_BY_PLAN, "the plan leaves the forward pool of '{}' as it is", choice.site)
    return replace(site, op=op, forward=forward)


def _explained(refusal: Refusal) -> str:
    return f"{refusal.reason} ({refusal.code.value})"
