# SPDX-License-Identifier: Apache-2.0

"""Reads the rooms of the compiler and the imports between them from the sources, and draws them for the docs.

A room is a folder of `poolgrad_lowering`. The picture is part of `docs/architecture.md`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import networkx as nx

from docs import boxes

_PACKAGE = "poolgrad_lowering"
_TREE = Path(__file__).parents[1]
_FOLDERS = {
    _PACKAGE: _TREE / _PACKAGE,
    f"{_PACKAGE}.patterns": _TREE / "patterns",
    f"{_PACKAGE}.runtime": _TREE / "runtime",
}

ORDER = (
    ("model",),
    ("dialect",),
    ("compiler", "ge", "standard", "torch", "verification"),
    ("report",),
    ("runtime",),
    ("entry",),
)
"""The layers of rooms from the bottom up: a room imports rooms of lower layers only."""


@lru_cache
def modules() -> dict[str, Path]:
    """The file of every module of the package, by the module's name."""
    return {
        ".".join((prefix, *path.relative_to(folder).with_suffix("").parts)).removesuffix(".__init__"): path
        for prefix, folder in _FOLDERS.items()
        for path in sorted(folder.rglob("*.py"))
    }


def room(module: str) -> str:
    """The room of a module; empty for the package itself. The forms in `patterns` belong to the compiler."""
    name = module.partition(".")[2].partition(".")[0]
    return "compiler" if name == "patterns" else name


@lru_cache
def imports(*, typing: bool) -> nx.DiGraph:
    """The graph of all modules, with an edge to each module that a module imports anywhere in its file.

    With `typing`, imports for type checkers count too.
    """
    files = modules()
    graph = nx.DiGraph()
    graph.add_nodes_from(files)
    for module, path in files.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        graph.add_edges_from((module, imported) for imported in _imported(tree, files, typing=typing))
    return graph


def rooms() -> nx.DiGraph:
    """The graph of all rooms, with an edge to each room that a room imports. The package itself is not a room."""
    graph = nx.DiGraph()
    for module, imported in imports(typing=True).edges:
        ends = room(module), room(imported)
        if all(ends) and ends[0] != ends[1]:
            graph.add_edge(*ends)
    return graph


def picture() -> str:
    """An SVG with a box for each room and an arrow to each room that it imports, without transitive arrows."""
    reduced = nx.transitive_reduction(rooms())
    names = {name: (name,) for name in sorted(reduced.nodes)}
    title = "The rooms of the compiler; an arrow leads to a room that is imported."
    return boxes.picture(title, names, sorted(reduced.edges))


def descriptions() -> Mapping[str, str]:
    """The first paragraph of each room's docstring, from the top layer to the bottom."""
    files = modules()
    found = {}
    for name in (name for layer in reversed(ORDER) for name in layer):
        text = ast.get_docstring(ast.parse(files[f"{_PACKAGE}.{name}"].read_text(encoding="utf-8"))) or ""
        found[name] = " ".join(text.split("\n\n", 1)[0].split())
    return found


def _imported(tree: ast.Module, files: Mapping[str, Path], *, typing: bool) -> Iterator[str]:
    skipped = set() if typing else {node for block in tree.body if _is_type_checking(block) for node in ast.walk(block)}
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in files)
        elif isinstance(node, ast.ImportFrom) and (node.module or "") in files:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from sorted(names & files.keys()) or [str(node.module)]


def _is_type_checking(block: ast.stmt) -> bool:
    return isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
