# SPDX-License-Identifier: Apache-2.0

"""The example that trains onnxruntime-training's artifacts learns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.harness.examples import run_example

pytestmark = pytest.mark.training


def test_train_artifacts(tmp_path: Path) -> None:
    first, *steps, last = run_example("train_artifacts.py", tmp_path)
    assert first == "1 gradient lowered"
    losses = [float(found[1]) for line in steps if (found := re.fullmatch(r"step \d+: loss (.*)", line))]
    assert len(losses) == 5
    assert losses[-1] < losses[0] / 2
    assert last == "weights: 0.bias, 0.weight, 4.bias, 4.weight"
