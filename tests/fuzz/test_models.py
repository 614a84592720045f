# SPDX-License-Identifier: Apache-2.0

"""Models and calls of the host library changed at random, without a guide: always the same ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz.changes import corrupted, mutated, rewritten
from tests.fuzz.promises import check_file, check_model
from tests.fuzz.seeds import seeds
from tests.harness.cann.installations import build_over_host
from tests.harness.sessions.ep_process import run_python

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


CPP = Path(__file__).parents[1] / "harness" / "fuzz"
SOURCES = Path(__file__).parents[2] / "runtime" / "src"

CODE = """
import ctypes, random
search = ctypes.CDLL({library!r})
chance = random.Random(0)
for _ in range(20_000):
    data = chance.randbytes(chance.choice((8, 64, 256)))
    search.LLVMFuzzerTestOneInput(data, ctypes.c_size_t(len(data)))
answer("done")
"""


def test_random_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPLUS_INCLUDE_PATH", f"{CPP}:{SOURCES}")
    library = build_over_host(tmp_path / "libsearch.so", (CPP / "host_calls.cpp").read_text(encoding="utf-8"))
    assert run_python(CODE.format(library=str(library))) == "done"
