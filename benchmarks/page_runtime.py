# SPDX-License-Identifier: Apache-2.0

"""The sections on the runtime: the cost of a node of the provider, and the time of training steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.plots import Bar, bars
from benchmarks.tables import grouped, memory, seconds, table
from poolgrad_lowering.model.diagnostics.text import counted

MICRO, MILLI = 1e-6, 1e-3
PLACEMENTS = Path(__file__).parents[1] / "docs" / "benchmarks" / "placements.json"
EAGER = "eager PyTorch"
REFERENCE, ORIGINAL = "Relu of onnxruntime", "original"

OVERHEAD = """## What a node of the provider costs

The models have {nodes} gradient nodes or one, with windows of one element; the difference is the time of each further
node. The calls of aclnn in it are timed separately, in a loop in C++ with the memory of a Run; the rest is the time of
onnxruntime and the provider. For comparison, the same models are made of `Relu` on onnxruntime's CPU provider, the
cheapest node there is. Tensors have 16 elements, or none, and then nothing of aclnn is called. The host library is in
its lenient mode, with tensors in host memory, or in its strict mode, with device memory. Mixed is the strict mode in
sessions that also have onnxruntime-cann's provider. Inputs and outputs are numpy arrays, or bound by IoBinding.
"""

TRAINING_STEP = """## Training steps

PyTorch's joint forward and backward graphs with all weights, on the CPU: the original and the lowered graph in
onnxruntime's CPU provider, which runs function bodies, and the lowered graph with the execution provider on the host
library. The original is measured a second time, to show which ratios are noise. All sessions have onnxruntime's default
optimisation level, and all give the same bits. "Pools" is the time of the nodes that lowering replaced, and of the
nodes that replaced them, in onnxruntime's profile. Memory is the largest resident set of a separate process that makes
the session and runs one step, in brackets once everything is imported.
"""

EAGER_STEP = """## Training steps beside eager PyTorch

Steps with their optimizers, exported by `poolgrad_lowering.torch`, beside the same steps of eager PyTorch, on the CPU
with one thread and with two: times of eager PyTorch's step, and of the lowered one with the execution provider on the
host library (the numbers also have it by function bodies). Weights and state stay in the session (`TrainingLoop`). The
networks are of kinds that people train, and have few channels.

Whole is a step of which no node is on the CPU, nothing is copied inside, and no rule of the device is broken, [beside
onnxruntime's CANN provider](with-onnxruntime-cann.md#what-runs-where); parts are those that GE builds.
"""


ARTIFACT_STEP = """## Training steps of artifacts

A step of onnxruntime's artifacts with its optimizer, AdamW, on the CPU: in onnxruntime-training 1.19.2, and as a step
in standard ONNX (`lower-artifacts --standard`) in plain onnxruntime, with the pools by function bodies or on the
execution provider with the host library. onnxruntime-training runs in a process of its own. ResNet-50 is its stem,
whose pool is large; ResNet-18 and MobileNet have batch normalizations.
"""


def overhead(result: dict[str, Any], plots: Path) -> str:
    """The section on the cost of a node, as Markdown; writes its plot."""
    entries = [bar for row in result["rows"] for bar in _overhead_bars(row)]
    (plots / "overhead.svg").write_text(bars("µs for one more node, without aclnn", entries), encoding="utf-8")
    header = ("host library", "elements", "tensors", "nodes", "one node, a Run", "one more node", "of it aclnn",
              "the rest", REFERENCE)  # fmt: skip
    parts = ("run", "node", "calls", "own", "reference")
    rows = (
        (row["mode"], row["elements"], row["given"], row["arrangement"], *(_micros(row[part]) for part in parts))
        for row in result["rows"]
    )
    text = OVERHEAD.format(nodes=result["nodes"])
    return "\n".join([text, "![µs by case](benchmarks/overhead.svg)\n", "In µs:\n", table(header, grouped(rows))])


def training_step(result: dict[str, Any], plots: Path) -> str:
    """The section on training steps, as Markdown; writes its plots."""
    parts = [TRAINING_STEP]
    steps, pools = (
        [_step_bar(step, row, what) for step in result["steps"] for row in step["rows"]] for what in ("step", "pools")
    )
    (plots / "training_steps.svg").write_text(bars("ms of a step", steps), encoding="utf-8")
    (plots / "training_pools.svg").write_text(bars("ms of its pools", pools), encoding="utf-8")
    parts.append("![Steps](benchmarks/training_steps.svg) ![Pools](benchmarks/training_pools.svg)\n")
    head = ("network", "", "ms", "× original", "ms of pools", "× original", "MiB", "KiB of file")
    rows = ((_network(step), *_step_cells(row)) for step in result["steps"] for row in step["rows"])
    return "\n".join([*parts, table(head, grouped(rows))])


def _network(step: dict[str, Any]) -> str:
    return f"{step['name']}: {step['remarks']}; input {_shape(step)}"


def _shape(step: dict[str, Any]) -> str:
    return "×".join(map(str, step["shape"]))


def eager_step(result: dict[str, Any], plots: Path) -> str:
    """The section on training steps beside eager PyTorch, as Markdown; writes its plot."""
    entries = [
        Bar(
            f"{step['name']}, {counted(row['threads'], 'thread')}",
            *(row["ratio"],) * 3,
            f"{row['ratio']:.2f}",
            own=True,
        )
        for step in result["steps"]
        for row in step["rows"]
        if row["name"] == "provider"
    ]
    (plots / "eager_steps.svg").write_text(bars("Time of a step, × eager PyTorch", entries), encoding="utf-8")
    numbers = sorted({row["threads"] for step in result["steps"] for row in step["rows"]})
    timed = (cell for number in numbers for cell in (f"ms in eager, {counted(number, 'thread')}", "× provider"))
    head = ("network", "input", "optimizer", "nodes", "whole", "parts", "s to export", *timed)
    parts = [EAGER_STEP, "![Steps](benchmarks/eager_steps.svg)\n", table(head, map(_eager_cells, result["steps"]))]
    return "\n".join([*parts, steps_sentence(result) + ".\n"])


def _eager_cells(step: dict[str, Any]) -> tuple[str, ...]:
    found = placements().get(step["name"])
    placed = ("–", "–") if found is None else (f"no: {why}" if (why := flaws(found)) else "yes", str(found["parts"]))
    timed = (
        seconds(row, MILLI, 1) if row["name"] == EAGER else f"{row['ratio']:.2f}"
        for row in step["rows"]
        if row["name"] in (EAGER, "provider")
    )
    return (
        step["name"],
        _shape(step),
        step["optimizer"],
        f"{step['nodes']:,}",
        *placed,
        f"{step['export']:.1f}",
        *timed,
    )


def placements() -> dict[str, dict[str, Any]]:
    """Where the nodes of these steps are beside the CANN provider, by network, as the session `coverage` measured."""
    return {row["network"]: row for row in json.loads(PLACEMENTS.read_text(encoding="utf-8"))}


def flaws(placed: dict[str, Any]) -> str:
    """Why a step is not whole; empty if it is."""
    keys = {"nodes on the CPU": "on_cpu", "copies": "copies", "broken rules": "violations", "refused parts": "refused"}
    found = [f"{what}: {placed[key]}" for what, key in keys.items() if placed[key]]
    return ", ".join([*found, *(["does not run"] if placed["error"] else [])])


def steps_sentence(result: dict[str, Any]) -> str:
    """The README's sentence on steps: how many are whole, and how long they take beside eager PyTorch."""
    steps, placed = result["steps"], placements()
    whole = sum(step["name"] in placed and not flaws(placed[step["name"]]) for step in steps)
    found, verb = "all" if whole == len(steps) else whole, "runs" if whole == 1 else "run"
    rows = [(row, step["name"]) for step in steps for row in step["rows"] if row["name"] == "provider"]
    least, most = (choose(rows, key=lambda each: each[0]["ratio"]) for choose in (min, max))
    return (
        f"Of {len(steps)} training steps of PyTorch networks, {found} {verb} whole beside onnxruntime's CANN "
        f"provider, over a stand-in for CANN; on a CPU they take {least[0]['ratio']:.1f} to {most[0]['ratio']:.1f} "
        f"times as long as in eager PyTorch, the longest that of {most[1]} on {counted(most[0]['threads'], 'thread')}"
    )


def artifact_step(result: dict[str, Any], plots: Path) -> str:
    """The section on training steps of artifacts, as Markdown; writes its plot."""
    entries = [
        Bar(f"{step['name']}: {row['name']}", *(row["ratio"],) * 3, f"{row['ratio']:.2f}", own)
        for step in result["steps"]
        for row in step["rows"]
        for own in [row["name"].startswith("standard step")]
    ]
    (plots / "artifact_steps.svg").write_text(bars("Time of a step, × onnxruntime-training", entries), encoding="utf-8")
    rows = (
        (f"{step['name']}, {_shape(step)}", row["name"], seconds(row, MILLI, 1),
         f"{row['ratio']:.2f}")
        for step in result["steps"]
        for row in step["rows"]
    )  # fmt: skip
    parts = [ARTIFACT_STEP, "![Steps](benchmarks/artifact_steps.svg)\n"]
    return "\n".join([*parts, table(("network and input", "", "ms", "× onnxruntime-training"), grouped(rows))])


def _overhead_bars(row: dict[str, Any]) -> list[Bar]:
    case = f"{row['elements']}, {row['given']}, {row['arrangement']}"
    named = ((f"{row['mode']}: {case}", "own", True), ("Relu", "reference", False))
    return [
        Bar(label, *(max(row[part][name], 0.0) / MICRO for name in ("median", "low", "high")), _micros(row[part]), own)
        for label, part, own in named
    ]


def _micros(timing: dict[str, Any]) -> str:
    return "–" if timing["high"] == 0 else seconds(timing, MICRO, 2)


def _step_bar(step: dict[str, Any], row: dict[str, Any], what: str) -> Bar:
    values = (row["pools"],) * 3 if what == "pools" else (row["median"], row["low"], row["high"])
    median, low, high = (value / MILLI for value in values)
    return Bar(
        f"{step['name']}: {row['name']}", median, low, high, f"{median:.3g} ms", not row["name"].startswith(ORIGINAL)
    )


def _step_cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["name"],
        seconds(row, MILLI, 1),
        f"{row['ratio']:.2f}",
        f"{row['pools'] / MILLI:.2f}",
        f"{row['pools_ratio']:.2f}",
        memory(row["memory"]),
        f"{row['bytes'] / 1024:,.0f}",
    )
