# SPDX-License-Identifier: Apache-2.0

"""Models changed at random, field by field, byte by byte and operand by operand: always the same thousand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz.changes import corrupted, mutated, rewritten
from tests.fuzz.promises import check_file, check_model
from tests.fuzz.seeds import seeds

SEEDS = list(seeds().values())
CHANGES = [corrupted, mutated, rewritten]
INPUTS = 350
"""For each kind of change."""


def changed(change: Callable[[bytes, int, int], bytes], number: int) -> bytes:
    return change(SEEDS[number % len(SEEDS)], number, 1 + number % 6)


@pytest.mark.parametrize("change", CHANGES)
def test_models(change: Callable[[bytes, int, int], bytes]) -> None:
    outcomes = {check_model(changed(change, number)) for number in range(INPUTS)}
    assert {"lowered", "untouched"} < outcomes


@pytest.mark.parametrize("change", [corrupted, mutated])
def test_files(change: Callable[[bytes, int, int], bytes], tmp_path: Path) -> None:
    outcomes = {check_file(changed(change, number), tmp_path) for number in range(50)}
    assert len(outcomes) > 2
    assert "written" in outcomes


def test_every_seed_is_a_model() -> None:
    assert {check_model(data) for data in SEEDS} == {"lowered", "untouched"}


@pytest.mark.long
@pytest.mark.parametrize("change", CHANGES)
def test_models_very_often(change: Callable[[bytes, int, int], bytes]) -> None:
    for number in range(INPUTS, 60 * INPUTS):
        check_model(changed(change, number))
