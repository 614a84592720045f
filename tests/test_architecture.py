# SPDX-License-Identifier: Apache-2.0

"""The rooms of the compiler: imports run one way, and the page shows them as they are."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import networkx as nx
import onnx
import pytest

from docs import rooms
from poolgrad_lowering import lower

ROOT = Path(__file__).parents[1]
LINES = {
    "compiler": 7_659,
    "dialect": 2_238,
    "entry": 3_731,
    "ge": 3_735,
    "model": 7_672,
    "report": 1_939,
    "standard": 3_080,
    "torch": 10_085,
    "verification": 7_343,
}
"""The most lines of each room's Python."""
FLOORS = {name: floor for floor, names in enumerate(rooms.ORDER) for name in names}


def test_every_room_has_a_floor() -> None:
    assert FLOORS.keys() == {rooms.room(module) for module in rooms.modules()} - {"", "schemas"}


def test_the_house_stays_small() -> None:
    """A larger one is a decision, not an accident: whoever adds a room looks at the picture first."""
    assert len(rooms.rooms().nodes) <= 10
    assert len(rooms.rooms().edges) <= 32
    assert [path.name for path in (ROOT / "poolgrad_lowering").glob("*.py")] == ["__init__.py"]


@pytest.mark.parametrize(("room", "lines"), LINES.items())
def test_a_room_stays_small(room: str, lines: int) -> None:
    """Whoever writes more in a room has to raise its number here, and says why."""
    paths = [path for module, path in rooms.modules().items() if rooms.room(module) == room]
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths) <= lines


def test_no_file_name_stands_four_times() -> None:
    names = Counter(path.name for module, path in rooms.modules().items() if rooms.room(module) != "runtime")
    assert not [name for name, count in names.items() if count > 3 and name != "__init__.py"]


def test_one_lowering_is_a_short_walk() -> None:
    """The modules and named functions that the lowering of a training graph runs, and the classes that it makes."""
    model = onnx.load(ROOT / "models" / "built" / "torch" / "lenet.onnx")
    lower(model)  # what is computed once a process is not of the walk
    modules, functions, records = set[str](), set[tuple[str, str]](), set[type]()

    def note(frame: FrameType, event: str, _: object) -> None:
        module, code = frame.f_globals.get("__name__", ""), frame.f_code
        if event != "call" or not module.startswith("poolgrad_lowering"):
            return
        if code.co_name == "__init__":
            records.add(type(frame.f_locals["self"]))
        elif not code.co_name.startswith("<"):
            functions.add((module, f"{code.co_firstlineno} {code.co_name}"))
        modules.add(module)

    sys.setprofile(note)
    try:
        lower(model)
    finally:
        sys.setprofile(None)
    assert len(modules) <= 70
    assert len(functions) <= 364
    assert len(records) <= 25


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
    """What the pass, plans and reports ask of a gradient is in `families.registry`."""
    families = "poolgrad_lowering.compiler.families."
    homes = {
        module.removesuffix("gradient")
        for module in rooms.modules()
        if re.fullmatch(f"{families}\\w+.gradient", module)
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
    ("exports",),
    ("sites",),
    ("outside",),
    ("running",),
    ("verifier",),
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


def test_folders_of_torch_import_lower_ones() -> None:
    """Modules that are in none of them are left out: some are below all folders, others above."""
    order = ("internals", "symbolic", "operators", "checking")
    pattern = re.compile(rf"poolgrad_lowering\.torch\.({'|'.join(order)})\.")
    found = [
        (above[1], below[1])
        for pair in rooms.imports(typing=True).edges
        if (above := pattern.match(pair[0])) and (below := pattern.match(pair[1])) and above[1] != below[1]
    ]
    assert {name for pair in found for name in pair} == {*order}
    assert not [pair for pair in found if order.index(pair[0]) < order.index(pair[1])]


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
