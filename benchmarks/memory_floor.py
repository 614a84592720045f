"""The time that memory alone takes: reading so many bytes and writing so many, on all cores, and doing nothing else."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from ctypes import c_int, c_size_t, c_void_p

import numpy as np

FILL, ABSENT = 1, 0
"""What the bytes are, and one that none of them is."""


def memory_floor(read: int, written: int) -> Callable[[], None]:
    """A call in which each core looks through its part of `read` bytes and overwrites its part of `written`."""
    c = ctypes.CDLL(None)
    c.memchr.argtypes = c.memset.argtypes = [c_void_p, c_int, c_size_t]
    cores = os.cpu_count() or 1
    threads = ThreadPoolExecutor(cores)
    source, destination = np.full(read, FILL, np.uint8), np.full(written, FILL, np.uint8)

    def move(part: int) -> None:
        c.memchr(source.ctypes.data + part * (read // cores), ABSENT, read // cores)
        c.memset(destination.ctypes.data + part * (written // cores), FILL, written // cores)

    return lambda: list(threads.map(move, range(cores))) and None
