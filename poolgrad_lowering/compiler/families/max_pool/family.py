# SPDX-License-Identifier: Apache-2.0

"""The family of max pools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poolgrad_lowering.compiler.families.family import Family, ForwardPools
from poolgrad_lowering.compiler.families.max_pool.emit import emit, emit_forward
from poolgrad_lowering.compiler.families.max_pool.forward_pools import LoweredMaxPool, join
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient, check_operands, verify_gradient
from poolgrad_lowering.compiler.families.max_pool.legality import select_op
from poolgrad_lowering.compiler.families.verdicts import Lowered
from poolgrad_lowering.dialect.max_pool_ops import MAX_POOL_OPS

if TYPE_CHECKING:
    from poolgrad_lowering.compiler.families.shared.derivation import Derivation


def _derivation(site: Lowered[MaxPoolGradient]) -> Derivation:
    from poolgrad_lowering.compiler.families.max_pool.derivation import derivation  # noqa: PLC0415 - only pages need it

    return derivation(site)


MAX_POOLS = Family[MaxPoolGradient, LoweredMaxPool](
    MaxPoolGradient,
    tuple(op.name for op in MAX_POOL_OPS if op.is_gradient),
    verify_gradient,
    check_operands,
    select_op,
    emit,
    _derivation,
    ForwardPools(join, emit_forward),
)
"""Gradients of MaxPool and AdaptiveMaxPool."""
