# SPDX-License-Identifier: Apache-2.0

"""The page is that of the committed numbers; its section on kernels, and a section for every question."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.page import _SECTIONS, headline, write_page
from benchmarks.page_runtime import steps_sentence
from benchmarks.pool_cases import CASES, STEM
from benchmarks.run import QUESTIONS, measured_earlier

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


def row(name: str, milliseconds: float, ratio: float) -> dict[str, Any]:
    seconds = milliseconds / 1e3
    return {"name": name, "median": seconds, "low": seconds, "high": seconds, "rounds": 3, "ratio": ratio}


def test_questions_of_an_earlier_run_are_named(tmp_path: Path) -> None:
    old, new = ({"processor": name, "onnxruntime": "1.31.1"} for name in ("A", "B"))
    results: dict[str, Any] = {"machine": old, "pass": {}, "kernels": {}}
    earlier = measured_earlier(results, ["pass"], new)
    assert earlier == {"kernels": old}
    assert measured_earlier({**results, "machine": new, "earlier": earlier}, ["kernels"], new) == {}
    write_page({"machine": new, "earlier": earlier}, tmp_path)
    page = (tmp_path / "benchmarks.md").read_text(encoding="utf-8")
    assert "Measured in an earlier run (A, onnxruntime 1.31.1): kernels." in page


def test_section_on_kernels(tmp_path: Path) -> None:
    forward = [row("memory", 1.5, 1), row("libaclnn_host", 3, 2.04), row("torch", 90, 60), row("onnxruntime", 12, 8)]
    half = [row("memory", 0.75, 1), row("libaclnn_host", 2, 2.7), row("torch", 80, 110)]
    cases = [
        {"name": "stem", "dtype": "float32", "forward": forward, "backward": forward},
        {"name": "stem", "dtype": "float16", "forward": half, "backward": half},
    ]
    pair = {"name": "stem", "own": row("", 5, 0), "peer": row("", 50, 0), "ratio": 0.1}
    (tmp_path / "benchmarks").mkdir()
    write_page({"machine": {}, "kernels": {"cases": cases, "pair": pair}}, tmp_path)
    page = (tmp_path / "benchmarks.md").read_text(encoding="utf-8")
    assert "| stem | float32 | 1.50 | 3.00 (2.0) | 90.00 (60.0) | 12.00 (8.0) |" in page
    assert "| stem | float16 | 0.75 | 2.00 (2.7) | 80.00 (110.0) |  |" in page
    assert "5 ms; 50 ms in onnxruntime; 1/10.0 of it." in page
    assert page.index("### Forward") < page.index("### Backward")


def test_names_tell_cases_apart() -> None:
    assert STEM.name == "8×64×112×112, k 3, s 2, p 1"
    names = [case.name for case in CASES]
    assert names[2] == "2×64×16×56×56, k (1, 2, 2), s (1, 2, 2)"
    assert len(set(names)) == len(names)


def test_every_question_has_a_module_and_a_section() -> None:
    assert all(find_spec(f"benchmarks.question_{name}") for name in QUESTIONS)
    assert set(QUESTIONS) == set(_SECTIONS)
