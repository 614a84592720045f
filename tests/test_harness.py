# SPDX-License-Identifier: Apache-2.0

"""What tests start, compile, or put in the place of another program is in `tests/harness/`, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import harness

HOME = Path(harness.__file__).parent
TESTS = HOME.parent
ROOT = TESTS.parent
INSTRUCTIONS = ("Makefile", "noxfile.py", "CONTRIBUTING.md")
"""What tells a person to start a program."""
BUILT_OR_STARTED = {".cpp", ".h", ".mjs"}


def outside() -> list[Path]:
    """The files of the other folders of the tests."""
    return [path for path in TESTS.rglob("*") if path.is_file() and HOME not in path.parents]


def programs() -> list[str]:
    """The names of the modules outside of the harness that can be started."""
    modules = [path for path in outside() if path.suffix == ".py"]
    paths = [path.relative_to(ROOT).with_suffix("") for path in modules if is_program(path)]
    return sorted(".".join(path.parts).removesuffix(".__main__") for path in paths)


def is_program(path: Path) -> bool:
    return re.search(r"""^if __name__ == ["']__main__["']""", path.read_text(encoding="utf-8"), re.M) is not None


@pytest.mark.parametrize("name", programs())
def test_a_program_elsewhere_is_started_by_people(name: str) -> None:
    """It is a search or a writer: a target of the Makefile or a session starts it, or a page says how."""
    texts = [(ROOT / file).read_text(encoding="utf-8") for file in INSTRUCTIONS]
    assert any(re.search(rf"-m {re.escape(name)}(?![\w.])", text) for text in texts)


def test_sources_of_other_languages_are_in_the_harness() -> None:
    assert not [path for path in outside() if path.suffix in BUILT_OR_STARTED]


def test_the_harness_has_no_tests() -> None:
    assert not [path for path in HOME.rglob("*.py") if re.match("test_|conftest", path.name)]


def test_every_part_of_the_harness_is_described() -> None:
    found = {f"{path.parent.relative_to(HOME).parts[0]}/" for path in HOME.glob("*/**/*.*") if path.suffix != ".pyc"}
    modules = {path.stem for path in HOME.glob("*.py")} - {"__init__"}
    first_cells = re.findall(r"^\| (`.*?) \|", harness.__doc__ or "", re.M)
    assert set(re.findall("`(.*?)`", " ".join(first_cells))) == found | modules
