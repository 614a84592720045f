# SPDX-License-Identifier: Apache-2.0

"""Every refusal code, fault and obstacle is one thing in four places: description, check, test and row in the docs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import pytest

from poolgrad_lowering.diagnostics.advice import ADVICE
from poolgrad_lowering.diagnostics.codes import DESCRIPTIONS, Code, refuse
from poolgrad_lowering.diagnostics.faults import FAULTS, Fault
from poolgrad_lowering.diagnostics.obstacles import OBSTACLES, Obstacle

ROOT = Path(__file__).parent.parent.parent.parent
SOURCES = [path for folder in ("poolgrad_lowering", "patterns") for path in (ROOT / folder).rglob("*.py")]


class Table(NamedTuple):
    """A table of codes: the mark of its tests, the page of its rows, and what a row says."""

    codes: type[Enum]
    mark: str
    page: str
    rows: dict[Enum, tuple[str, ...]]


TABLES = (
    Table(Code, "refusal", "troubleshooting.md", {code: (text, ADVICE[code]) for code, text in DESCRIPTIONS.items()}),
    Table(Fault, "fault", "security.md", {fault: tuple(meaning) for fault, meaning in FAULTS.items()}),
    Table(Obstacle, "obstacle", "offline-with-atc.md", {code: tuple(meaning) for code, meaning in OBSTACLES.items()}),
)
each_table = pytest.mark.parametrize("table", TABLES, ids=[table.mark for table in TABLES])

COLLECT = """
import sys, pytest

class Marks:
    def pytest_collection_finish(self, session):
        for item in session.items:
            for mark in item.iter_markers():
                if mark.name in ("refusal", "fault", "obstacle"):
                    print(mark.name + ":", *mark.args)

sys.exit(pytest.main(["--collect-only", "-qq", *sys.argv[1:]], plugins=[Marks()]))
"""


@pytest.fixture(scope="module")
def provoked(tmp_path_factory: pytest.TempPathFactory) -> set[tuple[str, str]]:
    """The marks of tests and the codes that these are marked with, as pytest collects them."""
    folders = [str(ROOT / "tests" / name) for name in ("patterns", "poolgrad_lowering")]
    collected = subprocess.run(
        [sys.executable, "-c", COLLECT, "-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider", *folders],
        cwd=tmp_path_factory.mktemp("collect"),  # the repository's root would hide the installed package
        capture_output=True,
        text=True,
        check=False,
    )
    assert collected.returncode == 0, collected.stdout + collected.stderr
    return set(re.findall(r"^(refusal|fault|obstacle): (.+)$", collected.stdout, re.MULTILINE))


def checked(table: Table) -> set[str]:
    """The names of a table's codes that the sources use."""
    return {
        node.attr
        for path in SOURCES
        if path.name not in ("codes.py", "advice.py", "faults.py")
        and path.parts[-2:] != ("diagnostics", "obstacles.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if node.value.id == table.codes.__name__
    }


@each_table
def test_names_are_their_values(table: Table) -> None:
    assert [code.value for code in table.codes] == [code.name.lower().replace("_", "-") for code in table.codes]
    assert [code.name for code in table.codes] == sorted(code.name for code in table.codes)


@each_table
def test_descriptions(table: Table) -> None:
    assert list(table.rows) == list(table.codes)
    texts = [text for row in table.rows.values() for text in row]
    assert all(text.endswith((".", ")")) and text[0] != " " for text in texts)


def test_every_code_has_advice() -> None:
    assert list(ADVICE) == list(Code)


@each_table
def test_sources_check_every_code_and_no_other(table: Table) -> None:
    assert checked(table) == {code.name for code in table.codes}


@each_table
def test_a_test_provokes_every_code(table: Table, provoked: set[tuple[str, str]]) -> None:
    assert {code for mark, code in provoked if mark == table.mark} == {code.value for code in table.codes}


@each_table
def test_documentation_has_a_row_for_every_code(table: Table) -> None:
    page = (ROOT / "docs" / table.page).read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[?`([\w-]+)`(?:\]\([^)]*\))? \| (.+) \|$", page, re.MULTILINE)
    codes = {code.value for code in table.codes}
    expected = sorted((code.value, " | ".join(row)) for code, row in table.rows.items())
    assert [row for row in rows if row[0] in codes] == expected


def test_every_refusal_code_has_a_heading() -> None:
    """The site's search finds a code first where it is a heading."""
    page = (ROOT / "docs" / "legality.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^### `([\w-]+)`\n\n(.+?)(?=\n\n###|\Z)", page, re.MULTILINE | re.DOTALL))
    assert list(sections) == sorted(code.value for code in Code)
    for code, text in DESCRIPTIONS.items():
        assert sections[code.value].strip() == f"{text}\n\nWhat would have to change: {ADVICE[code]}"


def test_reasons_are_formatted_when_they_are_read() -> None:
    class Shown:
        count = 0

        def __str__(self) -> str:
            Shown.count += 1
            return "[2, 3]"

    refusal = refuse(Code.ROWS_NOT_PLANES, "rows of {} are not planes", Shown())
    assert Shown.count == 0
    assert refusal.reason == "rows of [2, 3] are not planes"
    assert Shown.count == 1
