# SPDX-License-Identifier: Apache-2.0

"""The committed page and plots are those of the committed numbers."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

from benchmarks.page import headline, write_page
from benchmarks.page_runtime import steps_sentence

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = DOCS / "benchmarks" / "results.json"


def test_the_page_is_of_the_numbers(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    write_page(json.loads(RESULTS.read_text(encoding="utf-8")), tmp_path)
    for made in [tmp_path / "benchmarks.md", *(tmp_path / "benchmarks").iterdir()]:
        committed = DOCS / made.relative_to(tmp_path)
        assert committed.read_text(encoding="utf-8") == made.read_text(encoding="utf-8"), f"run `make bench`: {made}"


def test_the_readme_has_the_numbers() -> None:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    readme = " ".join((DOCS.parent / "README.md").read_text(encoding="utf-8").split())
    for sentence in (headline(results), steps_sentence(results["eager_step"])):
        assert sentence in readme, f"write in README.md: {sentence}"


def test_plots_are_wellformed() -> None:
    plots = list((DOCS / "benchmarks").glob("*.svg"))
    assert plots
    for plot in plots:
        assert ET.parse(plot).getroot().tag == "{http://www.w3.org/2000/svg}svg"
