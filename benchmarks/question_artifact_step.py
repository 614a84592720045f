# SPDX-License-Identifier: Apache-2.0

"""How long does a training step of artifacts take in onnxruntime-training, and in standard ONNX in plain onnxruntime?

The step has the optimizer, AdamW. onnxruntime-training runs the artifacts as generate_artifacts has written them, in a
process of its own; its sessions and the others have onnxruntime's default number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import STEADY, interleaved
from benchmarks.training_peer import TRAINING_PYTHON, Peer
from benchmarks.training_sessions import Session, cpu_session, provider_session
from poolgrad_lowering import lower_artifacts
from poolgrad_lowering.runtime import TrainingLoop

CHILD = Path(__file__).with_name("artifact_peer_child.py")
ROUNDS = 15
RATE = 1e-4
TRAINING = "onnxruntime-training"
NETWORKS = {
    "ResNet-50": (4, 3, 112, 112),
    "VGG-16": (1, 3, 96, 96),
    "C3D": (1, 3, 8, 56, 56),
    "ResNet-18": (4, 3, 112, 112),
    "MobileNet": (8, 3, 96, 96),
}
"""The networks of training_networks.py, with a classifier behind them, and the shapes of their inputs."""


def measure(work: Path) -> dict[str, Any]:
    """Per network and variant: seconds of a step, and the ratio to onnxruntime-training."""
    python = Path(os.environ[TRAINING_PYTHON]).absolute()
    return {"steps": [{"name": name, "shape": NETWORKS[name], "rows": _rows(name, python, work)} for name in NETWORKS]}


def _rows(name: str, python: Path, work: Path) -> list[dict[str, Any]]:
    made, step = work / name / "artifacts", work / name / "step"
    made.mkdir(parents=True)
    peer = Peer(python, CHILD)
    peer.ask("\t".join((name, str(made), "x".join(map(str, NETWORKS[name])))))
    lower_artifacts(made, step, standard=True)
    batch = dict(np.load(made / "batch.npz"))
    timings = interleaved(
        {
            TRAINING: partial(peer.ask, ""),
            "standard step, function bodies": _loop(cpu_session, step, batch),
            "standard step, provider": _loop(provider_session, step, batch),
        },
        ROUNDS,
        unmeasured=STEADY,
    )
    peer.close()
    training = timings[TRAINING]
    return [{"name": key, **timing.to_dict(), "ratio": timing.ratio_to(training)} for key, timing in timings.items()]


def _loop(open_session: Callable[[str], Session], folder: Path, batch: dict[str, np.ndarray]) -> Callable[[], object]:
    loop = TrainingLoop(open_session(str(folder / "training_step.onnx")), np.load(folder / "values.npz"))
    return partial(loop.step, **batch, learning_rate=RATE)
