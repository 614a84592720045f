"""How fast are the host library's pools and gradients, beside memory, torch and onnxruntime?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from measuring import Timing, interleaved
from pool_cases import CASES, STEM, PoolCase
from pool_runners import FLOOR, ORT, OWN, HostCalls, Operands, Variants, backward_runners, forward_runners

from poolgrad_lowering.runtime import get_host_library_path

ROUNDS = 15
DTYPES = ("float32", "float16", "bfloat16")
SIDES = {"forward": forward_runners, "backward": backward_runners}


def measure(_: Path) -> dict[str, Any]:
    """Per case and type: times and ratios of both sides; and of one case both sides as one, beside onnxruntime."""
    host = HostCalls(get_host_library_path())
    cases = [_case(host, case, dtype) for case in CASES for dtype in DTYPES]
    return {"cases": cases, "pair": _pair(host)}


def _case(host: HostCalls, case: PoolCase, dtype: str) -> dict[str, Any]:
    operands = Operands.drawn(case, dtype)
    sides = {side: _rows(interleaved(runners(host, operands), ROUNDS)) for side, runners in SIDES.items()}
    return {"name": case.name, "dtype": dtype, **sides}


def _rows(timings: dict[str, Timing]) -> list[dict[str, Any]]:
    return [
        {"name": name, **timing.to_dict(), "ratio": timing.ratio_to(timings[FLOOR])} for name, timing in timings.items()
    ]


def _pair(host: HostCalls) -> dict[str, Any]:
    operands = Operands.drawn(STEM, "float32")
    forward, backward = (runners(host, operands) for runners in SIDES.values())
    pairs: Variants = {name: lambda name=name: (forward[name](), backward[name]()) for name in (OWN, ORT)}
    timings = interleaved(pairs, ROUNDS)
    return {
        "name": STEM.name,
        "own": timings[OWN].to_dict(),
        "peer": timings[ORT].to_dict(),
        "ratio": timings[OWN].ratio_to(timings[ORT]),
    }
