# SPDX-License-Identifier: Apache-2.0

"""Joins the sites of a model: what they change together, such as a forward pool whose Indices several gradients use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from poolgrad_lowering.compiler.families.registry import FAMILIES, ForwardPools, family_of
from poolgrad_lowering.compiler.families.verdicts import Lowered, LoweredPool, Verdict
from poolgrad_lowering.compiler.rewriting.bodies import FunctionBodies
from poolgrad_lowering.dialect.targets import Target
from poolgrad_lowering.model.ir.scopes import Node


class JoinedSites(NamedTuple):
    """The final verdicts, the forward pools that are lowered, each with its family's functions, and added outputs."""

    verdicts: Sequence[Verdict]
    pools: Sequence[tuple[ForwardPools[Any, Any], LoweredPool]]
    added_outputs: Mapping[Node, str]

    @property
    def sites(self) -> list[Lowered[Any]]:
        """The verdicts that are lowered."""
        return [verdict for verdict in self.verdicts if isinstance(verdict, Lowered)]


def join(
    verdicts: Sequence[Verdict], target: Target, bodies: FunctionBodies, taken: set[str], *, forward: bool
) -> JoinedSites:
    """Return the verdicts with the final operands and `forward` of each site, family by family.

    With `forward`, forward pools are lowered with their gradients. `taken` are all names of the model; the names of new
    values are added. The model is not changed.
    """
    sites = [verdict for verdict in verdicts if isinstance(verdict, Lowered)]
    final: dict[str, Lowered[Any]] = {}
    pools: list[tuple[ForwardPools[Any, Any], LoweredPool]] = []
    added: dict[Node, str] = {}
    for family in FAMILIES:
        if family.forward_pools is None:
            continue
        own = [site for site in sites if family_of(site.gradient) is family]
        others = [site for site in sites if family_of(site.gradient) is not family]
        used = [value for site in others for value in site.gradient.operands]
        joined = family.forward_pools.join(own, used, target if forward else None, bodies, taken)
        final |= {site.site: site for site in joined.sites}
        pools += [(family.forward_pools, pool) for pool in joined.pools]
        added |= joined.added_outputs
    return JoinedSites([final.get(verdict.site, verdict) for verdict in verdicts], pools, added)
