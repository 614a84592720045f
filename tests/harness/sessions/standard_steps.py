# SPDX-License-Identifier: Apache-2.0

"""The built artifacts as steps in standard ONNX, with what a first step is fed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from models.artifact_runs import FOLDERS, RUNS, batches
from poolgrad_lowering import lower_artifacts

OPTIMIZERS = {"crnn": "adamw", "lenet": "adamw", "resnet": "sgd", "transformer": "adamw, clipped", "unet": "adamw"}


def standard_step(
    name: str, target: str, folder: Path, artifacts: Path | None = None
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return the step, which is written to a new folder, and its inputs. `artifacts` is another folder of the model."""
    lower_artifacts(artifacts or FOLDERS / name, folder, target=target, standard=True)
    images, labels = next(batches(name, 1))
    batch = {"images": images, "labels": labels, "learning_rate": np.array(RUNS[name].rate, np.float32)}
    return onnx.load(folder / "training_step.onnx"), {**np.load(folder / "values.npz"), **batch}
