"""The region of a site: what dies when its result is computed another way, and what other readers keep.

Who wants to look at it gets a directed graph of nodes, made with networkx. A node dies where all its outputs have lost
their last reader, so no path leaves the region and comes back: it is convex by construction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from poolgrad_lowering.ir.scopes import Node, Value

if TYPE_CHECKING:
    import networkx as nx

# What a dead reader leaves behind is removed only where running it had no effect but its outputs.
_RANDOM = (
    "Bernoulli",
    "Dropout",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
)
_EFFECTS = frozenset((*_RANDOM, "If", "Loop", "Scan", "SequenceMap"))


class _Left(dict[Value, int]):
    """How many uses of each value are left, by nodes that stay or were added; at first, all of them."""

    def __init__(self, added: Mapping[Value, int]) -> None:
        super().__init__()
        self._added = added

    def __missing__(self, value: Value) -> int:
        count = self[value] = value.reader_count + self._added.get(value, 0)
        return count


class Readers:
    """How many readers each value has left, while sites are taken out one after the other."""

    def __init__(self, added: Iterable[Value]) -> None:
        self._left = _Left(Counter(added))
        self._gone: set[Node] = set()

    def remove(self, node: Node) -> bool:
        """Count the node as gone; False where it is already."""
        known = node in self._gone
        self._gone.add(node)
        return not known

    def decrement(self, value: Value) -> int:
        """One reading of the value is gone; how many are left."""
        self._left[value] -= 1
        return self._left[value]

    def left(self, value: Value) -> int:
        """How many uses by nodes that stay or were added, and by the scope's outputs."""
        return self._left[value]


@dataclass
class Region:
    """What dies with a site: its nodes and its initializers.

    `makers` are the dying nodes, each with those among them that make what it reads; `read` is what lived on when one
    of them was taken out that reads it.
    """

    makers: dict[Node, list[Node]] = field(default_factory=dict)
    initializers: set[Value] = field(default_factory=set)
    read: list[Value] = field(default_factory=list)

    @property
    def nodes(self) -> list[Node]:
        """The dying nodes in the order of the model."""
        return sorted(self.makers, key=lambda node: (node.scope.path, node.position))

    @property
    def frontier(self) -> set[Value]:
        """The values that the dying nodes read and that live on."""
        return {value for value in self.read if value not in self.initializers and value.producer not in self.makers}

    @property
    def graph(self) -> nx.DiGraph[Node]:
        """The dying nodes as a graph, with edges from maker to reader."""
        import networkx as nx  # noqa: PLC0415 - takes longer to load than all of the compiler, which can do without

        graph: nx.DiGraph[Node] = nx.DiGraph()
        graph.add_nodes_from(self.makers)
        graph.add_edges_from((maker, reader) for reader, makers in self.makers.items() for maker in makers)
        return graph


def dying_region(root: Node, readers: Readers) -> Region:
    """Take the root out, and with it everything that nobody reads any more."""
    region, pending = Region(), [root]
    while pending:
        node = pending.pop()
        if not readers.remove(node):
            continue  # another site's root, which that site takes out
        dying = region.makers[node] = list[Node]()
        for value in node.inputs:
            if value is None:
                continue
            if readers.decrement(value):
                region.read.append(value)
                continue
            maker = value.producer
            if _is_kept(value, maker, readers):
                region.read.append(value)
            elif maker is None:
                region.initializers.add(value)
            else:
                dying.append(maker)
        pending += dying
    return region


def _is_kept(value: Value, maker: Node | None, readers: Readers) -> bool:
    """Whether a value lives on that nobody reads any more."""
    if maker is None:
        return value.name not in value.scope.initializers or value.name in value.scope.inputs
    if maker.op[0] or maker.op[1] in _EFFECTS:
        return True
    return any(output is not None and readers.left(output) for output in maker.outputs)
