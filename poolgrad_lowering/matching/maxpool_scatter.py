# SPDX-License-Identifier: Apache-2.0

"""Adding scatters by the Indices that a MaxPool recorded: what the forms that are spelt so have in common.

The order of the questions is that of the refusals: nearest to a pool gradient last. Knows no scatter operator.
"""

from __future__ import annotations

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.analysis.provenance import indices
from poolgrad_lowering.gradient import PoolGradient
from poolgrad_lowering.ir.scopes import Node
from poolgrad_lowering.matching.forward import forward_pool
from poolgrad_lowering.matching.scatter import Argmax, check_adds_to_zeros, scattered_gradient
from poolgrad_lowering.matching.scatter_nd import check_positions, read_scatter


def maxpool_scatter(facts: Facts, node: Node) -> PoolGradient:
    """The gradient of the pool that recorded a scatter's indices; raises `Refuse` where the scatter is not it."""
    scatter = read_scatter(node)
    found = indices(facts, scatter.recorded)
    check_adds_to_zeros(facts, scatter)
    forward = forward_pool(facts, found.pool)
    check_positions(facts, scatter, forward, found.numbering)
    argmax = Argmax(found.argmax, found.argmax_numbering)
    return scattered_gradient(facts, scatter, forward, forward.attributes, argmax)
