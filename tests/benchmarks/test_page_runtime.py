# SPDX-License-Identifier: Apache-2.0

"""The page's parts on the runtime say what is in the results, and draw it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

from benchmarks.measuring import Timing
from benchmarks.page_runtime import artifact_step, eager_step, overhead, training_step


def timing(micros: float) -> dict[str, Any]:
    return Timing(tuple(micros * 1e-6 * factor for factor in (0.8, 1.0, 1.2))).to_dict()


def test_overhead(tmp_path: Path) -> None:
    row = {"mode": "lenient", "elements": "16", "given": "bound", "arrangement": "chain", "run": timing(3)}
    row |= {"node": timing(2), "calls": timing(1.5), "own": timing(0.5), "reference": timing(0.25)}
    empty = {**row, "elements": "none", "calls": timing(0)}
    text = overhead({"nodes": 50, "rows": [row, empty]}, tmp_path)
    assert "have 50 gradient nodes" in text
    assert "| lenient | 16 | bound | chain | 3.00 (2.70–3.30) | 2.00 (1.80–2.20) | 1.50 (1.35–1.65) | 0.50" in text
    assert "| none | bound | chain | 3.00 (2.70–3.30) | 2.00 (1.80–2.20) | – |" in text
    assert len(list(ET.parse(tmp_path / "overhead.svg").iter("{http://www.w3.org/2000/svg}rect"))) == 4


def test_training_step(tmp_path: Path) -> None:
    original = {"name": "original", **timing(2000), "ratio": 1.0, "pools": 0.0005, "pools_ratio": 1.0}
    original |= {"memory": {"peak": 200.0, "imported": 50.0}, "bytes": 2048}
    rows = [original, {**original, "name": "provider", **timing(1000), "ratio": 0.5, "pools_ratio": 0.25}]
    step = {"name": "Net", "remarks": "a net", "pools": 1, "shape": [1, 2, 3], "rows": rows}
    text = training_step({"steps": [step]}, tmp_path)
    assert "### Net: a net; input 1 x 2 x 3" in text
    assert "| provider | 1.0 (0.9–1.1) | 0.50 | 0.50 | 0.25 | 200 (imported: 50) | 2 |" in text
    assert {plot.name for plot in tmp_path.iterdir()} == {"training_steps.svg", "training_pools.svg"}
    for plot in tmp_path.iterdir():
        assert len(list(ET.parse(plot).iter("{http://www.w3.org/2000/svg}rect"))) == 2


def test_eager_step(tmp_path: Path) -> None:
    eager = {"name": "eager PyTorch", **timing(2000), "ratio": 1.0}
    rows = [eager, {"name": "lowered, provider", **timing(2600), "ratio": 1.3}]
    text = eager_step({"steps": [{"name": "Net", "shape": [4, 3, 8, 8], "rows": rows}]}, tmp_path)
    assert "| Net | 4 x 3 x 8 x 8 | lowered, provider | 2.6 (2.3–2.9) | 1.30 |" in text
    assert len(list(ET.parse(tmp_path / "eager_steps.svg").iter("{http://www.w3.org/2000/svg}rect"))) == 2


def test_artifact_step(tmp_path: Path) -> None:
    training = {"name": "onnxruntime-training", **timing(2000), "ratio": 1.0}
    rows = [training, {"name": "standard step, provider", **timing(1400), "ratio": 0.7}]
    text = artifact_step({"steps": [{"name": "Net", "shape": [4, 3, 8, 8], "rows": rows}]}, tmp_path)
    assert "| Net | 4 x 3 x 8 x 8 | standard step, provider | " in text
    assert "| 0.70 |" in text
    assert len(list(ET.parse(tmp_path / "artifact_steps.svg").iter("{http://www.w3.org/2000/svg}rect"))) == 2
