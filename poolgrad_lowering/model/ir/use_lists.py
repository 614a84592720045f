# SPDX-License-Identifier: Apache-2.0

"""Use lists: for each name of a scope, the positions of the nodes that consume it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property


class UseLists:
    """For each name, the positions of the nodes that consume it. Empty names are absent inputs.

    Stored as two flat lists, `names` and `positions`: one list per name would be most of what the index allocates. The
    first `by_nodes` entries are the inputs of nodes, ordered by node, with `producers`: the position of the node that
    produces it, -1 if none of the scope does.
    """

    def __init__(
        self,
        names: Sequence[str] = (),
        positions: Sequence[int] = (),
        producers: Sequence[int] = (),
        captured: Sequence[str] = (),
    ) -> None:
        self.by_nodes = len(names)
        self.producers = producers
        self.names = [*names, *captured] if captured else names
        self.positions = [*positions, *[-1] * len(captured)] if captured else positions

    def of(self, name: str) -> list[int]:
        """The positions of the nodes that consume the name, in order, one entry per input."""
        last, before = self._links
        found, use = [], last.get(name, -1)
        while use >= 0:
            found.append(self.positions[use])
            use = before[use]
        return found[::-1]

    @cached_property
    def _links(self) -> tuple[dict[str, int], list[int]]:
        """Linked lists of uses: the last use of each name, and the use before each use; −1 ends a list.

        Computed at the first query: a model without anchors never needs it.
        """
        last: dict[str, int] = {}
        before: list[int] = []
        for use, name in enumerate(self.names):
            before.append(last.get(name, -1))
            last[name] = use
        return last, before
