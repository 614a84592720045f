"""Every refusal code is one thing in four places: its description, its check, its test, its row in the docs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from poolgrad_lowering.codes import DESCRIPTIONS, Code, refuse

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "legality.md").read_text(encoding="utf-8")
SOURCES = [path for folder in ("poolgrad_lowering", "patterns") for path in (ROOT / folder).rglob("*.py")]

COLLECT = """
import sys, pytest

class Marks:
    def pytest_collection_finish(self, session):
        for item in session.items:
            for mark in item.iter_markers("refusal"):
                print("refusal:", *mark.args)

sys.exit(pytest.main(["--collect-only", "-qq", *sys.argv[1:]], plugins=[Marks()]))
"""


@pytest.fixture(scope="module")
def provoked(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The codes that tests are marked with, as pytest collects them."""
    folders = [str(ROOT / "tests" / name) for name in ("patterns", "poolgrad_lowering")]
    collected = subprocess.run(
        [sys.executable, "-c", COLLECT, "-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider", *folders],
        cwd=tmp_path_factory.mktemp("collect"),  # the repository's root would hide the installed package
        capture_output=True,
        text=True,
        check=False,
    )
    assert collected.returncode == 0, collected.stdout + collected.stderr
    return set(re.findall(r"^refusal: (.+)$", collected.stdout, re.MULTILINE))


def checked() -> set[str]:
    """The names of the codes that the sources refuse with."""
    return {
        node.attr
        for path in SOURCES
        if path.name != "codes.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Code"
    }


def test_names_are_their_values() -> None:
    assert [code.value for code in Code] == [code.name.lower().replace("_", "-") for code in Code]
    assert [code.name for code in Code] == sorted(code.name for code in Code)


def test_descriptions() -> None:
    assert list(DESCRIPTIONS) == list(Code)
    assert all(text.endswith(".") and text[0] != " " for text in DESCRIPTIONS.values())


def test_sources_check_every_code_and_no_other() -> None:
    assert checked() == {code.name for code in Code}


def test_a_test_provokes_every_code(provoked: set[str]) -> None:
    assert provoked == {code.value for code in Code}


def test_documentation_has_a_row_for_every_code() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| (.+) \|$", PAGE, re.MULTILINE)
    assert rows == sorted((code.value, DESCRIPTIONS[code]) for code in Code)


def test_reasons_are_formatted_when_they_are_read() -> None:
    class Shown:
        count = 0

        def __str__(self) -> str:
            Shown.count += 1
            return "[2, 3]"

    refusal = refuse(Code.ROWS, "rows of {} are not planes", Shown())
    assert Shown.count == 0
    assert refusal.reason == "rows of [2, 3] are not planes"
    assert Shown.count == 1
