"""Adding scatters by the Indices that a MaxPool recorded: what the forms that are spelt so have in common.

The order of the questions is that of the refusals: nearest to a pool gradient last. Knows no scatter operator.
"""

from __future__ import annotations

from collections.abc import Callable

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.analysis.provenance import Numbering, indices
from poolgrad_lowering.gradient import PoolGradient
from poolgrad_lowering.matching.forward import ForwardPool, forward_pool
from poolgrad_lowering.matching.scatter import Argmax, Scatter, check_adds_to_zeros, scattered_gradient

CheckPositions = Callable[[Facts, Scatter, ForwardPool, Numbering], None]


def maxpool_scatter(facts: Facts, scatter: Scatter, check_positions: CheckPositions) -> PoolGradient:
    """The gradient of the pool that recorded `scatter.recorded`; raises `Refuse` where the scatter is not it.

    `check_positions` refuses elements that do not meet their positions, in the terms of the scatter's operator.
    """
    found = indices(facts, scatter.recorded)
    check_adds_to_zeros(facts, scatter)
    forward = forward_pool(facts, found.pool)
    check_positions(facts, scatter, forward, found.numbering)
    argmax = Argmax(found.argmax, found.argmax_numbering)
    return scattered_gradient(facts, scatter, forward, forward.attributes, argmax)
