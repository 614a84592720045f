# SPDX-License-Identifier: Apache-2.0

"""The region of a site: the nodes and initializers that are dead once the site's result is computed another way.

A node is dead if none of its outputs has a use left. So no path leaves the region and enters it again: the region is
convex by construction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from poolgrad_lowering.model.ir.scopes import Node, Value

# A node without uses is removed only if it has no effect other than its outputs.
_EFFECTS = frozenset(
    (
        *("Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"),
        *("RandomUniformLike", "If", "Loop", "Scan", "SequenceMap"),
    )
)


class UseCounts:
    """The number of remaining uses of each value, while sites are removed one after the other.

    `added` are the values that new nodes use, once for each use.
    """

    def __init__(self, added: Iterable[Value]) -> None:
        self._added, self._left = Counter(added), dict[Value, int]()
        self.removed: set[Node] = set()

    def decrement(self, value: Value) -> int:
        """Remove one use of the value and return the number of remaining uses."""
        left = self._left[value] = self.left(value) - 1
        return left

    def left(self, value: Value) -> int:
        """Return the number of remaining uses, by nodes and as an output of the scope."""
        if value not in self._left:
            self._left[value] = len(value.uses) + value.is_output + self._added.get(value, 0)
        return self._left[value]


@dataclass
class Region:
    """The dead nodes and initializers of a site.

    `producers` maps each dead node to the dead nodes that produce its inputs; `kept` are the inputs of dead nodes that
    were kept when the node was removed.
    """

    producers: dict[Node, list[Node]] = field(default_factory=dict)
    initializers: set[Value] = field(default_factory=set)
    kept: list[Value] = field(default_factory=list)

    @property
    def nodes(self) -> list[Node]:
        """The dead nodes in the order of the model."""
        return sorted(self.producers, key=lambda node: (node.scope.path, node.position))

    @property
    def frontier(self) -> set[Value]:
        """The values that dead nodes use and that stay in the model."""
        return {value for value in self.kept if value not in self.initializers and value.producer not in self.producers}


def first_outputs(nodes: Iterable[Node]) -> list[Value]:
    """Return the first outputs of some nodes; a use of them keeps the nodes alive."""
    return [value for node in nodes if (value := node.output(0)) is not None]


def dead_region(root: Node, use_counts: UseCounts) -> Region:
    """Remove the root and every node and initializer that has no use left; return what was removed."""
    region, pending = Region(), [root]
    while pending:
        node = pending.pop()
        if node in use_counts.removed:
            continue  # the root of another site, which has its own region
        use_counts.removed.add(node)
        dead = region.producers[node] = list[Node]()
        for value in node.inputs:
            if value is None:
                continue
            if use_counts.decrement(value):
                region.kept.append(value)
                continue
            producer = value.producer
            if _is_kept(value, producer, use_counts):
                region.kept.append(value)
            elif producer is None:
                region.initializers.add(value)
            else:
                dead.append(producer)
        pending += dead
    return region


def _is_kept(value: Value, producer: Node | None, use_counts: UseCounts) -> bool:
    """Whether a value without uses stays: a graph input, or an output of a node with effects or other used outputs."""
    if producer is None:
        return value.name in value.scope.inputs
    if producer.op[0] or producer.op[1] in _EFFECTS:
        return True
    others = [output for output in producer.outputs if output is not None and output is not value]
    return any(map(use_counts.left, others))
