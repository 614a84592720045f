# SPDX-License-Identifier: Apache-2.0

"""Selects the sites to lower: those that POOLGRAD_ONLY and the plan choose and that can have a function body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from poolgrad_lowering.compiler.families.verdicts import Lowered, Verdict
from poolgrad_lowering.compiler.lowering.apply_plan import apply_plan
from poolgrad_lowering.compiler.lowering.debugging import not_selected
from poolgrad_lowering.compiler.lowering.options import Options
from poolgrad_lowering.compiler.rewriting.bodies import FunctionBodies
from poolgrad_lowering.model.diagnostics.codes import Code, Refusal, attempt
from poolgrad_lowering.model.ir.index import ModelIndex


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
    refusal = (
        not_selected(site)
        or _in_onnx(site, options)
        or attempt(bodies.require, site.op.name, site.gradient.element_type, site.anchor.scope)
    )
    return site if refusal is None else site.refused(refusal)


def _in_onnx(site: Lowered[Any], options: Options) -> Refusal | None:
    """Return why a site stays whose gradient is written in operators of ONNX, if the options keep it; else None."""
    if not site.gradient.in_onnx or not options.keeps_onnx(site.op.name):
        return None
    return Refusal(Code.IN_ONNX, "'{}' is computed by operators of ONNX", (site.gradient.dx.value.name,))
