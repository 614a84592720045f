# SPDX-License-Identifier: Apache-2.0

"""The time of the memory traffic alone: reads and writes a number of bytes on all cores, without other work."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_int64, c_uint64, c_void_p
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.compiling import compile_library

WORD = 8
Words = np.ndarray[Any, np.dtype[np.uint64]]


class MemoryFloor:
    """`memory_floor.cpp`, compiled into the folder `work`. Python threads would start too slowly for short tasks."""

    def __init__(self, work: Path) -> None:
        self._move = ctypes.CDLL(str(compile_library("memory_floor.cpp", work, "-O3", "-march=native", "-fopenmp")))
        self._move.MoveWords.restype = c_uint64
        self._move.MoveWords.argtypes = [c_void_p, c_int64, c_void_p, c_int64]

    def move(self, source: Words, destination: Words) -> int:
        """Read all words of `source` and overwrite all of `destination`; returns the sum of the words read."""
        moved = self._move.MoveWords(source.ctypes.data, len(source), destination.ctypes.data, len(destination))
        return int(moved)

    def of(self, read: int, written: int) -> Callable[[], int]:
        """A call that reads `read` bytes and overwrites `written` bytes, divided among the cores."""
        return partial(self.move, np.ones(read // WORD, np.uint64), np.zeros(written // WORD, np.uint64))
