"""What is to become of an anchor: a gradient with its plan, or a refusal with its code."""

from __future__ import annotations

from dataclasses import dataclass

from poolgrad_lowering.diagnostics.codes import Refusal
from poolgrad_lowering.gradient import PoolGradient
from poolgrad_lowering.ir.scopes import Node
from poolgrad_lowering.legality.gradients import LoweredOp


@dataclass(frozen=True)
class Lowered:
    """An anchor that is lowered. `forward` is what becomes of its pool: an operator, a refusal, None if not asked."""

    anchor: Node
    pattern: str
    gradient: PoolGradient
    op: LoweredOp
    forward: LoweredOp | Refusal | None = None


@dataclass(frozen=True)
class Refused:
    """An anchor that stays as it is. `pattern` is the form that proved it a gradient, None where none did."""

    anchor: Node
    pattern: str | None
    refusal: Refusal
