# SPDX-License-Identifier: Apache-2.0

"""Training a small network with onnxruntime-training: its artifacts, and a run of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from models.ort_nets import Net, forward

SEED = 0
STEPS = 50
CLASSES = 5
IMAGES = (4, 1, 16, 16)
NET = Net(
    "overlapping windows with padding, then tiling ones",
    IMAGES,
    [
        [{"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}],
        [{"kernel_shape": [2, 2], "strides": [2, 2]}],
    ],
    batch="batch",
    classifies=True,
)
AVERAGES = {
    "tiling": replace(NET, pool="AveragePool", batch=None, stages=[NET.stages[1], NET.stages[1]]),
    "overlapping": replace(NET, pool="AveragePool", batch=None),
    "padding counts": replace(
        NET,
        pool="AveragePool",
        batch=None,
        stages=[[{**NET.stages[0][0], "count_include_pad": 1}], NET.stages[1]],
    ),
}
"""Average pools, of a fixed batch: onnxruntime-training ends the process at a symbolic one."""
NEWEST_IR_VERSION = 10  # of onnxruntime 1.19.2


@dataclass(frozen=True)
class Outcome:
    """What a run leaves: the loss of each step and at last that of the eval model, and the weights as bytes."""

    losses: list[float]
    weights: dict[str, bytes]


def make_artifacts(folder: Path, model: onnx.ModelProto | None = None, **options: Any) -> None:
    """Write training_model.onnx, eval_model.onnx, optimizer_model.onnx and checkpoint of NET, or of `model`."""
    from onnxruntime.training import artifacts

    model = forward(NET, SEED) if model is None else model
    folder.mkdir(exist_ok=True)
    artifacts.generate_artifacts(
        model,
        requires_grad=[weight.name for weight in model.graph.initializer],
        loss=artifacts.LossType.CrossEntropyLoss,
        optimizer=artifacts.OptimType.AdamW,
        artifact_directory=folder,
        loss_input_names=["y"],
        **options,
    )
    # It stamps the optimizer with the newest IR version of the onnx package.
    optimizer = onnx.load(folder / "optimizer_model.onnx")
    optimizer.ir_version = NEWEST_IR_VERSION
    onnx.save(optimizer, folder / "optimizer_model.onnx")


def train(folder: Path, training_model: str, session_options: Any, images: tuple[int, ...] = IMAGES) -> Outcome:
    """Train for STEPS batches of random images and labels, the same ones each time."""
    from onnxruntime.training.api import CheckpointState, Module, Optimizer

    session_options.intra_op_num_threads = 1  # sums in one order
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    module = Module(folder / training_model, state, folder / "eval_model.onnx", session_options=session_options)
    optimizer = Optimizer(folder / "optimizer_model.onnx", module)
    random = np.random.default_rng(SEED)
    losses = []
    for _ in range(STEPS):
        batch = random.standard_normal(images, np.float32), random.integers(0, CLASSES, images[0])
        module.train()
        losses.append(float(module(*batch)))
        optimizer.step()
        module.lazy_reset_grad()
    module.eval()
    losses.append(float(module(*batch)))
    return Outcome(losses, {name: np.asarray(weight.data).tobytes() for name, weight in state.parameters})
