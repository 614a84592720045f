# SPDX-License-Identifier: Apache-2.0

"""The built folders of artifacts, and the batches with which they were trained in onnxruntime-training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

FOLDERS = Path(__file__).parent / "built" / "artifacts"
STEPS = 200
RESUMED = "resumed"
"""The checkpoint after half of the steps, with the optimizer's state."""
NEWEST_IR_VERSION = 10
"""The newest IR version that onnxruntime 1.19.2 loads; onnx writes newer ones."""


@dataclass(frozen=True)
class Run:
    """The learning rate of a training, and whether its labels are one for each pixel."""

    rate: float
    per_pixel: bool = False


RUNS = {
    "crnn": Run(0.01),
    "lenet": Run(0.01),
    "resnet": Run(0.02),
    "transformer": Run(0.005),
    "unet": Run(0.01, per_pixel=True),
}


def batches(name: str, steps: int = STEPS) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield noisy images of waves, of shape (8, 1, 16, 16), and the waves' numbers, or the signs of their pixels."""
    random = np.random.default_rng(len(name))
    places = np.arange(16) / 16
    for _ in range(steps):
        labels = random.integers(0, 5, 8)
        rows = np.sin(2 * np.pi * (1 + labels[:, None]) * places[None, :] / 2)
        waves = np.broadcast_to(rows[:, None, None, :], (8, 1, 16, 16)).astype(np.float32)
        images = waves + 0.5 * random.standard_normal(waves.shape, np.float32)
        if RUNS[name].per_pixel:
            yield images, np.sign(waves).astype(np.int64).reshape(-1) + 1
        else:
            yield images, labels
