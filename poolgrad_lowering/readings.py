"""Who reads which name, in one scope: the part of the index that is as large as the graph has edges."""

from __future__ import annotations

from collections.abc import Iterable


class Readings:
    """Positions of readers by name, each reading linked to the one of the same name before it.

    Flat lists of integers: a list for every name would be most of what the index allocates.
    """

    def __init__(self) -> None:
        self.last: dict[str, int] = {}
        """The newest reading of each name that is read."""
        self._before: list[int] = []
        self._positions: list[int] = []

    def add(self, position: int, names: Iterable[str]) -> None:
        """The node at a position reads these names; empty ones are inputs that are absent."""
        last, before, positions = self.last, self._before, self._positions
        for name in names:
            if name:
                before.append(last.get(name, -1))
                last[name] = len(positions)
                positions.append(position)

    def of(self, name: str) -> list[int]:
        """The positions of the nodes that read the name, once for every time, in the order they were added."""
        found, reading = [], self.last.get(name, -1)
        while reading >= 0:
            found.append(self._positions[reading])
            reading = self._before[reading]
        return found[::-1]
