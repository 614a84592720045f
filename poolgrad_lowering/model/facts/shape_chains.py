# SPDX-License-Identifier: Apache-2.0

"""The order in which the shapes of a scope's values are derived: those from which another follows come first.

A training graph has chains of thousands of operators that keep or broadcast the shapes of their inputs. So these are
derived here, on names and positions, without `Node` and `Value` objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from poolgrad_lowering.model.facts.shape_rules import BROADCAST, KEEP_SHAPE, common_shape
from poolgrad_lowering.model.ir.dims import Shape
from poolgrad_lowering.model.ir.scopes import Node, Scope, Value

_KEEPS, _BROADCASTS = 1, 2
_SEVERAL_OUTPUTS = ("BatchNormalization", "Dropout", "LayerNormalization")
"""Operators that keep the shape whose other outputs have other shapes."""
_BROADCASTING_OPSET = 7
"""The first one where operators broadcast without an attribute."""


class Reached(NamedTuple):
    """The sources of a shape.

    `chained` are the positions of nodes that keep or broadcast the shapes of their inputs, `others` the positions and
    names of results of other nodes of the scope, `outside` values of other scopes.
    """

    chained: list[int]
    others: list[tuple[int, str]]
    outside: list[Value | None]


class ShapeChains:
    """The shapes of one scope's values that are results of such operators.

    `kinds` and `shapes` have an entry for each node: whether it is such an operator, and the shape if it was derived.
    """

    def __init__(self, scope: Scope) -> None:
        count = len(scope.proto.node)
        self._scope = scope
        self._seen = bytearray(count)
        self.kinds = _kinds(scope)
        uses = scope.use_lists
        counts = np.bincount(np.array(uses.positions[: uses.by_nodes], np.int64), minlength=count)
        for position in np.flatnonzero(counts == 0).tolist():
            self.kinds[position] = 0
        self._inputs, self._sources = uses.names, uses.producers
        self._begins = [0, *counts.cumsum().tolist()]
        self.shapes: list[Shape | None] = [None] * (count + 1)  # the last one is of position -1, where no node is

    def reach(self, value: Value, sources: Callable[[Node], Iterable[str]]) -> Reached:
        """Return what a value's shape follows from, without the nodes of earlier calls.

        `sources` returns the inputs from whose shapes that of a node of another operator may follow.
        """
        scope, seen = self._scope, self._seen
        reached, names = Reached([], [], []), [value.name]
        while names:
            name = names.pop()
            position = scope.producers.get(name)
            if position is None:
                if scope.parent is not None and not scope.defines(name):
                    reached.outside.append(scope.resolve(name))
            elif self.kinds[position]:
                self._follow(position, reached.chained, names)
            elif not seen[position]:
                seen[position] = True
                reached.others.append((position, name))
                names += sources(scope.node(position))
        return reached

    def _follow(self, start: int, chained: list[int], names: list[str]) -> None:
        """Add what the node at `start` follows from: nodes of such operators to `chained`, other values to `names`."""
        seen, kinds, begins, producers, inputs = self._seen, self.kinds, self._begins, self._sources, self._inputs
        pending = [start]
        while pending:
            position = pending.pop()
            while not seen[position]:  # along first inputs; the others are pending
                seen[position] = True
                chained.append(position)
                begin = begins[position]
                if kinds[position] == _BROADCASTS:
                    for use in range(begin + 1, begins[position + 1]):
                        source = producers[use]
                        if source < 0 or not kinds[source]:
                            names.append(inputs[use])
                        elif not seen[source]:
                            pending.append(source)
                source = producers[begin]
                if source < 0 or not kinds[source]:
                    names.append(inputs[begin])
                    break
                position = source

    def derive(self, reached: Reached, shape_of: Callable[[Scope, str], Shape | None]) -> None:
        """Derive the shapes of what `reach` returned.

        `shape_of` derives the shape of a value by other means, and returns it if all its sizes are known.
        """
        kinds, shapes, inputs, begins, sources = self.kinds, self.shapes, self._inputs, self._begins, self._sources
        names = dict(reached.others)
        for position in sorted([*reached.chained, *names]):
            kind, shape = kinds[position], None
            if kind:
                begin = begins[position]
                shape = shapes[sources[begin]] or shape_of(self._scope, inputs[begin])
                if kind == _BROADCASTS:
                    for use in range(begin + 1, begins[position + 1]):
                        other = shapes[sources[use]] or shape_of(self._scope, inputs[use])
                        if other is not shape and other != shape:
                            shape = common_shape(None, shape, other)
            if shape is not None:
                shapes[position] = shape
            else:
                shape_of(self._scope, names.get(position) or self._scope.proto.node[position].output[0])


def _kinds(scope: Scope) -> bytearray:
    """Return for each node of a scope whether it is such an operator."""
    kinds = bytearray(len(scope.proto.node))
    broadcast = BROADCAST if scope.opset >= _BROADCASTING_OPSET else ()
    for op_types, kind in ((KEEP_SHAPE, _KEEPS), (broadcast, _BROADCASTS)):
        for op_type in op_types:
            for position in scope.by_op.get(("", op_type), ()):
                kinds[position] = kind
    for op_type in _SEVERAL_OUTPUTS:
        for position in scope.by_op.get(("", op_type), ()):
            kinds[position] = _KEEPS if len(scope.proto.node[position].output) == 1 else 0
    return kinds
