# SPDX-License-Identifier: Apache-2.0

"""The floor of the kernels' times: every byte is read, and every byte is written."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from benchmarks.memory_floor import MemoryFloor


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
def test_all_of_it_is_moved(tmp_path: Path) -> None:
    source, destination = np.arange(10_000, dtype=np.uint64), np.zeros(6_000, np.uint64)
    floor = MemoryFloor(tmp_path)
    assert floor.move(source, destination) == source.sum()
    assert (destination.view(np.uint8) == 1).all()
    assert floor.of(8 * 1_000, 8 * 10)() == 1_000
