# SPDX-License-Identifier: Apache-2.0

"""The options of the pass."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from poolgrad_lowering.dialect.targets import DEFAULT_TARGET, Target, find_target
from poolgrad_lowering.model.diagnostics.errors import PlanError

if TYPE_CHECKING:
    from poolgrad_lowering.compiler.lowering.plan import LoweringPlan


@dataclass(frozen=True, kw_only=True)
class Options:
    """The parameters of `lower` of the same names, with their defaults.

    Without a target it is that of the plan, without both the default. Raises `UnknownTargetError`, and `PlanError` if
    the plan is for another product.
    """

    target: str | None = None
    forward: bool = True
    plan: LoweringPlan | None = None
    trust_defaults: bool = False
    keep_onnx: bool | Collection[str] = False
    """Whether gradients stay that are written in operators of ONNX, which GE runs as is; or those that would become one
    of these operators."""
    product: Target = field(init=False)
    """The target to lower for."""

    def __post_init__(self) -> None:
        name, plan = self.target, self.plan
        otherwise = DEFAULT_TARGET if plan is None else plan.target
        product = find_target(otherwise if name is None else name)
        if plan is not None and find_target(plan.target) != product:
            raise PlanError(plan.where.get("target", ""), f"the plan is for {plan.target}, not for {name}")
        object.__setattr__(self, "product", product)  # as a frozen dataclass sets it

    def keeps_onnx(self, operator: str) -> bool:
        """Whether a gradient that is written in operators of ONNX does not become this operator."""
        return self.keep_onnx if isinstance(self.keep_onnx, bool) else operator in self.keep_onnx

    @property
    def trusts_defaults(self) -> bool:
        """Whether defaults of graph inputs are constants, by the option or by the plan."""
        return self.trust_defaults or (self.plan is not None and self.plan.trust_defaults)
