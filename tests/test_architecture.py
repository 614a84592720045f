# SPDX-License-Identifier: Apache-2.0

"""The rooms of the compiler: imports run one way, and the page shows them as they are."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import pytest

from docs import rooms

FLOORS = {name: floor for floor, names in enumerate(rooms.ORDER) for name in names}


def test_every_room_has_a_floor() -> None:
    assert FLOORS.keys() == {rooms.room(module) for module in rooms.modules()} - {"", "schemas"}


def test_the_house_stays_small() -> None:
    """A larger one is a decision, not an accident: whoever adds a room looks at the picture first."""
    root = Path(__file__).parents[1]
    assert len(rooms.rooms().nodes) <= 10
    assert len(rooms.rooms().edges) <= 32
    assert [path.name for path in (root / "poolgrad_lowering").glob("*.py")] == ["__init__.py"]


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
    families = "poolgrad_lowering.compiler.families."
    homes = {
        module.removesuffix("family") for module in rooms.modules() if re.fullmatch(f"{families}\\w+.family", module)
    }
    assert homes
    assert not [
        (module, imported)
        for module, imported in rooms.imports(typing=True).edges
        if any(imported.startswith(home) and not module.startswith(home) for home in homes)
        if module != f"{families}registry" and not module.startswith("poolgrad_lowering.patterns.")
    ]


VERIFICATION = "poolgrad_lowering.verification"
PARTS = (
    ("arrays", "result"),
    ("operators",),
    ("graph",),
    ("exports", "sites"),
    ("outside", "text"),
    ("running",),
    ("verifier",),
    ("files",),
)
"""The layers of verification's folders and modules from the bottom up: each imports those of lower layers only."""


def part(module: str) -> str:
    """The folder or module in the root of verification that a module is in; empty for all others."""
    return module.removeprefix(f"{VERIFICATION}.").partition(".")[0] if module.startswith(f"{VERIFICATION}.") else ""


def test_every_part_of_verification_has_a_layer() -> None:
    assert {name for names in PARTS for name in names} == {part(module) for module in rooms.modules()} - {""}


def test_parts_of_verification_import_lower_layers() -> None:
    """Imports for type checkers count."""
    layers = {name: layer for layer, names in enumerate(PARTS) for name in names}
    between = [
        (module, imported)
        for module, imported in rooms.imports(typing=True).edges
        if part(module) and part(imported) and part(module) != part(imported)
    ]
    assert between
    assert not [pair for pair in between if layers[part(pair[0])] <= layers[part(pair[1])]]


def test_classes_of_verification_have_names_of_their_own() -> None:
    """A class or type of verification has the name of no other one in the package."""
    found = defaultdict[str, set[str]](set)
    for module, path in rooms.modules().items():
        for name in types(ast.parse(path.read_text(encoding="utf-8"))):
            found[name].add(module)
    shared = {name: places for name, places in found.items() if len(places) > 1 and any(map(part, places))}
    assert not shared


def types(tree: ast.Module) -> Iterator[str]:
    """The names of the classes and type aliases of a module, which begin with a capital."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        yield from (
            each.id for each in targets if isinstance(each, ast.Name) and re.fullmatch("[A-Z].*[a-z].*", each.id)
        )
