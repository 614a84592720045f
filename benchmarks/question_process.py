# SPDX-License-Identifier: Apache-2.0

"""How long does the command take to start, and what does lowering a model with 1 GiB of external weights cost?"""

from __future__ import annotations

import shutil
import statistics
import sys
from functools import partial
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto

from benchmarks.measuring import in_child, interleaved, run_process
from benchmarks.training_graphs import Recipe, build

ROUNDS = 15
CHILDREN = 7
WEIGHTS, WEIGHT = 64, 16 << 20
"""The number of tensors with external data, and the bytes of each: 1 GiB in total."""


def measure(work: Path) -> dict[str, Any]:
    """The start-up time of each command, and time and memory of the lowering with external weights."""
    return {"start": _start(), "external": _external(work)}


def _start() -> list[dict[str, Any]]:
    poolgrad = shutil.which("poolgrad", path=str(Path(sys.executable).parent))
    if poolgrad is None:
        raise FileNotFoundError(f"there is no command poolgrad beside {sys.executable}")
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "poolgrad --help": [poolgrad, "--help"],
        "poolgrad patterns": [poolgrad, "patterns"],
        'python -c "import onnx"': [sys.executable, "-c", "import onnx"],
    }
    timings = interleaved({name: partial(run_process, command) for name, command in commands.items()}, ROUNDS)
    return [{"name": name, **timing.to_dict()} for name, timing in timings.items()]


def _external(work: Path) -> dict[str, Any]:
    source = work / "external.onnx"
    with source.with_suffix(".weights").open("wb") as weights:
        weights.truncate(WEIGHTS * WEIGHT)  # a sparse file, which should not be read
    onnx.save(_with_external_weights(source.with_suffix(".weights").name), source)
    runs = [in_child("lower", source, work / "external_lowered.onnx") for _ in range(CHILDREN)]
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]} | {"bytes": WEIGHTS * WEIGHT}


def _with_external_weights(location: str) -> onnx.ModelProto:
    model = build(Recipe.of_size(2_000))
    for number in range(WEIGHTS):
        tensor = model.graph.initializer.add(
            name=f"classifier.{number}.weight",
            data_type=TensorProto.FLOAT,
            dims=[WEIGHT // 4],
            data_location=TensorProto.EXTERNAL,
        )
        for key, value in (("location", location), ("offset", number * WEIGHT), ("length", WEIGHT)):
            tensor.external_data.add(key=key, value=str(value))
    return model
