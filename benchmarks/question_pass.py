"""How long does lowering a file take, beside reading and writing it, and beside other packages that rewrite graphs?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import onnx
from measuring import Timing, in_child, interleaved
from rewriters import FLOOR, POOLGRAD, Rewriter, rewriters_for
from training_graphs import Recipe, build

ROUNDS = {2_000: 7, 20_000: 9, 100_000: 9}
"""By number of nodes."""

CHILDREN = {FLOOR.name: "load_and_save", POOLGRAD.name: "lower"}
"""What also runs in processes of its own, for its memory."""


def measure(work: Path) -> dict[str, Any]:
    """Per size and rewriter: seconds, their ratio to the floor's, and peak memory where it is taken."""
    return {"cases": [_case(work, nodes, rounds) for nodes, rounds in ROUNDS.items()]}


def _case(work: Path, nodes: int, rounds: int) -> dict[str, Any]:
    source, destination = str(work / f"pass_{nodes}.onnx"), str(work / "rewritten.onnx")
    recipe = Recipe.of_size(nodes)
    onnx.save(build(recipe), source)
    rewriters = rewriters_for(nodes)
    timings = interleaved({rewriter.name: partial(rewriter.run, source, destination) for rewriter in rewriters}, rounds)
    rows = [_row(rewriter, timings, source, destination) for rewriter in rewriters]
    return {"nodes": nodes, "sites": recipe.sites, "decoys": recipe.decoys, "rows": rows}


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
