"""What is to become of an anchor: a gradient with its plan, or a refusal with its code."""

from __future__ import annotations

from dataclasses import dataclass

from poolgrad_lowering.diagnostics.codes import Refusal
from poolgrad_lowering.gradient import PoolGradient
from poolgrad_lowering.ir.scopes import Node
from poolgrad_lowering.legality.gradients import Plan


@dataclass(frozen=True)
class Site:
    """An anchor that is lowered. `forward` is what becomes of its pool: a plan, a reason, None where nobody asked."""

    anchor: Node
    pattern: str
    gradient: PoolGradient
    plan: Plan
    forward: Plan | Refusal | None = None


@dataclass(frozen=True)
class Declined:
    """An anchor that stays as it is. `pattern` is the form that proved it a gradient, None where none did."""

    anchor: Node
    pattern: str | None
    refusal: Refusal
