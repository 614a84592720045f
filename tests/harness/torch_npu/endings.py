# SPDX-License-Identifier: Apache-2.0

"""What a process keeps until it ends. Imports nothing that registers itself at exit."""

from __future__ import annotations

import atexit
import gc
from typing import Any

kept: list[Any] = []


def release_at_exit() -> None:
    """Release what is kept when the functions run that are registered at exit, before those registered so far."""
    atexit.register(_release)


def _release() -> None:
    kept.clear()
    gc.collect()
