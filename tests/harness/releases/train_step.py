# SPDX-License-Identifier: Apache-2.0

"""Trains a step in standard ONNX under one release of onnxruntime, on its CPU provider, and prints the losses as JSON.

Usage: python train_step.py PACKAGE STEP BATCHES RATE. PACKAGE is the folder that has this package, STEP the folder of
the step, BATCHES a file with arrays `images` and `labels`. It needs nothing but onnxruntime and numpy.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np


def main() -> None:
    """Train."""
    package, step, data, rate = sys.argv[1:]
    sys.path.insert(0, package)
    import onnxruntime

    from poolgrad_lowering.runtime import TrainingLoop

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    file = str(Path(step, "training_step.onnx"))
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    loop = TrainingLoop(session, np.load(Path(step, "values.npz")))
    fed = np.load(data)
    pairs = zip(fed["images"], fed["labels"], strict=True)
    losses = [loop.step(images=images, labels=labels, learning_rate=float(rate))["loss"] for images, labels in pairs]
    sys.stdout.write(json.dumps([float(loss) for loss in losses]) + "\n")


if __name__ == "__main__":
    main()
