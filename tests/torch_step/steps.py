# SPDX-License-Identifier: Apache-2.0

"""Writes training steps of the networks, with inputs, to a folder, for environments without PyTorch.

    python -m tests.torch_step.steps FOLDER [--only PATTERN]

A step is NETWORK__OPTIMIZER__PRECISION.onnx with its inputs in an .npz beside it, under `in:NAME`; those of the
benchmarks' networks are in the folder `trained`. Files that are there already are not written again.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import nullcontext
from fnmatch import fnmatch
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import torch

from benchmarks import eager_networks
from poolgrad_lowering.torch import TrainingStep
from poolgrad_lowering.torch.checking.eager import LEARNING_RATE
from tests.torch_step.networks import NETWORKS

PRECISIONS = {
    "float32": nullcontext,
    "float16": lambda: torch.autocast("cpu", torch.float16),
    "bfloat16": lambda: torch.autocast("cpu", torch.bfloat16),
}
OPTIMIZERS = ("sgd", "adamw")


TRAINED = "trained"
"""The folder of the steps of the benchmarks' networks."""


def write(folder: Path, pattern: str) -> None:
    """Write the steps whose names match a glob."""
    for network, optimizer, precision in product(NETWORKS, OPTIMIZERS, PRECISIONS):
        _write(folder / f"{network}__{optimizer}__{precision}", pattern, NETWORKS[network].export)
    for name, one in eager_networks.NETWORKS.items():
        for precision in PRECISIONS:
            _write(folder / TRAINED / f"{name}__{one.optimizer}__{precision}", pattern, one.export)


def _write(file: Path, pattern: str, export: Callable[..., TrainingStep]) -> None:
    _, optimizer, precision = file.name.split("__")
    model, arrays = (Path(f"{file}.{ending}") for ending in ("onnx", "npz"))  # a name may have dots
    if not fnmatch(file.name, pattern) or arrays.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with PRECISIONS[precision]():
        step = export(optimizer=optimizer)
    feeds = {**step.values, **step.examples, "learning_rate": np.float32(LEARNING_RATE)}
    onnx.save(step.model, model)
    np.savez(arrays, **{f"in:{name}": value for name, value in feeds.items()})


def main() -> None:
    """Write the steps that the command line asks for."""
    parser = argparse.ArgumentParser(description="Write training steps of the networks to a folder.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="*", metavar="PATTERN", help="a glob of names, such as 'lenet__*__float32'")
    arguments = parser.parse_args()
    write(arguments.folder, arguments.only)


if __name__ == "__main__":
    main()
