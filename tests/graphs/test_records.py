# SPDX-License-Identifier: Apache-2.0

"""The recorded graphs are those of tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.txt")), ids=lambda file: file.stem)
def test_every_graph_is_of_a_test(file: Path) -> None:
    [module] = FOLDER.parent.rglob(f"{file.stem}.py")
    tests = set(re.findall(r"^def (test_\w+)\(.*written: Written", module.read_text(encoding="utf-8"), re.MULTILINE))
    assert tests == set(re.findall(r"^# (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE))
