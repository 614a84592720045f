"""Adding scatters by the Indices that a MaxPool recorded: what the forms that are spelt so have in common.

The order of the questions is that of the refusals: nearest to a pool gradient last. Knows no scatter operator.
"""

from __future__ import annotations

from collections.abc import Callable

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.analysis.provenance import Numbering, indices
from poolgrad_lowering.diagnostics.codes import Refusal
from poolgrad_lowering.gradient import PoolGradient
from poolgrad_lowering.matching.forward import ForwardPool, forward_pool
from poolgrad_lowering.matching.scatter import Argmax, Scatter, check_adds_to_zeros, scattered_gradient

Misplaced = Callable[[Facts, Scatter, ForwardPool, Numbering], Refusal | None]


def maxpool_scatter(facts: Facts, scatter: Scatter, misplaced: Misplaced) -> PoolGradient | Refusal:
    """The gradient of the pool that recorded `scatter.recorded`, or why the scatter is not it.

    `misplaced` says why an element would not meet its position, in the terms of the scatter's operator.
    """
    found = indices(facts, scatter.recorded)
    if isinstance(found, Refusal):
        return found
    if (elsewhere := check_adds_to_zeros(facts, scatter)) is not None:
        return elsewhere
    forward = forward_pool(facts, found.pool)
    if isinstance(forward, Refusal):
        return forward
    if (refusal := misplaced(facts, scatter, forward, found.numbering)) is not None:
        return refusal
    argmax = Argmax(found.argmax, found.argmax_numbering)
    return scattered_gradient(facts, scatter, forward, forward.attributes, argmax)
