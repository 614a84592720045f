"""Who reads which name, in one scope: the part of the index that is as large as the graph has edges."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property


class Readings:
    """Readings of names, each with the position of its reader, in their order. Empty names are absent inputs.

    Flat lists, and of integers where they can be: a list for every name would be most of what the index allocates.
    """

    def __init__(self, names: Sequence[str] = (), positions: Sequence[int] = ()) -> None:
        self.names = names
        self._positions = positions

    def of(self, name: str) -> list[int]:
        """The positions of the nodes that read the name, once for every time, in their order."""
        last, before = self._links
        found, reading = [], last.get(name, -1)
        while reading >= 0:
            found.append(self._positions[reading])
            reading = before[reading]
        return found[::-1]

    @cached_property
    def _links(self) -> tuple[dict[str, int], list[int]]:
        """The last reading of each name, and of each reading the one of the same name before it.

        Made when somebody asks who reads a name: a model without anchors never needs it.
        """
        last: dict[str, int] = {}
        before: list[int] = []
        for reading, name in enumerate(self.names):
            before.append(last.get(name, -1))
            last[name] = reading
        return last, before
