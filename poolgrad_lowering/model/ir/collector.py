# SPDX-License-Identifier: Apache-2.0

"""Pauses Python's cyclic garbage collector during work that creates many objects and no garbage."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_pauses = 0
_was_enabled = False


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the collector of the process: each collection would traverse an index that stays alive.

    Threads may pause it at the same time. The last one to finish restores the state that the first one found.
    """
    global _pauses, _was_enabled  # noqa: PLW0603 - the collector is global to the process, and so is this count
    with _lock:
        if not _pauses:
            _was_enabled = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if not _pauses and _was_enabled:
                gc.enable()
