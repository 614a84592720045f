"""A bar on a terminal. Nothing is written where the stream is none."""

from __future__ import annotations

from typing import TextIO

from poolgrad_lowering.diagnostics.printable import printable

_WIDTH = 24


class ProgressBar:
    """Shows how many of some things are done, in one line that is written over and in the end taken away."""

    def __init__(self, stream: TextIO, *, quiet: bool = False) -> None:
        self._stream = stream
        self._shown = stream.isatty() and not quiet

    def __call__(self, done: int, total: int, name: str) -> None:
        """Show the state; the bar goes when all is done."""
        if not self._shown:
            return
        self.clear()
        if done < total:
            filled = "#" * (_WIDTH * done // total)
            self._stream.write(f"[{filled:<{_WIDTH}}] {done}/{total} {printable(name[-40:])}")
        self._stream.flush()

    def clear(self) -> None:
        """Take the bar away, for other lines to be printed."""
        if self._shown:
            self._stream.write("\r\033[K")
            self._stream.flush()
