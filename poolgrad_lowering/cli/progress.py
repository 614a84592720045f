# SPDX-License-Identifier: Apache-2.0

"""A progress bar on a terminal. Nothing is written to a stream that is not a terminal."""

from __future__ import annotations

from typing import TextIO

from poolgrad_lowering.diagnostics.text import printable

_WIDTH = 24


class ProgressBar:
    """Shows the number of finished items in one line, which is overwritten and finally cleared."""

    def __init__(self, stream: TextIO, *, quiet: bool = False) -> None:
        self._stream = stream
        self._shown = stream.isatty() and not quiet

    def __call__(self, done: int, total: int, name: str) -> None:
        """Show that `done` of `total` items are finished and that `name` is the last; clear the bar at the end."""
        if not self._shown:
            return
        self.clear()
        if done < total:
            filled = "#" * (_WIDTH * done // total)
            self._stream.write(f"[{filled:<{_WIDTH}}] {done}/{total} {printable(name[-40:])}")
        self._stream.flush()

    def clear(self) -> None:
        """Clear the bar, so that other lines can be printed."""
        if self._shown:
            self._stream.write("\r\033[K")
            self._stream.flush()
