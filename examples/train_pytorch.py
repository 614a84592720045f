# SPDX-License-Identifier: Apache-2.0

"""Trains a PyTorch model in onnxruntime: exports a training step, lowers it, runs it, and returns the weights.

    python examples/train_pytorch.py

Needs `pip install 'poolgrad-lowering[ort,torch]'`, Python 3.11 to 3.13. It trains on the NPU where one answers, else on
the CPU. docs/from-pytorch.md describes the options.
"""

from __future__ import annotations

import torch
from torch import nn

from poolgrad_lowering import lower
from poolgrad_lowering.runtime import TrainingLoop, create_session
from poolgrad_lowering.torch import export_training_step

STEPS = 40
RATE = 0.05


def main() -> None:
    """Train a small network to tell horizontal from vertical stripes."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 2))
    images, labels = batch(32)
    step = export_training_step(model, nn.functional.cross_entropy, (images, labels), optimizer="sgd")
    step.check()  # against eager PyTorch

    lowered = lower(step.model)
    print(f"{len(lowered.report.lowered)} gradient lowered")
    loop = TrainingLoop(create_session(lowered.model), step)
    for number in range(STEPS):
        images, labels = batch(32)
        loss = loop.step(input=images, target=labels, learning_rate=RATE)["loss"]
        if number % 10 == 9:
            print(f"step {number + 1}: loss {loss.item():.4f}")

    step.load_into(model, loop.values())
    images, labels = batch(1000)
    right = (model(images).argmax(1) == labels).float().mean()
    print(f"{right:.0%} of 1000 new images are right")


def batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return noisy images of shape (size, 1, 8, 8), and their labels: 1 where the stripes are horizontal."""
    labels = torch.randint(2, (size,))
    stripes = (torch.arange(8) % 2).float().expand(size, 1, 8, 8)
    images = torch.where(labels.view(-1, 1, 1, 1) == 1, stripes.transpose(2, 3), stripes)
    return images + 0.5 * torch.randn_like(images), labels


if __name__ == "__main__":
    main()
