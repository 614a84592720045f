# SPDX-License-Identifier: Apache-2.0

"""The demonstration of a training notices what is wrong, and the training itself is right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("sklearn")

from models import train_digits


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
