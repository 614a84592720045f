# SPDX-License-Identifier: Apache-2.0

"""How does the time of lowering a file grow with the number of nodes, sites, subgraphs, functions and value_infos?"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import onnx

from benchmarks.measuring import Timing, interleaved
from benchmarks.training_graphs import Recipe, build
from poolgrad_lowering import lower_file

ROUNDS = 7
NODES = 20_000
AXES: dict[str, tuple[tuple[int, ...], Callable[[int], Recipe]]] = {
    "nodes": ((2_500, 5_000, 10_000, 20_000, 40_000, 100_000), Recipe.of_size),
    "sites": ((0, 100, 200, 400, 800), lambda count: Recipe(NODES, sites=count)),
    "subgraphs": ((0, 200, 400, 800, 1_600), lambda count: Recipe(NODES, subgraphs=count)),
    "functions": ((0, 200, 400, 800, 1_600), lambda count: Recipe(NODES, functions=count)),
    "value_infos": ((0, 5_000, 10_000, 15_000, 20_000), lambda count: Recipe(NODES, declared=count / NODES)),
}
"""For each axis the counts and the recipe for a count. All axes except the first keep the number of nodes."""


def measure(work: Path) -> dict[str, Any]:
    """Per axis: the points, and a fitted straight line."""
    return {"axes": [_axis(work, name) for name in AXES]}


def _axis(work: Path, name: str) -> dict[str, Any]:
    counts, recipe = AXES[name]
    sources = {str(count): work / f"{name}_{count}.onnx" for count in counts}
    for count, source in zip(counts, sources.values(), strict=True):
        onnx.save(build(recipe(count)), source)
    timings = interleaved(
        {key: partial(lower_file, source, work / "lowered.onnx") for key, source in sources.items()}, ROUNDS
    )
    medians = [timing.median for timing in timings.values()]
    slope, intercept = statistics.linear_regression(counts, medians)
    off = [abs(y - (slope * x + intercept)) / y for x, y in zip(counts, medians, strict=True)]
    points = [{"count": count, **timing.to_dict()} for count, timing in zip(counts, timings.values(), strict=True)]
    return {
        "name": name,
        "points": points,
        "slope": slope,
        "intercept": intercept,
        "off_line": max(off),
        "fifth": _times_a_fifth(timings, max(counts)),
    }


def _times_a_fifth(timings: dict[str, Timing], most: int) -> float | None:
    """The time of the largest count relative to that of a fifth of it; None if the fifth was not measured."""
    fifth = timings.get(str(most // 5)) if most % 5 == 0 else None
    return None if fifth is None else timings[str(most)].ratio_to(fifth)
