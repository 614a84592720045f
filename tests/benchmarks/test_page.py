# SPDX-License-Identifier: Apache-2.0

"""The page is that of the committed numbers, with a section for every question; its parts say what results say."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from benchmarks import page_runtime
from benchmarks.measuring import Timing
from benchmarks.page import _SECTIONS, headline, write_page
from benchmarks.page_runtime import artifact_step, eager_step, overhead, steps_sentence, training_step
from benchmarks.pool_cases import CASES, STEM
from benchmarks.rewriters import POOLGRAD
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


def test_the_headline_names_the_machine_that_measured_it() -> None:
    case = {"nodes": 10, "sites": 1, "rows": [row(POOLGRAD.name, 1000, 2)]}
    machines = {"machine": {"processor": "B", "cores": "4"}, "earlier": {"pass": {"processor": "A", "cores": "2"}}}
    assert "(A, 2 cores)" in headline({**machines, "pass": {"cases": [case]}})


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
    assert "|  | float16 | 0.75 | 2.00 (2.7) | 80.00 (110.0) |  |" in page
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


def timing(micros: float) -> dict[str, Any]:
    return Timing(tuple(micros * 1e-6 * factor for factor in (0.8, 1.0, 1.2))).to_dict()


def test_overhead(tmp_path: Path) -> None:
    row = {"mode": "lenient", "elements": "16", "given": "bound", "arrangement": "chain", "run": timing(3)}
    row |= {"node": timing(2), "calls": timing(1.5), "own": timing(0.5), "reference": timing(0.25)}
    empty = {**row, "elements": "none", "calls": timing(0)}
    text = overhead({"nodes": 50, "rows": [row, empty]}, tmp_path)
    assert "have 50 gradient nodes" in text
    assert "| lenient | 16 | bound | chain | 3.00 | 2.00 | 1.50 | 0.50 |" in text
    assert "|  | none | bound | chain | 3.00 | 2.00 | – |" in text
    assert len(list(ET.parse(tmp_path / "overhead.svg").iter("{http://www.w3.org/2000/svg}rect"))) == 4


def test_training_step(tmp_path: Path) -> None:
    original = {"name": "original", **timing(2000), "ratio": 1.0, "pools": 0.0005, "pools_ratio": 1.0}
    original |= {"memory": {"peak": 200.0, "imported": 50.0}, "bytes": 2048}
    rows = [original, {**original, "name": "provider", **timing(1000), "ratio": 0.5, "pools_ratio": 0.25}]
    step = {"name": "Net", "remarks": "a net", "pools": 1, "shape": [1, 2, 3], "rows": rows}
    text = training_step({"steps": [step]}, tmp_path)
    assert "| Net: a net; input 1×2×3 | original | 2.0 | 1.00 |" in text
    assert "|  | provider | 1.0 | 0.50 | 0.50 | 0.25 | 200 (50) | 2 |" in text
    assert {plot.name for plot in tmp_path.iterdir()} == {"training_steps.svg", "training_pools.svg"}
    for plot in tmp_path.iterdir():
        assert len(list(ET.parse(plot).iter("{http://www.w3.org/2000/svg}rect"))) == 2


EAGER_STEPS = [
    {
        "name": name,
        "shape": [4, 3, 8, 8],
        "optimizer": "sgd",
        "nodes": 1234,
        "export": 2.34,
        "rows": [
            {"threads": threads, "name": variant, **timing(2000), "ratio": ratio * threads}
            for threads in (1, 2)
            for variant, ratio in (("eager PyTorch", 1.0), ("function bodies", 0.9), ("provider", slow))
        ],
    }
    for name, slow in (("Net", 0.6), ("Slow", 0.7), ("New", 0.5))
]


def test_eager_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {"parts": 4, "on_cpu": 0, "copies": 0, "violations": 0, "refused": 0, "error": ""}
    rows = [{"network": "Net", **whole}, {"network": "Slow", **whole, "on_cpu": 2, "refused": 1, "error": "Fail"}]
    placed = tmp_path / "placements.json"
    placed.write_text(json.dumps(rows), encoding="utf-8")
    monkeypatch.setattr(page_runtime, "PLACEMENTS", placed)
    text = eager_step({"steps": EAGER_STEPS}, tmp_path)
    assert "| Net | 4×3×8×8 | sgd | 1,234 | yes | 4 | 2.3 | 2.0 | 0.60 | 2.0 |" in text
    assert "| Slow | 4×3×8×8 | sgd | 1,234 | no: nodes on the CPU: 2, refused parts: 1, does not run | 4 |" in text
    assert "| New | 4×3×8×8 | sgd | 1,234 | – | – |" in text
    assert "Of 3 training steps of PyTorch networks, 1 runs whole" in text
    assert "they take 0.5 to 1.4 times as long as in eager PyTorch, the longest that of Slow on 2 threads." in text
    assert len(list(ET.parse(tmp_path / "eager_steps.svg").iter("{http://www.w3.org/2000/svg}rect"))) == 6


def test_every_network_of_the_table_was_placed() -> None:
    results = json.loads((page_runtime.PLACEMENTS.parent / "results.json").read_text(encoding="utf-8"))
    placed = page_runtime.placements()
    assert {step["name"]: step["optimizer"] for step in results["eager_step"]["steps"]} == {
        name: row["optimizer"] for name, row in placed.items()
    }
    assert {name: flaws for name, row in placed.items() if (flaws := page_runtime.flaws(row))} == {}


def test_artifact_step(tmp_path: Path) -> None:
    training = {"name": "onnxruntime-training", **timing(2000), "ratio": 1.0}
    rows = [training, {"name": "standard step, provider", **timing(1400), "ratio": 0.7}]
    text = artifact_step({"steps": [{"name": "Net", "shape": [4, 3, 8, 8], "rows": rows}]}, tmp_path)
    assert "| Net, 4×3×8×8 | onnxruntime-training | 2.0 | 1.00 |" in text
    assert "|  | standard step, provider | 1.4 | 0.70 |" in text
    assert len(list(ET.parse(tmp_path / "artifact_steps.svg").iter("{http://www.w3.org/2000/svg}rect"))) == 2
