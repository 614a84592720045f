# SPDX-License-Identifier: Apache-2.0

"""The family of max pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onnx import NodeProto

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.families.family import Family, Joined
from poolgrad_lowering.families.max_pool.emit import emit, emit_forward
from poolgrad_lowering.families.max_pool.forward_pools import (
    LoweredMaxPool,
    choose_forward_pools,
    missing_outputs,
    name_indices,
)
from poolgrad_lowering.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.families.max_pool.legality.gradients import select_op, select_op_named
from poolgrad_lowering.families.max_pool.verify import check_operands, verify_gradient
from poolgrad_lowering.families.verdicts import Lowered, LoweredOp
from poolgrad_lowering.ir.scopes import Value
from poolgrad_lowering.rewriting.bodies import FunctionBodies
from poolgrad_lowering.targets.table import ADAPTIVE_GRAD, MAX_POOL_2D_GRAD, MAX_POOL_3D_GRAD, Target

if TYPE_CHECKING:
    from poolgrad_lowering.families.derivation import Derivation


class MaxPoolFamily(Family[MaxPoolGradient, LoweredMaxPool]):
    """Gradients of MaxPool and AdaptiveMaxPool."""

    gradient = MaxPoolGradient
    operators = (MAX_POOL_3D_GRAD, MAX_POOL_2D_GRAD, ADAPTIVE_GRAD)

    def verify(self, facts: Facts, gradient: MaxPoolGradient) -> None:
        """See `Family`."""
        verify_gradient(facts, gradient)

    def check_operands(self, gradient: MaxPoolGradient) -> None:
        """See `Family`."""
        check_operands(gradient)

    def select(self, gradient: MaxPoolGradient, target: Target, operator: str | None = None) -> LoweredOp:
        """See `Family`."""
        return select_op(gradient, target) if operator is None else select_op_named(operator, gradient, target)

    def join(
        self,
        sites: Sequence[Lowered[MaxPoolGradient]],
        used: Sequence[Value],
        target: Target,
        bodies: FunctionBodies,
        taken: set[str],
        *,
        forward: bool,
    ) -> Joined[LoweredMaxPool]:
        """See `Family`: pools that a gradient needs the Indices of get that output, unless they are lowered."""
        named, pools = name_indices(sites, taken), list[LoweredMaxPool]()
        if forward:
            named, pools = choose_forward_pools(named, used, target, bodies, taken)
        return Joined(named, pools, missing_outputs(named))

    def emit(self, facts: Facts, site: Lowered[MaxPoolGradient], taken: set[str]) -> list[NodeProto]:
        """See `Family`."""
        return emit(facts, site, taken)

    def emit_pool(self, pool: LoweredMaxPool, taken: set[str]) -> list[NodeProto]:
        """See `Family`."""
        return emit_forward(pool, taken)

    def derivation(self, site: Lowered[MaxPoolGradient]) -> Derivation:
        """See `Family`."""
        from poolgrad_lowering.families.max_pool.derivation import derivation  # noqa: PLC0415 - only pages need it

        return derivation(site)
