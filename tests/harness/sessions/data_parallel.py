# SPDX-License-Identifier: Apache-2.0

"""A process of a data-parallel training: `data_parallel.py RANK PROCESSES STORE FOLDER`.

FOLDER has `gradients.onnx` (lowered), `update.onnx`, `values.npz` and `batches.npz`. Every process takes its part of
each batch; `torch.distributed` averages the gradients between step and update. Writes losses and weights to
FOLDER/RANK.npz.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnxruntime
import torch.distributed
from torch import from_numpy

from poolgrad_lowering.runtime import TrainingLoop, create_session

RATE = 0.05


def train(rank: int, processes: int, folder: Path) -> None:
    """Train on this process's part of each batch."""
    with np.load(folder / "values.npz") as stored:
        values = dict(stored)
    session = create_session(folder / "gradients.onnx", backend="host")
    outputs = [output.name for output in session.get_outputs()]
    weights = [value.name for value in session.get_inputs() if value.name in values]
    update = TrainingLoop(onnxruntime.InferenceSession(folder / "update.onnx"), values)
    losses = []
    with np.load(folder / "batches.npz") as batches:
        for images, digits in zip(batches["images"], batches["digits"], strict=True):
            part = slice(rank * len(digits) // processes, (rank + 1) * len(digits) // processes)
            now = update.values()
            feeds = {**{name: now[name] for name in weights}, "input": images[part], "target": digits[part]}
            found = dict(zip(outputs, session.run(None, feeds), strict=True))
            for value in found.values():
                torch.distributed.all_reduce(from_numpy(value))
                np.divide(value, processes, out=value)
            losses.append(found.pop("loss"))
            update.step(**found, learning_rate=RATE)
    np.savez(folder / f"{rank}.npz", losses=losses, **update.values())


def main() -> None:
    """Join the processes, and train."""
    rank, processes, store, folder = sys.argv[1:]
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=int(rank), world_size=int(processes)
    )
    train(int(rank), int(processes), Path(folder))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
