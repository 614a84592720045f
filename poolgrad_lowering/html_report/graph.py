"""A part of a model as boxes and arrows: what is drawn of it, and nothing of how.

A box is a node, or a value that comes from outside of the part or leaves it. Small constants are told in the box of
the node that reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from poolgrad_lowering.ir.scopes import Value


class Kind(Enum):
    """What a box stands for; the values are class names of the drawing."""

    ANCHOR = "anchor"
    REMOVED = "removed"
    KEPT = "kept"
    NPU = "npu"
    NEW = "new"
    OUTSIDE = "outside"
    RESULT = "result"


@dataclass(frozen=True)
class Box:
    """A box: a heading, further lines of text, and what there is to say beyond."""

    kind: Kind
    heading: str
    lines: tuple[str, ...] = ()
    more: tuple[str, ...] = ()


@dataclass(frozen=True)
class Graph:
    """Boxes and arrows between them by their numbers. `cut`: something that belongs to it is left out."""

    boxes: tuple[Box, ...]
    edges: tuple[tuple[int, int], ...]
    cut: bool = False


@dataclass(frozen=True)
class Operation:
    """A node that is to be drawn."""

    kind: Kind
    op_type: str
    name: str
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value | None, ...]
    attributes: str = ""


Describe = Callable[[Value], str]
"""The element type and shape of a value as text; empty where neither is known."""


def draw(
    operations: Sequence[Operation],
    results: Iterable[Value],
    describe: Describe,
    literals: Mapping[Value, str],
    *,
    cut: bool = False,
) -> Graph:
    """The graph of some operations, with the values that leave it and the contents of small constants."""
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
