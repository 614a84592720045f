# SPDX-License-Identifier: Apache-2.0

"""Joins the sites of a model: what they change together, such as a forward pool whose Indices several gradients use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from poolgrad_lowering.compiler.families.registry import FAMILIES, family_of
from poolgrad_lowering.compiler.families.verdicts import Joined, Lowered, LoweredPool, Verdict
from poolgrad_lowering.compiler.rewriting.bodies import FunctionBodies
from poolgrad_lowering.dialect.targets import Target
from poolgrad_lowering.model.ir.scopes import Node


def join(
    verdicts: Sequence[Verdict], target: Target, bodies: FunctionBodies, taken: set[str], *, forward: bool
) -> Joined:
    """Return the verdicts with the final operands and `forward` of each site, family by family.

    With `forward`, forward pools are lowered with their gradients. `taken` are all names of the model; the names of new
    values are added. The model is not changed.
    """
    sites = [verdict for verdict in verdicts if isinstance(verdict, Lowered)]
    final: dict[str, Lowered[Any]] = {}
    pools: list[LoweredPool[Any]] = []
    added: dict[Node, str] = {}
    for family in FAMILIES:
        own = [site for site in sites if family_of(site.gradient) is family]
        others = [site for site in sites if family_of(site.gradient) is not family]
        used = [value for site in others for value in site.gradient.operands]
        joined = family.join(own, used, target if forward else None, bodies, taken)
        final |= {site.site: site for site in joined.sites}
        pools += joined.pools
        added |= joined.added_outputs
    return Joined([final.get(verdict.site, verdict) for verdict in verdicts], pools, added)
