# SPDX-License-Identifier: Apache-2.0

"""onnxruntime-training in a process of its own, as the benchmarks ask it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.training_peer import TrainingPeer

FEEDS = {"dy": np.ones((1, 2, 2, 2), np.float32), "indices": np.arange(8, dtype=np.int64).reshape(1, 2, 2, 2)}
WINDOWS = {"kernel_shape": [2, 2], "strides": [2, 2]}


@pytest.mark.training
def test_it_runs_as_often_as_it_is_asked(tmp_path: Path) -> None:
    peer = TrainingPeer(Path(sys.executable), tmp_path)
    for _ in range(2):
        run = peer.runner(WINDOWS, [1, 2, 4, 4], FEEDS)
        run()
        run()
    peer.close()


def test_what_it_cannot_run_is_an_error(tmp_path: Path) -> None:
    peer = TrainingPeer(Path(sys.executable), tmp_path)
    with pytest.raises(RuntimeError, match="ended with 1"):
        peer.runner(WINDOWS, [1, 2, 4, 4], FEEDS | {"dy": FEEDS["dy"] > 0})
