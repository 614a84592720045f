# SPDX-License-Identifier: Apache-2.0

"""The standard streams of the process: closed, full or limited ones, `-` as the file name of a model, and the log.

The library only writes to its loggers, one per module, and leaves their configuration to the program, which is
configured by `-v`, `-q` and POOLGRAD_LOG.
"""

from __future__ import annotations

import argparse
import io
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path

from poolgrad_lowering.model.diagnostics.errors import UsageError, explained
from poolgrad_lowering.model.diagnostics.text import printable

STREAM = "-"
"""The file name of standard input or standard output. A file of this name is `./-`."""


def prepare() -> None:
    """Open streams that the caller closed, and let all of them show the characters that their encoding lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - for the whole process
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def discard_output() -> None:
    """Drop what is not written yet to standard output, which Python would try once more at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def model_file(text: str) -> Path | str:
    """Parse the path of a model, or `-`."""
    return text if text == STREAM else Path(text)


@contextmanager
def as_files(options: argparse.Namespace) -> Iterator[Callable[[str], str]]:
    """Replace `-` in parsed arguments by temporary files with the content of the stream.

    Yields a function that replaces their paths in a text by `-`. If the output is `-`, what the block prints goes to
    standard error, and the model that it wrote goes to standard output at the end. Raises `UsageError` if a stream is
    not available.
    """
    given = [name for name in ("model", "original", "lowered") if getattr(options, name, None) == STREAM]
    to_output = getattr(options, "output", None) == STREAM
    if not (given or to_output):
        yield str
        return
    _require_streams(options, given, to_output=to_output)
    with explained("cannot make a temporary folder"):
        temporary = tempfile.TemporaryDirectory(prefix="poolgrad-", ignore_cleanup_errors=True)
    with temporary as folder:
        source, written = Path(folder, "stdin.onnx"), Path(folder, "stdout.onnx")
        for name in given:
            with explained("cannot read standard input"), source.open("wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
            setattr(options, name, source)
        if to_output:
            options.output = written
        with redirect_stdout(sys.stderr) if to_output else nullcontext():
            yield lambda text: text.replace(str(source), STREAM).replace(str(written), STREAM)
        if written.exists():
            sys.stdout.buffer.write(written.read_bytes())


def _require_streams(options: argparse.Namespace, given: list[str], *, to_output: bool) -> None:
    if len(given) > 1:
        raise UsageError("standard input is one model: give '-' once")
    if given and sys.stdin is None:
        raise UsageError("standard input is closed")
    if to_output and options.json:
        raise UsageError("standard output cannot be both the model and a report: write the report with --report")
    if to_output and sys.stdout.isatty():
        raise UsageError("standard output is a terminal: send the model to a file or to another program")


VARIABLE = "POOLGRAD_LOG"
_ROOT = "poolgrad_lowering"
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure_log(*, verbose: int, quiet: bool) -> None:
    """Send the log to standard error. Raises `UsageError` if POOLGRAD_LOG is malformed."""
    level = logging.ERROR if quiet else (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    handler = logging.StreamHandler()
    handler.setFormatter(_Printable("%(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler])
    logging.getLogger(_ROOT).setLevel(level)
    for name, logger_level in _parse_levels(os.environ.get(VARIABLE, "")).items():
        logging.getLogger(name).setLevel(logger_level)


class _Printable(logging.Formatter):
    """Escapes control characters, which paths and names may contain."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name of logging
        return printable(super().formatMessage(record))


def _parse_levels(text: str) -> dict[str, int]:
    """Return levels by logger from a text such as `info,debug:compiler`, with names relative to the package."""
    levels: dict[str, int] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        word, _, name = part.partition(":")
        if word.lower() not in _LEVELS:
            raise UsageError(f"{VARIABLE}: unknown level '{word}': give one of {', '.join(_LEVELS)}, or LEVEL:MODULE")
        module = name.removeprefix(_ROOT).removeprefix(".")
        levels[f"{_ROOT}.{module}" if module else _ROOT] = _LEVELS[word.lower()]
    return levels
