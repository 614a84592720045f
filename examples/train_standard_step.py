# SPDX-License-Identifier: Apache-2.0

"""Trains with onnxruntime's artifacts in any onnxruntime: as one step in standard ONNX, with lowered pools.

    python examples/train_standard_step.py [ARTIFACTS [STEP]]

ARTIFACTS is a folder of `generate_artifacts`, by default that of a small LeNet of this repository. STEP is
a new folder for the step, by default `step`. Needs `pip install 'poolgrad-lowering[ort]'`, and no onnxruntime-training.
Beside the package onnxruntime-cann, all of the step runs on the NPU.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnxruntime

import poolgrad_lowering
from poolgrad_lowering import runtime

LENET = Path(__file__).parents[1] / "models" / "built" / "artifacts" / "lenet"
TARGET = "Ascend910B3"
STEPS, BATCH, CLASSES = 100, 8, 5


def main(artifacts: str = str(LENET), step: str = "step") -> None:
    """Write the step, train with it, evaluate, and write a checkpoint for onnxruntime-training."""
    report = poolgrad_lowering.lower_artifacts(artifacts, step, target=TARGET, standard=True)
    print(f"{len(report.lowered)} gradients lowered, {report.standard.text}")

    session = runtime.create_session(f"{step}/training_step.onnx", backend="auto")
    loop = runtime.TrainingLoop(session, np.load(f"{step}/values.npz"))
    random = np.random.default_rng(0)
    for number in range(1, STEPS + 1):
        images, labels = batch(random)
        loss = loop.step(images=images, labels=labels, learning_rate=0.01)["loss"]
        if number % 20 == 0:
            print(f"step {number}: loss {float(loss):.4f}")

    evaluation = onnxruntime.InferenceSession(f"{step}/eval_model.onnx")
    found = runtime.TrainingLoop(evaluation, loop.values()).step(images=images, labels=labels)
    print(f"evaluated: loss {float(found['loss']):.4f}")
    poolgrad_lowering.write_checkpoint(f"{step}/trained", loop.values(), like=f"{step}/checkpoint")
    print(f"wrote {step}/trained")


def batch(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy images of waves, of shape (BATCH, 1, 16, 16), and the numbers of their waves as labels."""
    labels = random.integers(0, CLASSES, BATCH)
    rows = np.sin(np.pi * (1 + labels[:, None]) * np.arange(16) / 16)
    images = np.broadcast_to(rows[:, None, None, :], (BATCH, 1, 16, 16)).astype(np.float32)
    return images + 0.3 * random.standard_normal(images.shape, np.float32), labels


if __name__ == "__main__":
    main(*sys.argv[1:])
