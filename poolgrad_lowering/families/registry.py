# SPDX-License-Identifier: Apache-2.0

"""The families of gradients that the compiler lowers."""

from __future__ import annotations

from typing import Any

from poolgrad_lowering.families.family import Family
from poolgrad_lowering.families.gradient import Gradient
from poolgrad_lowering.families.max_pool.family import MaxPoolFamily

FAMILIES: tuple[Family[Any, Any], ...] = (MaxPoolFamily(),)

GRADIENT_OPERATORS = tuple(name for family in FAMILIES for name in family.operators)
"""The dialect's operators for gradients of all families."""


def family_of(gradient: Gradient) -> Family[Any, Any]:
    """Return the family of a gradient. Raises `TypeError` for a class that no family has."""
    for family in FAMILIES:
        if isinstance(gradient, family.gradient):
            return family
    raise TypeError(f"{type(gradient).__name__} is the gradient of no family")
