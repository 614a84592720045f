# SPDX-License-Identifier: Apache-2.0

"""How fast are the host library's pools and gradients, compared with memory traffic, torch and onnxruntime?"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.host_calls import HostCalls
from benchmarks.measuring import STEADY, Timing, interleaved
from benchmarks.memory_floor import MemoryFloor
from benchmarks.pool_cases import CASES, STEM, PoolCase
from benchmarks.pool_runners import FLOOR, ORT, OWN, Operands, Runtimes, Variants, backward_runners, forward_runners
from benchmarks.training_peer import TRAINING_PYTHON, TrainingPeer
from poolgrad_lowering.runtime import get_host_library_path

ROUNDS = 15
DTYPES = ("float32", "float16", "bfloat16")
SIDES = {"forward": forward_runners, "backward": backward_runners}


def measure(work: Path) -> dict[str, Any]:
    """Times and ratios of forward and backward, per case and dtype; and of both together for one case."""
    with ExitStack() as stack:
        training = None
        if python := os.environ.get(TRAINING_PYTHON):
            training = TrainingPeer(Path(python), work)
            stack.callback(training.close)
        runtimes = Runtimes(HostCalls(get_host_library_path()), MemoryFloor(work), training)
        cases = [_case(runtimes, case, dtype) for case in CASES for dtype in DTYPES]
        return {"cases": cases, "pair": _pair(runtimes)}


def _case(runtimes: Runtimes, case: PoolCase, dtype: str) -> dict[str, Any]:
    operands = Operands.drawn(case, dtype)
    sides = {
        side: _rows(interleaved(runners(runtimes, operands), ROUNDS, unmeasured=STEADY))
        for side, runners in SIDES.items()
    }
    return {"name": case.name, "dtype": dtype, **sides}


def _rows(timings: dict[str, Timing]) -> list[dict[str, Any]]:
    return [
        {"name": name, **timing.to_dict(), "ratio": timing.ratio_to(timings[FLOOR])} for name, timing in timings.items()
    ]


def _pair(runtimes: Runtimes) -> dict[str, Any]:
    operands = Operands.drawn(STEM, "float32")
    forward, backward = (runners(runtimes, operands) for runners in SIDES.values())
    pairs: Variants = {name: lambda name=name: (forward[name](), backward[name]()) for name in (OWN, ORT)}
    timings = interleaved(pairs, ROUNDS, unmeasured=STEADY)
    return {
        "name": STEM.name,
        "own": timings[OWN].to_dict(),
        "peer": timings[ORT].to_dict(),
        "ratio": timings[OWN].ratio_to(timings[ORT]),
    }
