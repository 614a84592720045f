# SPDX-License-Identifier: Apache-2.0

"""The families of gradients that the compiler lowers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from poolgrad_lowering.compiler.families.avg_pool.family import AVERAGE_POOLS
from poolgrad_lowering.compiler.families.family import Family
from poolgrad_lowering.compiler.families.gradient import Gradient
from poolgrad_lowering.compiler.families.max_pool.family import MAX_POOLS
from poolgrad_lowering.compiler.families.verdicts import LoweredOp
from poolgrad_lowering.dialect.targets import Target

FAMILIES: tuple[Family[Any, Any], ...] = (MAX_POOLS, AVERAGE_POOLS)

GRADIENT_OPERATORS = tuple(name for family in FAMILIES for name in family.operators)
"""The dialect's operators for gradients of all families."""


def family_of(gradient: Gradient) -> Family[Any, Any]:
    """Return the family of a gradient. Raises `TypeError` for a class that no family has."""
    for family in FAMILIES:
        if isinstance(gradient, family.gradient):
            return family
    raise TypeError(f"{type(gradient).__name__} is the gradient of no family")


class Choices:
    """The operators of a target for the gradients of one model, selected once for gradients that need the same one."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._selected: dict[Hashable, LoweredOp] = {}
        self._alternatives: dict[Hashable, list[str]] = {}

    def select(self, gradient: Gradient) -> LoweredOp:
        """Return the operator for a verified gradient. Raises `Refuse`."""
        family = family_of(gradient)
        key = family, gradient.selected_by
        if key not in self._selected:
            self._selected[key] = family.select(gradient, self.target, None)
        return self._selected[key]

    def alternatives(self, gradient: Gradient, first: str) -> list[str]:
        """Return the operators of the target that a gradient can be lowered to, without `first`."""
        family = family_of(gradient)
        key = family, gradient.selected_by, first
        if key not in self._alternatives:
            self._alternatives[key] = family.alternatives(gradient, self.target, first)
        return list(self._alternatives[key])
