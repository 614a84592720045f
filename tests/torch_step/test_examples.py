# SPDX-License-Identifier: Apache-2.0

"""The example and the demonstration that train a PyTorch model: they learn, and notice what is wrong."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models import train_digits
from tests.harness.examples import run_example


@pytest.fixture(scope="module")
def found() -> dict[str, train_digits.Run]:
    return train_digits.runs(epochs=2)


def faults(found: dict[str, train_digits.Run], enough: float = 0.9) -> list[str]:
    return train_digits.faults(found, train_digits.data()[1], enough=enough)


def test_three_trainings_agree(found: dict[str, train_digits.Run]) -> None:
    assert not faults(found)
    assert len({len(run.losses) for run in found.values()}) == 1


def test_a_difference_of_one_bit_is_found(found: dict[str, train_digits.Run]) -> None:
    run = found["lowered, provider"]
    losses = [*run.losses[:-1], float(np.nextafter(np.float32(run.losses[-1]), np.float32(9)))]
    assert "bit for bit" in faults({**found, "lowered, provider": replace(run, losses=losses)})[0]


def test_too_little_learned_is_found(found: dict[str, train_digits.Run]) -> None:
    assert len([line for line in faults(found, enough=0.999) if "held-out digits" in line]) == 3


def test_another_loss_than_torch_is_found(found: dict[str, train_digits.Run]) -> None:
    run = found["eager PyTorch"]
    other = replace(run, losses=[loss + 1e-3 for loss in run.losses])
    assert "first epoch" in faults({**found, "eager PyTorch": other})[0]


def test_train_pytorch(tmp_path: Path) -> None:
    first, *steps, last = run_example("train_pytorch.py", tmp_path)
    assert first == "1 gradient lowered"
    losses = [float(found[1]) for line in steps if (found := re.fullmatch(r"step \d+: loss (.*)", line))]
    assert len(losses) == 4
    assert losses[-1] < losses[0] / 2
    [right] = re.findall(r"^(\d+)% of 1000 new images are right$", last)
    assert int(right) > 95
