# SPDX-License-Identifier: Apache-2.0

"""docs/other-tools.md names the releases that noxfile.py has, and shows the table of known faults."""

from __future__ import annotations

import re
from pathlib import Path

from tests.harness.releases.runner import LEVELS
from tests.releases.faults import FAULTS, Fault

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "other-tools.md").read_text(encoding="utf-8")


def test_the_releases_are_those_that_are_tested() -> None:
    [row] = re.findall(r"^\| releases \| (onnxruntime .*) \|$", PAGE, re.MULTILINE)
    [listed] = re.findall(r'"RELEASES": "(.*)"', (ROOT / "noxfile.py").read_text(encoding="utf-8"))
    plain, cann = row.split("; onnxruntime-cann ")
    named = re.findall(r"\d[\d.]+\d|newest", plain) + [f"cann-{version}" for version in cann.split(", ")]
    assert sorted(named) == sorted(listed.split())


def test_the_faults_are_those_of_the_table() -> None:
    rows = PAGE.partition("### Known faults of releases")[2].splitlines()
    assert [row for row in rows if row.startswith("| ")][1:] == [shown(fault) for fault in FAULTS]


def shown(fault: Fault) -> str:
    """A fault's row."""
    releases = fault.first if fault.first == fault.last else f"{fault.first} to {fault.last}"
    cases = ", ".join(f"`{case}`" for case in fault.cases)
    levels = "all" if fault.levels == LEVELS else ", ".join(fault.levels)
    cells = (releases, levels, cases, fault.seen, fault.reason)
    return f"| {' | '.join(cells)} |"
