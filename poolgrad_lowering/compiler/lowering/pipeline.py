# SPDX-License-Identifier: Apache-2.0

"""The pass: index, match, select, join, emit; then rewrite. Each step is a module with one result.

`decide` is all but the last step and does not change the model, so that a report can show it before and after.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from onnx import ModelProto

from poolgrad_lowering.compiler.families.registry import Choices
from poolgrad_lowering.compiler.families.verdicts import Joined, Lowered, Verdict
from poolgrad_lowering.compiler.lowering.debugging import dump
from poolgrad_lowering.compiler.lowering.emit import emit
from poolgrad_lowering.compiler.lowering.join import join
from poolgrad_lowering.compiler.lowering.match import match_anchors
from poolgrad_lowering.compiler.lowering.options import Options
from poolgrad_lowering.compiler.lowering.select import check_forward_pools, select
from poolgrad_lowering.compiler.rewriting.bodies import FunctionBodies
from poolgrad_lowering.compiler.rewriting.rewrite import Replacement, rewrite
from poolgrad_lowering.model.diagnostics.diagnostic import Status
from poolgrad_lowering.model.diagnostics.text import counted
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.gate.gate import Gate
from poolgrad_lowering.model.io.external_data import ExternalData
from poolgrad_lowering.model.ir.index import ModelIndex

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Decisions:
    """What a lowering does with each anchor of a model: the verdicts in the order of the model, and the new nodes."""

    index: ModelIndex
    facts: Facts
    choices: Choices
    joined: Joined
    replaced: Sequence[Replacement]
    bodies: FunctionBodies

    @property
    def verdicts(self) -> Sequence[Verdict]:
        """The final verdict on each anchor."""
        return self.joined.verdicts


def decide(model: ModelProto, options: Options, gate: Gate) -> Decisions:
    """Return what a lowering does; the model is not changed. Raises `InvalidModelError` and `PlanError`."""
    index, target = gate.index(model), options.product
    facts = Facts(index, ExternalData(gate.folder, gate.limits), trust_defaults=options.trusts_defaults)
    choices = Choices(target)
    selected, bodies = select(index, match_anchors(index, facts, choices), options)
    taken = index.names() if any(verdict.status == Status.LOWERED for verdict in selected) else set()
    joined = join(selected, target, bodies, taken, forward=options.forward)
    if options.plan is not None:
        check_forward_pools(options.plan, joined.sites)
    return Decisions(index, facts, choices, joined, emit(facts, joined, taken), bodies)


def apply(decisions: Decisions) -> int:
    """Rewrite the model and return the number of nodes by which it grew. The index and the facts end with it."""
    dump(decisions.replaced)
    for verdict in decisions.verdicts if logger.isEnabledFor(logging.DEBUG) else ():
        if isinstance(verdict, Lowered):
            what = verdict.op.name
        else:
            what = f"{verdict.refusal.code.value}, {verdict.refusal.reason}"
        logger.debug("%s %s: %s", verdict.site, verdict.status.value, what)
    growth = rewrite(decisions.index, decisions.replaced, decisions.bodies, decisions.joined.added_outputs)
    decisions.index.release()
    number, anchors = len(decisions.joined.sites), counted(len(decisions.verdicts), "anchor")
    logger.info("lowered %d of %s for %s", number, anchors, decisions.choices.target.name)
    return growth
