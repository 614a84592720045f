# SPDX-License-Identifier: Apache-2.0

"""How long does lowering a file take, compared with reading and writing it and with other graph rewriters?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import onnx

from benchmarks.measuring import Timing, in_child, interleaved
from benchmarks.rewriters import FLOOR, POOLGRAD, Rewriter, rewriters_for
from benchmarks.training_graphs import Recipe, build

CASES = (
    (Recipe(2_000, sites=5, decoys=5), 7),
    (Recipe.of_size(2_000), 7),
    (Recipe.of_size(20_000), 9),
    (Recipe(20_000, sites=10, decoys=10), 9),
    (Recipe.of_size(100_000), 9),
)
"""Recipes of graphs with their numbers of rounds. Two have as few gradients as real networks."""

CHILDREN = {FLOOR.name: "load_and_save", POOLGRAD.name: "lower"}
"""The tasks of `child.py` that measure the memory of a rewriter, by its name."""


def measure(work: Path) -> dict[str, Any]:
    """Per size and rewriter: seconds, the ratio to the floor, and the peak memory if it is measured."""
    return {"cases": [_case(work, recipe, rounds) for recipe, rounds in CASES]}


def _case(work: Path, recipe: Recipe, rounds: int) -> dict[str, Any]:
    source, destination = str(work / "training.onnx"), str(work / "rewritten.onnx")
    onnx.save(build(recipe), source)
    rewriters = rewriters_for(recipe.nodes)
    timings = interleaved({rewriter.name: partial(rewriter.run, source, destination) for rewriter in rewriters}, rounds)
    rows = [_row(rewriter, timings, source, destination) for rewriter in rewriters]
    return {"nodes": recipe.nodes, "sites": recipe.sites, "decoys": recipe.decoys, "rows": rows}


def _row(rewriter: Rewriter, timings: dict[str, Timing], source: str, destination: str) -> dict[str, Any]:
    timing = timings[rewriter.name]
    task = CHILDREN.get(rewriter.name)
    return {
        "name": rewriter.shown,
        "does": rewriter.does,
        **timing.to_dict(),
        "ratio": timing.ratio_to(timings[FLOOR.name]),
        "memory": in_child(task, source, destination) if task is not None else None,
    }
