# SPDX-License-Identifier: Apache-2.0

"""The rooms of the compiler: imports run one way, and the page shows them as they are."""

from __future__ import annotations

import networkx as nx
import pytest

from docs import rooms

FLOORS = {name: floor for floor, names in enumerate(rooms.ORDER) for name in names}


def test_every_room_has_a_floor() -> None:
    assert FLOORS.keys() == {rooms.room(module) for module in rooms.modules()} - {"", "schemas"}


@pytest.mark.parametrize(("above", "below"), sorted(rooms.rooms().edges))
def test_imports_lead_to_lower_floors(above: str, below: str) -> None:
    culprits = [
        f"{module} imports {imported}"
        for module, imported in rooms.imports(typing=True).edges
        if (rooms.room(module), rooms.room(imported)) == (above, below)
    ]
    assert FLOORS[below] < FLOORS[above], culprits


def test_modules_do_not_import_each_other_in_circles() -> None:
    """An import in a function counts; one for type checkers alone does not."""
    circles = [circle for circle in nx.strongly_connected_components(rooms.imports(typing=False)) if len(circle) > 1]
    assert not circles
