# SPDX-License-Identifier: Apache-2.0

"""A part of a model as boxes and arrows, without positions.

A box is a node, or a value that enters or leaves the part. Small constants are shown in the box of the node that uses
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from poolgrad_lowering.model.ir.scopes import Value


class Kind(Enum):
    """What a box represents. The values are CSS class names."""

    ANCHOR = "anchor"
    REMOVED = "removed"
    KEPT = "kept"
    NPU = "npu"
    NEW = "new"
    OUTSIDE = "outside"
    RESULT = "result"


class Box(NamedTuple):
    """A box: a heading, further lines of text, and more lines for its tooltip."""

    kind: Kind
    heading: str
    lines: tuple[str, ...] = ()
    more: tuple[str, ...] = ()


class Graph(NamedTuple):
    """Boxes, and arrows as pairs of box numbers. `cut`: some nodes of the part are left out."""

    boxes: tuple[Box, ...]
    edges: tuple[tuple[int, int], ...]
    cut: bool = False


class Operation(NamedTuple):
    """A node to draw."""

    kind: Kind
    op_type: str
    name: str
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value | None, ...]
    attributes: str = ""


Describe = Callable[[Value], str]
"""The element type and shape of a value as text; empty if neither is known."""


def draw(
    operations: Sequence[Operation],
    results: Iterable[Value],
    describe: Describe,
    literals: Mapping[Value, str],
    *,
    cut: bool = False,
) -> Graph:
    """The graph of some operations. `results` are the values that leave it, `literals` the texts of small constants."""
    boxes = [_box(operation, describe, literals) for operation in operations]
    makers = {value: number for number, operation in enumerate(operations) for value in operation.outputs if value}
    edges: dict[tuple[int, int], None] = {}

    def source(value: Value) -> int:
        if value not in makers:
            makers[value] = len(boxes)
            boxes.append(Box(Kind.OUTSIDE, value.name, tuple(filter(None, [describe(value)]))))
        return makers[value]

    for number, operation in enumerate(operations):
        for value in operation.inputs:
            if value is not None and value not in literals:
                edges[source(value), number] = None
    for value in results:
        boxes.append(Box(Kind.RESULT, value.name))
        edges[makers[value], len(boxes) - 1] = None
    return Graph(tuple(boxes), tuple(edges), cut)


def _box(operation: Operation, describe: Describe, literals: Mapping[Value, str]) -> Box:
    made = [value for value in operation.outputs if value is not None]
    read = [value for value in operation.inputs if value is not None and value in literals]
    lines = [
        operation.name if operation.name != operation.op_type else "",
        "with " + ", ".join(literals[value] for value in read) if read else "",
        describe(made[0]) if made else "",
    ]
    more = [operation.attributes, *(f"{value.name} = {literals[value]}" for value in read)]
    more += [f"makes {value.name} {describe(value)}" for value in made]
    return Box(operation.kind, operation.op_type, tuple(filter(None, lines)), tuple(filter(None, more)))
