# SPDX-License-Identifier: Apache-2.0

"""What is the provider's overhead per node, compared with its calls of aclnn and with a node of onnxruntime?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.compiling import compile_library
from benchmarks.measuring import Timing
from benchmarks.overhead_child import CASES, COUNTS
from poolgrad_lowering.runtime import get_host_library_path

ROUNDS = 41
STRICT = {"ACLNN_HOST_STRICT": "1"}
MODES = {"lenient": {}, "strict": STRICT}
"""Modes of the host library with their environment variables: tensors in host memory, or in its device memory."""

MIXED = "mixed"
"""Strict mode in sessions that also have onnxruntime's CANN provider, whose stream is used."""

CANN_PYTHON, CANN_HOME = "POOLGRAD_CANN_PYTHON", "POOLGRAD_CANN_HOME"
"""Environment variables: the Python of an environment with onnxruntime-cann, and its ASCEND_HOME_PATH.

`make test-cann-ep` creates both.
"""

FOLDER = Path(__file__).parent


def measure(work: Path) -> dict[str, Any]:
    """Per mode and case: the seconds of a Run of one node, and of each further node with its parts."""
    library = build_calls(work)
    rows = []
    for mode, environment in MODES.items():
        seconds = _timed(sys.executable, mode, environment, library)
        rows += [_row(mode, seconds, case) for case in CASES]
    if CANN_PYTHON in os.environ:
        home = os.environ[CANN_HOME]
        environment = STRICT | {"ASCEND_HOME_PATH": home, "LD_LIBRARY_PATH": f"{home}/lib64"}
        seconds = _timed(os.environ[CANN_PYTHON], MIXED, environment, library)
        rows += [_row(MIXED, seconds, case) for case in CASES]
    return {"nodes": COUNTS[-1], "rows": rows}


def build_calls(work: Path) -> Path:
    """The library compiled from aclnn_calls.cpp and linked with the host library. Raises `CalledProcessError`."""
    host, include = Path(get_host_library_path()), FOLDER.parent / "runtime" / "src"
    return compile_library("aclnn_calls.cpp", work, "-O2", f"-I{include}", str(host), f"-Wl,-rpath,{host.parent}")


def _timed(python: str, mode: str, environment: dict[str, str], library: Path) -> dict[str, list[float]]:
    command = [python, str(FOLDER / "overhead_child.py"), mode, str(library), str(ROUNDS)]
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})
    seconds: dict[str, list[float]] = json.loads(ran.stdout.splitlines()[-1])
    return seconds


def _row(mode: str, seconds: dict[str, list[float]], case: tuple[str, ...]) -> dict[str, Any]:
    def per_node(*kind: str) -> list[float]:
        one, many = (seconds[" ".join((*kind, str(count)))] for count in COUNTS)
        return [(more - less) / (COUNTS[1] - COUNTS[0]) for more, less in zip(many, one, strict=True)]

    elements, given, arrangement = case
    node, calls = per_node("node", *case), per_node("calls", arrangement)
    if elements == "none":
        calls = [0.0] * len(node)  # an empty tensor needs no call
    own = [whole - part for whole, part in zip(node, calls, strict=True)]
    timed = {"run": seconds[" ".join(("node", *case, str(COUNTS[0])))], "node": node, "calls": calls, "own": own}
    timed["reference"] = per_node("reference", *case)
    timings = {name: Timing(tuple(times)).to_dict() for name, times in timed.items()}
    return {"mode": mode, "elements": elements, "given": given, "arrangement": arrangement, **timings}
