# SPDX-License-Identifier: Apache-2.0

"""All mutants of a module: where they are, how they read, and their code."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import CodeType

from tests.mutation.modules import modules
from tests.mutation.operators import STRICT, replacements

_NOT_LOGIC = ("annotation", "returns")
_ROWS = ("defines", "form")
"""Decorators whose arguments are a row of a table. All others are no logic."""
_DEFAULTS = ("defaults", "kw_defaults")


@dataclass(frozen=True)
class Place:
    """Where a node hangs in its tree: in a field of its parent, or in the list that the field is."""

    parent: ast.AST
    field: str
    number: int | None

    def put(self, node: ast.AST) -> None:
        """Hang another node there."""
        if self.number is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.number] = node


@dataclass(frozen=True)
class Mutant:
    """A module with one node replaced. `name` stays the same as long as function and node do; it begins in the package.

    `function` is the way to the outermost function or method around the node, empty where only importing runs it, as it
    does the defaults of parameters.
    """

    module: str
    name: str
    function: tuple[str, ...]
    first_line: int  # of the statement
    last_line: int  # of the node
    file: Path
    _tree: ast.Module = field(repr=False, compare=False)
    _place: Place = field(repr=False, compare=False)
    _node: ast.AST = field(repr=False, compare=False)
    _replacement: ast.AST = field(repr=False, compare=False)

    def code(self) -> CodeType:
        """The mutated module, compiled."""
        with self._put():
            return compile(ast.fix_missing_locations(self._tree), str(self.file), "exec")

    def text(self) -> str:
        """The source of the mutated module, without comments."""
        with self._put():
            return ast.unparse(ast.fix_missing_locations(self._tree))

    @contextmanager
    def _put(self) -> Iterator[None]:
        self._place.put(ast.copy_location(self._replacement, self._node))
        try:
            yield
        finally:
            self._place.put(self._node)


def all_mutants() -> Iterator[Mutant]:
    """Those of all modules."""
    for module, file in modules().items():
        yield from mutants(module, file)


def mutants(module: str, file: Path) -> Iterator[Mutant]:
    """Every mutant of the module in a file, in the order of its lines."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    seen: Counter[str] = Counter()
    for place, node, around in _nodes(tree, _Around()):
        for replacement in replacements(node):
            function = ".".join((module.removeprefix("poolgrad_lowering."), *around.names))
            plain = f"{function}: {_text(node)} → {_text(replacement)}"
            seen[plain] += 1
            name = plain if seen[plain] == 1 else f"{plain} #{seen[plain]}"
            yield Mutant(module, name, around.function, *_lines(node, around), file, tree, place, node, replacement)


@dataclass(frozen=True)
class _Around:
    """What a node is in: classes and functions by name, the outermost function as a way to it, the statement."""

    names: tuple[str, ...] = ()
    function: tuple[str, ...] = ()
    first_line: int = 1

    def inside(self, node: ast.AST) -> _Around:
        if not isinstance(node, ast.stmt):
            return self
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            return replace(self, first_line=node.lineno)
        names = (*self.names, node.name)
        function = names if isinstance(node, ast.FunctionDef) and not self.function else self.function
        return _Around(names, function, node.lineno)


def _nodes(parent: ast.AST, around: _Around) -> Iterator[tuple[Place, ast.AST, _Around]]:
    """The nodes below one, each with what it is in; not the idle ones and annotations."""
    for name, value in ast.iter_fields(parent):
        if name in _NOT_LOGIC:
            continue
        for number, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(node, ast.AST) and not _is_idle(node):
                inside = around.inside(node)
                if name == "decorator_list" and not (isinstance(node, ast.Call) and ast.unparse(node.func) in _ROWS):
                    continue
                if name in (*_DEFAULTS, "decorator_list") and around.function == around.names:
                    inside = replace(inside, function=())
                yield Place(parent, name, number), node, inside
                yield from _nodes(node, inside)


def _lines(node: ast.AST, around: _Around) -> tuple[int, int]:
    """From the beginning of the statement to the end of the node; a branch ends with its condition."""
    last = node.test if isinstance(node, ast.If) else node
    return around.first_line, getattr(last, "end_lineno", None) or around.first_line


def _is_idle(node: ast.AST) -> bool:
    """Imports, docstrings, and the promise that zip's operands are of one length."""
    if isinstance(node, ast.keyword):
        return node.arg == STRICT
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return True
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or isinstance(node, (ast.Import, ast.ImportFrom))


def _text(node: ast.AST) -> str:
    """A node on one line; of a branch, its condition, as what follows is as it was."""
    if isinstance(node, ast.If):
        return f"if {ast.unparse(node.test)}"
    if isinstance(node, ast.comprehension):
        node = ast.GeneratorExp(ast.Name("…"), [node])
    return " ".join(ast.unparse(ast.fix_missing_locations(node)).split())
