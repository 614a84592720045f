# SPDX-License-Identifier: Apache-2.0

"""Makes artifacts and trains with them in onnxruntime-training, controlled by lines on stdin. Answers each with `done`.

A line `NETWORK<tab>FOLDER<tab>SHAPE` makes the artifacts of a network of training_networks.py with a classifier behind
it, `batch.npz` beside them, and a training; an empty line is one step of it.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import nn

from benchmarks.training_networks import NETWORKS

CLASSES = 10
NEWEST_IR_VERSION = 10
"""The newest that onnxruntime 1.19.2 loads."""


def main() -> None:
    """Answer lines until stdin ends."""
    answers, sys.stdout = sys.stdout, sys.stderr  # for what the exporter prints
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    run = None
    for line in sys.stdin:
        if parts := line.rstrip("\n"):
            name, folder, shape = parts.split("\t")
            run = _training(name, Path(folder), [int(size) for size in shape.split("x")])
        elif run is not None:
            run()
        print("done", flush=True, file=answers)


def _training(name: str, folder: Path, shape: list[int]) -> Callable[[], None]:
    from onnxruntime.training.api import CheckpointState, Module, Optimizer

    images, labels = _make(name, folder, shape)
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    module = Module(folder / "training_model.onnx", state)
    optimizer = Optimizer(folder / "optimizer_model.onnx", module)
    module.train()

    def step() -> None:
        module(images, labels)
        optimizer.step()
        module.lazy_reset_grad()

    return step


def _make(name: str, folder: Path, shape: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Write the artifacts; return a batch, which is written too."""
    from onnxruntime.training import artifacts

    torch.manual_seed(0)
    features = NETWORKS[name]()
    channels = features(torch.zeros(shape)).shape[1]
    pool = nn.AdaptiveAvgPool3d(1) if len(shape) == 5 else nn.AdaptiveAvgPool2d(1)
    network = nn.Sequential(features, pool, nn.Flatten(), nn.Linear(channels, CLASSES)).train()
    file = folder / "forward.onnx"
    options = {"dynamo": False, "opset_version": 18, "do_constant_folding": False}
    names = {"input_names": ["images"], "output_names": ["scores"]}
    torch.onnx.export(
        network, (torch.zeros(shape),), str(file), training=torch.onnx.TrainingMode.TRAINING, **options, **names
    )
    model = onnx.load(file)
    artifacts.generate_artifacts(
        model,
        requires_grad=[tensor.name for tensor in model.graph.initializer if "running_" not in tensor.name],
        loss=artifacts.LossType.CrossEntropyLoss,
        optimizer=artifacts.OptimType.AdamW,
        artifact_directory=folder,
    )
    for path in folder.glob("*_model.onnx"):
        written = onnx.load(path)
        written.ir_version = min(written.ir_version, NEWEST_IR_VERSION)
        onnx.save(written, path)
    random = np.random.default_rng(0)
    images, labels = random.standard_normal(shape, np.float32), random.integers(0, CLASSES, shape[0])
    np.savez(folder / "batch.npz", images=images, labels=labels)
    return images, labels


if __name__ == "__main__":
    main()
