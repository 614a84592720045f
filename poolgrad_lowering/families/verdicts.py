# SPDX-License-Identifier: Apache-2.0

"""The verdict on an anchor: lowered, with its gradient and operator, or not lowered, with a code."""

from __future__ import annotations

from dataclasses import dataclass

from poolgrad_lowering.diagnostics.codes import Refusal
from poolgrad_lowering.diagnostics.diagnostic import Severity
from poolgrad_lowering.diagnostics.status import Status
from poolgrad_lowering.families.max_pool.legality.gradients import LoweredOp
from poolgrad_lowering.gradient import PoolGradient
from poolgrad_lowering.ir.scopes import Node


@dataclass(frozen=True)
class Lowered:
    """An anchor that is lowered to `op`.

    `forward` is the operator of its forward pool, the reason why the pool stays, or None if pools are not lowered.
    `trusted_defaults` are the graph inputs whose defaults the proof takes for constants.
    """

    anchor: Node
    pattern: str
    gradient: PoolGradient
    op: LoweredOp
    forward: LoweredOp | Refusal | None = None
    trusted_defaults: tuple[str, ...] = ()
    status = Status.LOWERED


@dataclass(frozen=True)
class Refused:
    """An anchor that is not lowered. `pattern` is the form that proved it a gradient, None if none did."""

    anchor: Node
    pattern: str | None
    refusal: Refusal

    @property
    def status(self) -> Status:
        """REFUSED, or UNRELATED for an anchor that is proven to be no gradient of a pool."""
        return Status.UNRELATED if self.refusal.code.severity is Severity.NOTE else Status.REFUSED
