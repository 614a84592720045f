# SPDX-License-Identifier: Apache-2.0

"""Matches scatters that add by the Indices of a MaxPool.

The order of the checks is the order of the refusals: a later refusal means that the graph is closer to a pool gradient.
"""

from __future__ import annotations

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.analysis.provenance import Indices, indices
from poolgrad_lowering.diagnostics.codes import Code, Refuse
from poolgrad_lowering.families.gradient import Operand
from poolgrad_lowering.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.families.max_pool.matching.forward import forward_pool
from poolgrad_lowering.families.max_pool.matching.scatter import Scatter, check_adds_to_zeros, scattered_gradient
from poolgrad_lowering.families.max_pool.matching.scatter_nd import check_positions, read_scatter
from poolgrad_lowering.families.max_pool.matching.unrelated import check_can_be_of_a_pool
from poolgrad_lowering.ir.scopes import Node


def maxpool_scatter(facts: Facts, node: Node) -> MaxPoolGradient:
    """Return the gradient of the pool that recorded the scatter's indices. Raises `Refuse` if there is none."""
    scatter = read_scatter(node)
    found = _indices(facts, scatter)
    check_adds_to_zeros(facts, scatter)
    forward = forward_pool(facts, found.pool)
    check_positions(facts, scatter, forward, found.numbering)
    argmax = Operand(found.argmax)
    return scattered_gradient(facts, scatter, forward, forward.attributes, argmax, numbering=found.argmax_numbering)


def _indices(facts: Facts, scatter: Scatter) -> Indices:
    try:
        return indices(facts, scatter.recorded)
    except Refuse as refused:
        if refused.refusal.code is Code.INDICES_SOURCE:
            check_can_be_of_a_pool(facts, scatter)
        raise
