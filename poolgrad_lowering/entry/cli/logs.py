# SPDX-License-Identifier: Apache-2.0

"""Configures the command's log: `-v`, `-q` and POOLGRAD_LOG.

The library only writes to its loggers, one per module, and leaves their configuration to the program.
"""

from __future__ import annotations

import logging
import os

from poolgrad_lowering.model.diagnostics.errors import UsageError
from poolgrad_lowering.model.diagnostics.text import printable

VARIABLE = "POOLGRAD_LOG"
_ROOT = "poolgrad_lowering"
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(*, verbose: int, quiet: bool) -> None:
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
