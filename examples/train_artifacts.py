# SPDX-License-Identifier: Apache-2.0

"""Trains with onnxruntime-training: lowers the artifacts of `generate_artifacts`, and trains from the lowered folder.

    python examples/train_artifacts.py [FOLDER]

The artifacts are written to FOLDER/artifacts and FOLDER/lowered, by default in the current folder. Needs an environment
without another onnxruntime, Python 3.10 to 3.12:

    pip install poolgrad-lowering onnxruntime-training-cpu==1.19.2 'numpy<2' torch

docs/training.md says which networks onnxruntime-training takes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import torch
from onnxruntime.training import artifacts
from onnxruntime.training.api import CheckpointState, Module, Optimizer
from torch import nn

import poolgrad_lowering
from poolgrad_lowering.runtime.training import session_options

STEPS = 100


def main(folder: str = ".") -> None:
    """Export a forward graph, make and lower its artifacts, and train."""
    made, lowered = Path(folder, "artifacts"), Path(folder, "lowered")
    made.mkdir(parents=True)
    make_artifacts(made)
    report = poolgrad_lowering.lower_artifacts(made, lowered)
    print(f"{len(report.lowered)} gradient lowered")

    state = CheckpointState.load_checkpoint(lowered / "checkpoint")
    module = Module(
        lowered / "training_model.onnx", state, lowered / "eval_model.onnx", session_options=session_options()
    )
    optimizer = Optimizer(lowered / "optimizer_model.onnx", module)
    random = np.random.default_rng(0)
    module.train()
    for number in range(STEPS):
        loss = module(*batch(random, 32))
        optimizer.step()
        module.lazy_reset_grad()
        if number % 20 == 19:
            print(f"step {number + 1}: loss {float(loss):.4f}")
    print("weights:", ", ".join(name for name, _ in state.parameters))


def make_artifacts(folder: Path) -> None:
    """Write the artifacts of a small network, which classifies images of shape (1, 8, 8)."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 2))
    torch.onnx.export(
        network,
        (torch.zeros(2, 1, 8, 8),),
        str(folder / "forward.onnx"),
        dynamo=False,
        opset_version=18,
        training=torch.onnx.TrainingMode.PRESERVE,
        do_constant_folding=False,
        input_names=["images"],
        output_names=["scores"],
        dynamic_axes={"images": {0: "batch"}, "scores": {0: "batch"}},
    )
    artifacts.generate_artifacts(
        onnx.load(folder / "forward.onnx"),
        requires_grad=[name for name, _ in network.named_parameters()],
        loss=artifacts.LossType.CrossEntropyLoss,
        optimizer=artifacts.OptimType.AdamW,
        artifact_directory=folder,
    )


def batch(random: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy images of shape (size, 1, 8, 8), and their labels: 1 where the stripes are horizontal."""
    labels = random.integers(0, 2, size)
    stripes = np.broadcast_to(np.arange(8, dtype=np.float32) % 2, (size, 1, 8, 8))
    images = np.where(labels.reshape(-1, 1, 1, 1) == 1, stripes.swapaxes(2, 3), stripes)
    return images + 0.5 * random.standard_normal(images.shape, np.float32), labels


if __name__ == "__main__":
    main(*sys.argv[1:])
