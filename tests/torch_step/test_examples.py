# SPDX-License-Identifier: Apache-2.0

"""The example that trains a PyTorch model learns, and its weights return to the model."""

from __future__ import annotations

import re
from pathlib import Path

from tests.harness.examples import run_example


def test_train_pytorch(tmp_path: Path) -> None:
    first, *steps, last = run_example("train_pytorch.py", tmp_path)
    assert first == "1 gradient lowered"
    losses = [float(found[1]) for line in steps if (found := re.fullmatch(r"step \d+: loss (.*)", line))]
    assert len(losses) == 4
    assert losses[-1] < losses[0] / 2
    [right] = re.findall(r"^(\d+)% of 1000 new images are right$", last)
    assert int(right) > 95
