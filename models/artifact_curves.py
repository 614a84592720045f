# SPDX-License-Identifier: Apache-2.0

"""Trains the steps in standard ONNX of the built artifacts, and draws their losses on those of onnxruntime-training.

python -m models.artifact_curves docs/images/standard_steps.svg
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime

from models.artifact_runs import FOLDERS, RUNS, STEPS, batches
from models.loss_curves import Curve, draw_pairs
from poolgrad_lowering import lower_artifacts
from poolgrad_lowering.runtime import TrainingLoop

TITLES = {
    "crnn": "CRNN, AdamW",
    "lenet": "LeNet, AdamW",
    "resnet": "ResNet, SGD",
    "transformer": "transformer, AdamW, clipped",
    "unet": "U-Net, AdamW",
}


def train(name: str, folder: Path, steps: int = STEPS) -> tuple[list[float], TrainingLoop]:
    """Train a standard step, which is written to a new folder, in a session of plain onnxruntime on the CPU."""
    lower_artifacts(FOLDERS / name, folder, standard=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    file = str(folder / "training_step.onnx")
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    loop = TrainingLoop(session, np.load(folder / "values.npz"))
    rate = RUNS[name].rate
    fed = ({"images": images, "labels": labels, "learning_rate": rate} for images, labels in batches(name, steps))
    return [float(loop.step(**inputs)["loss"]) for inputs in fed], loop


def main() -> None:
    """Draw the curves to the file that is named on the command line."""
    pairs = []
    with tempfile.TemporaryDirectory() as folder:
        for name in RUNS:
            losses, _ = train(name, Path(folder, name))
            expected = np.load(FOLDERS / name / "run.npz")["losses"]
            sys.stdout.write(f"{name}: losses differ by at most {np.abs(expected - losses).max():.1e}\n")
            pairs.append((Curve(TITLES[name], expected.tolist()), Curve("", losses)))
    title = "Losses of five networks, by the artifacts in onnxruntime-training and by standard steps."
    Path(sys.argv[1]).write_text(draw_pairs(pairs, title), encoding="utf-8")


if __name__ == "__main__":
    main()
