# SPDX-License-Identifier: Apache-2.0

"""Every code of the catalogue is one thing in four places: its row, its check, its test, and its row in the docs."""

from __future__ import annotations

import ast
import functools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.diagnostics.definition_codes import DefinitionCode
from poolgrad_lowering.model.diagnostics.diagnostic import Diagnostic
from poolgrad_lowering.model.diagnostics.faults import Fault
from poolgrad_lowering.model.diagnostics.note_codes import NoteCode
from poolgrad_lowering.model.diagnostics.obstacles import Obstacle
from tests import texts

ROOT = Path(__file__).parents[4]
SOURCES = [path for folder in ("poolgrad_lowering", "patterns") for path in (ROOT / folder).rglob("*.py")]

MARKS: dict[type[Diagnostic], str] = {
    Code: "refusal",
    DefinitionCode: "undefined",
    Fault: "fault",
    Obstacle: "obstacle",
    NoteCode: "note",
}
PAGES: dict[type[Diagnostic], str] = {
    DefinitionCode: "standard-operators.md",
    Fault: "security.md",
    Obstacle: "offline-with-atc.md",
    NoteCode: "report.md",
}
each_kind = pytest.mark.parametrize("kind", MARKS, ids=MARKS.get)
each_row = pytest.mark.parametrize("row", [row for kind in MARKS for row in kind], ids=str)

COLLECT = f"""
import sys, pytest

class Marks:
    def pytest_collection_finish(self, session):
        for item in session.items:
            for mark in item.iter_markers():
                if mark.name in {[*MARKS.values()]}:
                    print(mark.name, *mark.args, item.nodeid, sep="\\t")

sys.exit(pytest.main(["--collect-only", "-qq", *sys.argv[1:]], plugins=[Marks()]))
"""


@pytest.fixture(scope="module")
def provoked(tmp_path_factory: pytest.TempPathFactory) -> set[tuple[str, str, str]]:
    """The marks of tests, the codes that these are marked with, and the tests, as pytest collects them."""
    written = re.compile(rf"mark\.({'|'.join(MARKS.values())})\b|\bnear_misses\b")
    tests = (path for name in ("patterns", "poolgrad_lowering") for path in (ROOT / "tests" / name).rglob("test_*.py"))
    files = [str(path) for path in tests if written.search(path.read_text(encoding="utf-8"))]
    collected = subprocess.run(
        [sys.executable, "-c", COLLECT, "-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider", *files],
        cwd=tmp_path_factory.mktemp("collect"),  # the repository's root would hide the installed package
        capture_output=True,
        text=True,
        check=False,
    )
    assert collected.returncode == 0, collected.stdout + collected.stderr
    return set(re.findall(r"^(\w+)\t(.+)\t(.+)$", collected.stdout, re.MULTILINE))


def test_a_row_without_advice_is_named() -> None:
    with pytest.raises(TypeError, match=r"^Bad\.NO_WORD has no advice: "):

        class Bad(Diagnostic):
            NO_WORD = ("It is wrong.",)


@each_row
def test_a_row(row: Diagnostic) -> None:
    assert row.value == row.name.lower().replace("_", "-")
    assert type(row)(row.value) is row
    assert all(text.endswith((".", ")")) and text[0] != " " for text in (row.meaning, row.advice))


@each_kind
def test_rows_are_sorted(kind: type[Diagnostic]) -> None:
    """Two rows with the same texts would be two names of one."""
    assert list(kind.__members__) == sorted(row.name for row in kind)


@functools.cache
def checked() -> set[tuple[str, str]]:
    """The attributes of names in the sources, outside of the catalogue."""
    return {
        (node.value.id, node.attr)
        for path in SOURCES
        if path.parent.name != "diagnostics"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }


@each_kind
def test_sources_check_every_code_and_no_other(kind: type[Diagnostic]) -> None:
    assert {name for of, name in checked() if of == kind.__name__} == {row.name for row in kind}


@each_kind
def test_a_test_provokes_every_code(kind: type[Diagnostic], provoked: set[tuple[str, str, str]]) -> None:
    assert {code for mark, code, _ in provoked if mark == MARKS[kind]} == {row.value for row in kind}


@each_kind
def test_a_test_provokes_every_recorded_code(
    kind: type[Diagnostic], provoked: set[tuple[str, str, str]], accept: bool
) -> None:
    """No sentence of a test that is gone is left in the record."""
    held = texts.recorded(MARKS[kind])
    found = {test: said for test, said in held.items() if (MARKS[kind], said[0], test) in provoked}
    if accept:
        texts.record(MARKS[kind], found)
    else:
        assert held == found, texts.HOW_TO_ACCEPT


@pytest.mark.parametrize("kind", PAGES, ids=MARKS.get)
def test_documentation_has_a_row_for_every_code(kind: type[Diagnostic]) -> None:
    page = (ROOT / "docs" / PAGES[kind]).read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[?`([\w-]+)`(?:\]\([^)]*\))? \| (.+?) \| (.+?) \|", page, re.MULTILINE)
    expected = sorted((row.value, row.meaning, row.advice) for row in kind)
    codes = {row.value for row in kind}
    assert [row for row in rows if row[0] in codes] == expected


def test_every_refusal_code_has_a_heading() -> None:
    """The site's search finds a code first where it is a heading."""
    page = (ROOT / "docs" / "legality.md").read_text(encoding="utf-8")
    sections = re.findall(r"^### `([\w-]+)`\n\n(.+)\n\n(.+)$", page, re.MULTILINE)
    assert sections == sorted((code.value, code.meaning, code.advice) for code in Code)


def test_the_schema_of_the_report_has_every_note() -> None:
    schema = json.loads((ROOT / "poolgrad_lowering" / "schemas" / "report.json").read_text(encoding="utf-8"))
    assert schema["properties"]["notes"]["items"]["properties"]["code"]["enum"] == [code.value for code in NoteCode]


def test_reasons_are_formatted_when_they_are_read() -> None:
    class Shown:
        count = 0

        def __str__(self) -> str:
            Shown.count += 1
            return "[2, 3]"

    refusal = Refuse(Code.ROWS_NOT_PLANES, "rows of {} are not planes", Shown()).refusal
    assert Shown.count == 0
    assert refusal.reason == "rows of [2, 3] are not planes"
    assert Shown.count == 1
