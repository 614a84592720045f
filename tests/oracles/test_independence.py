# SPDX-License-Identifier: Apache-2.0

"""The oracles have no code in common with what they judge: two copies of one text are equal and prove nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import poolgrad_lowering.verification

ORACLES = [path for path in Path(__file__).parent.glob("*.py") if not path.name.startswith("test_")]
VERIFICATION = sorted(Path(poolgrad_lowering.verification.__file__).parent.rglob("*.py"))
SHORTEST = 45
"""The length in characters from which on a statement that is in both is a copy."""


def test_oracles_import_nothing_that_they_judge() -> None:
    """Neither from the package nor from the other modules of the tests, which use it."""
    imported = {name for path in ORACLES for name in imports(ast.parse(path.read_text(encoding="utf-8")))}
    assert "numpy" in imported
    assert not [name for name in imported if name.startswith("poolgrad_lowering")]
    assert not [name for name in imported if name.startswith("tests") and not name.startswith("tests.oracles.")]


def test_oracles_and_verification_have_no_statement_in_common() -> None:
    own, theirs = (
        {text for path in paths for text in statements(ast.parse(path.read_text(encoding="utf-8")))}
        for paths in (ORACLES, VERIFICATION)
    )
    assert len(own) > 50
    assert not own & theirs


def imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def statements(tree: ast.Module) -> Iterator[str]:
    """The text of each statement of some length, without imports, docstrings and what only has a block of others."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Raise, ast.Expr)):
            text = ast.unparse(node)
            if len(text) >= SHORTEST and not isinstance(getattr(node, "value", None), ast.Constant):
                yield text
