# SPDX-License-Identifier: Apache-2.0

"""Evaluates small parts of a graph in numpy, operator by operator, for proofs by computing all values.

An evaluation starts from given values; every other value must be computed from them and from constants by operators
that have a rule. It does not depend on pools.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.known import by_rule
from poolgrad_lowering.model.ir.dims import is_static
from poolgrad_lowering.model.ir.scopes import Node, Value

Array = np.ndarray[Any, Any]
Rule = Callable[["Evaluation", Node], Array | None]

MAX_ELEMENTS = 1 << 23
"""The largest number of elements of a computed value, which bounds the cost of a proof."""

_MAX_DEPTH = 64


class Evaluation:
    """Computes values from given ones and constants; each value is computed once."""

    def __init__(self, facts: Facts, rules: Mapping[str, Rule], given: Mapping[Value, Array]) -> None:
        self.facts = facts
        self._rules = rules
        self._known: dict[Value, Array | None] = dict(given)
        self._depth = 0

    def value(self, value: Value | None) -> Array | None:
        """Return the value, or None if it is absent, or not a small constant and cannot be computed."""
        if value is None or value in self._known:
            return None if value is None else self._known[value]
        if self._depth >= _MAX_DEPTH:
            return None
        self._depth += 1
        found = self._known[value] = self._compute(value)
        self._depth -= 1
        return found

    def _compute(self, value: Value) -> Array | None:
        constant = self.facts.table(value)
        node = value.producer
        if constant is not None or node is None:
            return constant
        if node.is_a("Identity"):  # a view whose shape need not be known
            return self.value(node.input(0))
        if self.facts.is_view(node):
            source, shape = self.value(node.input(0)), static_shape(self.facts, value)
            if source is None or shape is None or math.prod(shape) != source.size:
                return None
            return source.reshape(shape)
        rule = self._rules.get(node.op[1]) if node.is_a(node.op[1]) else None
        with np.errstate(all="ignore"):  # what numpy warns of is computed as by the runtimes, or refused by the rule
            return None if rule is None else by_rule(rule, self, node)


def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape to which the shapes broadcast; None if they do not, or for a negative or too large one."""
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        return None
    return shape if is_affordable(shape) else None


def is_affordable(shape: Iterable[int]) -> bool:
    """Whether a value of this shape has at most `MAX_ELEMENTS` elements."""
    return math.prod(shape) <= MAX_ELEMENTS


def are_within(positions: Array, extent: int) -> bool:
    """Whether positions are integers in [0, extent)."""
    return positions.dtype.kind in ("i", "u") and bool(((positions >= 0) & (positions < extent)).all())


def static_shape(facts: Facts, value: Value | None) -> tuple[int, ...] | None:
    """Return the value's shape if every size is a number, else None."""
    shape = facts.shape(value)
    return tuple(dim.coefficient for dim in shape) if shape is not None and is_static(shape) else None
