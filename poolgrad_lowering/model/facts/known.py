# SPDX-License-Identifier: Apache-2.0

"""The facts that rules read, what a rule says without one of them, and of sizes that are not known.

A rule is a function for one kind of node: it derives a fact about its results, or writes other nodes in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar

import numpy as np
from onnx import TypeProto

from poolgrad_lowering.model.ir.attributes import integer
from poolgrad_lowering.model.ir.dims import Dim, Shape
from poolgrad_lowering.model.ir.scopes import Node, Value
from poolgrad_lowering.model.windows import PoolAttributes

P = ParamSpec("P")
T = TypeVar("T")


class Known(Protocol):
    """The facts that rules use; an absent value has none."""

    def shape(self, value: Value | None) -> Shape | None:
        """Return the value's shape, or None if its rank is not known."""

    def element_type(self, value: Value | None) -> int | None:
        """Return the value's `TensorProto.DataType`, or None."""

    def inferred_type(self, value: Value) -> TypeProto | None:
        """Return the type that ONNX infers for a value from what is known of its node's inputs, or None."""

    def integers(self, value: Value | None) -> Shape | None:
        """Return the elements of an integer scalar or vector, or None."""

    def constant(self, value: Value | None) -> np.ndarray[Any, Any] | None:
        """Return the value of a small constant, or None."""

    def pool(self, node: Node) -> PoolAttributes | None:
        """Return the attributes of a MaxPool or Conv as those of a MaxPool, or None if they are malformed."""


class NotApplicableError(Exception):
    """A rule does not apply: a fact that it needs is not known, or one of its conditions does not hold."""


def need(fact: T | None) -> T:
    """Return a fact that a rule needs. Raises `NotApplicableError` if it is None."""
    if fact is None:
        raise NotApplicableError
    return fact


def require(holds: object) -> None:
    """Raise `NotApplicableError` unless a condition of a rule holds."""
    if not holds:
        raise NotApplicableError


def by_rule(rule: Callable[P, T | None], *given: P.args, **options: P.kwargs) -> T | None:
    """Return what a rule tells of these, None if it does not apply."""
    try:
        return rule(*given, **options)
    except NotApplicableError:
        return None


def axis_in(node: Node, rank: int, absent: int | None = None) -> int:
    """Return the attribute `axis` of a node as a number in [0, rank). Raises `NotApplicableError` if it is none."""
    axis = need(integer(node, "axis", absent))
    require(-rank <= axis < rank)
    return axis % rank


def static_integers(known: Known, node: Node, position: int) -> list[int] | None:
    """Return the elements of a node's integer input if all of them are numbers, or None."""
    dims = known.integers(node.input(position))
    if dims is None:
        return None
    numbers = [dim.static for dim in dims if dim.static is not None]
    return numbers if len(numbers) == len(dims) else None


def opaque(value: Value, axis: int) -> Dim:
    """Return a unique symbol for an unnamed size of a value."""
    return Dim(1, (f"?{value.scope.path}:{value.name}[{axis}]",))


def is_opaque(dim: Dim) -> bool:
    """Whether the size contains a symbol of an unnamed size."""
    return any(symbol.startswith("?") for symbol in dim.symbols)


MOST_AXES = 64
"""A tensor with more axes, which no runtime has, is one whose shape is not known: its sizes may not fit in memory."""


def sizes_in(known: Known, operand: Value | None, value: Value) -> Shape | None:
    """Return the shape of a value whose sizes are the elements of an operand; at least their number may be known."""
    found, vector = known.integers(operand), known.shape(operand)
    count = vector[0].static if vector is not None and len(vector) == 1 else None
    if found is not None or count is None or count > MOST_AXES:
        return found
    return tuple(opaque(value, axis) for axis in range(count))
