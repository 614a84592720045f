# SPDX-License-Identifier: Apache-2.0

"""The rooms of the compiler: imports run one way, and the page shows them as they are."""

from __future__ import annotations

import re

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
    """An import in a function counts, and one for type checkers alone."""
    circles = [circle for circle in nx.strongly_connected_components(rooms.imports(typing=True)) if len(circle) > 1]
    assert not circles


def test_a_family_is_known_to_its_forms_and_the_registry_alone() -> None:
    """What the pass, plans and reports ask of a gradient is in `families.family`."""
    families = "poolgrad_lowering.families."
    homes = {
        module.removesuffix("family") for module in rooms.modules() if re.fullmatch(f"{families}\\w+.family", module)
    }
    assert homes
    assert not [
        (module, imported)
        for module, imported in rooms.imports(typing=True).edges
        if any(imported.startswith(home) and not module.startswith(home) for home in homes)
        if module != f"{families}registry" and rooms.room(module) != "patterns"
    ]
