"""Bounds on what foreign code takes while it works on a model that nobody vouches for."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def bounded_memory(most: int) -> Iterator[None]:
    """Let the process take at most so many bytes more than it has; beyond, allocations fail with `MemoryError`.

    The limit is the whole process's while it lasts: threads that run meanwhile are under it too.
    """
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = _address_space() + most
    if before != resource.RLIM_INFINITY:
        limit = min(limit, before)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))


def _address_space() -> int:
    """The bytes of address space that the process has, by the first number of proc(5)'s statm."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
