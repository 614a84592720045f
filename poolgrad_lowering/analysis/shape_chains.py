# SPDX-License-Identifier: Apache-2.0

"""The order in which the shapes of a scope's values are derived: those from which another follows come first.

A training graph has chains of thousands of operators that keep or broadcast the shapes of their inputs. So these are
derived here, on names and positions, without `Node` and `Value` objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from poolgrad_lowering.analysis.shape_rules import BROADCAST, KEEP_SHAPE, common_shape
from poolgrad_lowering.ir.dims import Shape
from poolgrad_lowering.ir.scopes import Node, Scope, Value

_KEEPS, _BROADCASTS = 1, 2
_SEVERAL_OUTPUTS = ("BatchNormalization", "Dropout", "LayerNormalization")
"""Operators that keep the shape whose other outputs have other shapes."""
_BROADCASTING_OPSET = 7
"""The first one where operators broadcast without an attribute."""


Reached = tuple[int, str]
"""A node whose shape is to be derived: its position, and the name of the output."""


class ShapeChains:
    """The shapes of one scope's values, by name: of results of such operators, and of what these read."""

    def __init__(self, scope: Scope) -> None:
        self.shapes: dict[str, Shape] = {}
        self._scope = scope
        self._seen = bytearray(len(scope.proto.node))
        self._kinds = _kinds(scope)
        uses = scope.use_lists
        consumers = np.array(uses.positions[: uses.by_nodes], np.int64)
        counts = np.bincount(consumers, minlength=len(scope.proto.node))
        self._inputs, self._begins = uses.names, [0, *counts.cumsum().tolist()]
        for position in np.flatnonzero(counts == 0).tolist():
            self._kinds[position] = 0

    def reach(self, value: Value, sources: Callable[[Node], Iterable[str]]) -> tuple[list[Reached], list[Value | None]]:
        """Return the nodes from which a value's shape follows, without those of earlier calls, and values of other
        scopes from whose shapes it follows.

        `sources` returns the inputs from whose shapes that of a node of another operator may follow.
        """
        scope, producers, seen, kinds = self._scope, self._scope.producers, self._seen, self._kinds
        inputs, begins = self._inputs, self._begins
        names, reached, outside = [value.name], list[Reached](), list[Value | None]()
        while names:
            name = names.pop()
            position = producers.get(name)
            if position is None:
                if scope.parent is not None and not scope.defines(name):
                    outside.append(scope.resolve(name))
            elif not seen[position]:
                seen[position] = True
                reached.append((position, name))
                kind = kinds[position]
                if kind == _KEEPS:
                    names.append(inputs[begins[position]])
                elif kind:
                    names += inputs[begins[position] : begins[position + 1]]
                else:
                    names += sources(scope.node(position))
        return reached, outside

    def derive(self, reached: Iterable[Reached], shape_of: Callable[[Scope, str], Shape | None]) -> None:
        """Derive the shapes of the outputs of nodes that `reach` returned.

        `shape_of` derives the shape of a value by other means, and returns it if all its sizes are known.
        """

        def read(name: str) -> Shape | None:
            found = shape_of(self._scope, name)
            if found is not None:
                shapes[name] = found
            return found

        kinds, shapes, inputs, begins = self._kinds, self.shapes, self._inputs, self._begins
        for position, name in sorted(reached):
            kind, shape = kinds[position], None
            if kind:
                begin = begins[position]
                shape = shapes.get(inputs[begin]) or read(inputs[begin])
                if kind == _BROADCASTS:
                    for operand in inputs[begin + 1 : begins[position + 1]]:
                        other = shapes.get(operand) or read(operand)
                        if other is not shape and other != shape:
                            shape = common_shape(None, shape, other)
            if shape is None:
                shape_of(self._scope, name)
            else:
                shapes[name] = shape


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
