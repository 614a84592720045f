# SPDX-License-Identifier: Apache-2.0

"""How long does a training step take on a CPU before and after lowering, with function bodies and with the provider?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.measuring import STEADY, in_child, interleaved
from benchmarks.training_sessions import (
    Open,
    cpu_session,
    load_feeds,
    pooling_seconds,
    provider_session,
    seconds_by_node,
)
from benchmarks.training_steps import STEPS, Step, export
from poolgrad_lowering import lower_file

ROUNDS = 25
PROFILED = 6
"""Runs under onnxruntime's profiler."""

VARIANTS: dict[str, tuple[str, Open, str]] = {
    "original": ("original", cpu_session, "step_on_cpu"),
    "original again": ("original", cpu_session, "step_on_cpu"),
    "function bodies": ("lowered", cpu_session, "step_on_cpu"),
    "provider": ("lowered", provider_session, "step_on_provider"),
}
"""The file, the function that creates its session, and the equivalent task of `child.py`.

The original is measured twice, which shows the noise.
"""


def measure(work: Path) -> dict[str, Any]:
    """Per network and variant: seconds of a step and of its pools, ratios to the original, peak memory, file size."""
    return {"steps": [_step(step, work) for step in STEPS]}


def _step(step: Step, work: Path) -> dict[str, Any]:
    files = {kind: work / f"{step.name}_{kind}.onnx" for kind in ("original", "lowered")}
    feeds = work / f"{step.name}.npz"
    model, arrays = export(step)
    onnx.save(model, files["original"])
    np.savez(feeds, **arrays)
    report = lower_file(files["original"], files["lowered"])
    if len(report.lowered) != step.pools:
        raise ValueError(f"{step.name}: {len(report.lowered)} gradients were lowered, not {step.pools}")
    rows = compare(files, feeds, work)
    return {"name": step.name, "remarks": step.remarks, "pools": step.pools, "shape": step.input_shape, "rows": rows}


def compare(files: dict[str, Path], feeds: Path, work: Path) -> list[dict[str, Any]]:
    """One row per variant. Raises `ValueError` if any output of the variants differs in a bit."""
    arrays = load_feeds(feeds)
    sessions = {name: open_session(str(files[kind])) for name, (kind, open_session, _) in VARIANTS.items()}
    results = [[value.tobytes() for value in session.run(None, arrays)] for session in sessions.values()]
    if any(other != results[0] for other in results[1:]):
        raise ValueError(f"{files['lowered']} does not compute the bits of {files['original']}")
    runs = {name: partial(session.run, None, arrays) for name, session in sessions.items()}
    timings = interleaved(runs, ROUNDS, unmeasured=STEADY)
    del sessions
    pools = {name: _pools(name, files, arrays, work) for name in VARIANTS}
    return [
        {
            "name": name,
            **timings[name].to_dict(),
            "ratio": timings[name].ratio_to(timings["original"]),
            "pools": pools[name],
            "pools_ratio": pools[name] / pools["original"],
            "memory": in_child(task, files[kind], feeds),
            "bytes": files[kind].stat().st_size,
        }
        for name, (kind, _, task) in VARIANTS.items()
    ]


def _pools(variant: str, files: dict[str, Path], feeds: dict[str, np.ndarray], work: Path) -> float:
    kind, open_session, _ = VARIANTS[variant]
    seconds = seconds_by_node(open_session, str(files[kind]), feeds, PROFILED, work)
    models = {name: onnx.load(file, load_external_data=False) for name, file in files.items()}
    return pooling_seconds(seconds, models[kind], models["lowered" if kind == "original" else "original"])
