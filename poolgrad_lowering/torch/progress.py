# SPDX-License-Identifier: Apache-2.0

"""Says on a terminal what an export is doing, once it takes longer than two seconds."""

from __future__ import annotations

import sys
import threading
from types import TracebackType

PATIENCE = 2.0
"""After so many seconds, each part of the work is named."""


class Progress:
    """Names the parts of a work on standard error, if that is a terminal."""

    def __init__(self, what: str) -> None:
        self._what, self._part = what, ""
        self._timer = threading.Timer(PATIENCE, self._say)
        self._timer.daemon = True

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._timer.cancel()

    def part(self, name: str) -> None:
        """Begin a part of the work."""
        self._part = name
        if self._timer.finished.is_set():
            self._say()

    def _say(self) -> None:
        sys.stderr.write(f"{self._what}: {self._part} …\n")
        sys.stderr.flush()
