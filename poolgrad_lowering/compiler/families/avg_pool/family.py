# SPDX-License-Identifier: Apache-2.0

"""The family of average pools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poolgrad_lowering.compiler.families.avg_pool.emit import emit
from poolgrad_lowering.compiler.families.avg_pool.gradient import AveragePoolGradient, check_operands, verify_gradient
from poolgrad_lowering.compiler.families.avg_pool.legality import select_op
from poolgrad_lowering.compiler.families.family import Family, LoweredPool
from poolgrad_lowering.compiler.families.verdicts import Lowered
from poolgrad_lowering.dialect.average_pool_ops import AVERAGE_POOL_OPS

if TYPE_CHECKING:
    from poolgrad_lowering.compiler.families.shared.derivation import Derivation


def _derivation(site: Lowered[AveragePoolGradient]) -> Derivation:
    from poolgrad_lowering.compiler.families.avg_pool.derivation import derivation  # noqa: PLC0415 - only pages need it

    return derivation(site)


AVERAGE_POOLS = Family[AveragePoolGradient, LoweredPool](
    AveragePoolGradient,
    tuple(op.name for op in AVERAGE_POOL_OPS),
    verify_gradient,
    check_operands,
    select_op,
    emit,
    _derivation,
)
"""Gradients of AveragePool and of adaptive average pools, which read nothing of their forward pools."""
