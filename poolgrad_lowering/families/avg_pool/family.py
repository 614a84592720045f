# SPDX-License-Identifier: Apache-2.0

"""The family of average pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onnx import NodeProto

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.families.avg_pool.emit import emit
from poolgrad_lowering.families.avg_pool.gradient import AveragePoolGradient
from poolgrad_lowering.families.avg_pool.legality import select_op
from poolgrad_lowering.families.avg_pool.verify import check_operands, verify_gradient
from poolgrad_lowering.families.family import Family, Joined, LoweredPool
from poolgrad_lowering.families.verdicts import Lowered, LoweredOp
from poolgrad_lowering.ir.scopes import Value
from poolgrad_lowering.rewriting.bodies import FunctionBodies
from poolgrad_lowering.targets.table import (
    ADAPTIVE_AVERAGE_2D_GRAD,
    ADAPTIVE_AVERAGE_GRAD,
    AVERAGE_2D_GRAD,
    AVERAGE_3D_GRAD,
    Target,
)

if TYPE_CHECKING:
    from poolgrad_lowering.families.derivation import Derivation


class AveragePoolFamily(Family[AveragePoolGradient, LoweredPool]):
    """Gradients of AveragePool and of adaptive average pools. Forward pools stay nodes of ONNX."""

    gradient = AveragePoolGradient
    operators = (AVERAGE_3D_GRAD, AVERAGE_2D_GRAD, ADAPTIVE_AVERAGE_GRAD, ADAPTIVE_AVERAGE_2D_GRAD)

    def verify(self, facts: Facts, gradient: AveragePoolGradient) -> None:
        """See `Family`."""
        verify_gradient(facts, gradient)

    def check_operands(self, gradient: AveragePoolGradient) -> None:
        """See `Family`."""
        check_operands(gradient)

    def select(self, gradient: AveragePoolGradient, target: Target, operator: str | None = None) -> LoweredOp:
        """See `Family`."""
        return select_op(gradient, target, operator)

    def join(
        self,
        sites: Sequence[Lowered[AveragePoolGradient]],
        used: Sequence[Value],
        target: Target,
        bodies: FunctionBodies,
        taken: set[str],
        *,
        forward: bool,
    ) -> Joined[LoweredPool]:
        """See `Family`: nothing changes together, since a gradient reads nothing of its pool."""
        del used, target, bodies, taken, forward
        return Joined(sites)

    def emit(self, facts: Facts, site: Lowered[AveragePoolGradient], taken: set[str]) -> list[NodeProto]:
        """See `Family`."""
        del facts
        return emit(site, taken)

    def emit_pool(self, pool: LoweredPool, taken: set[str]) -> list[NodeProto]:
        """See `Family`: no forward pool is lowered."""
        del taken
        raise AssertionError(f"no forward pool of this family is lowered, so '{pool.pool.label}' is none")

    def derivation(self, site: Lowered[AveragePoolGradient]) -> Derivation:
        """See `Family`."""
        from poolgrad_lowering.families.avg_pool.derivation import derivation  # noqa: PLC0415 - only pages need it

        return derivation(site)
