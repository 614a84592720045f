"""Where the command's log goes and how much of it there is: `-v`, `-q` and POOLGRAD_LOG.

The library only writes to its loggers, one a module; what becomes of that is up to the program.
"""

from __future__ import annotations

import logging
import os

from poolgrad_lowering.diagnostics.errors import UsageError

VARIABLE = "POOLGRAD_LOG"
_ROOT = "poolgrad_lowering"
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(*, verbose: int, quiet: bool) -> None:
    """Send the log to standard error. Raises `UsageError` for a POOLGRAD_LOG that says nothing."""
    level = logging.ERROR if quiet else (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    logging.basicConfig(format="%(name)s: %(message)s")
    logging.getLogger(_ROOT).setLevel(level)
    for name, chosen in _chosen(os.environ.get(VARIABLE, "")).items():
        logging.getLogger(name).setLevel(chosen)


def _chosen(text: str) -> dict[str, int]:
    """The levels of loggers in a text such as `info,debug:lowering`; a logger is named within the package."""
    levels: dict[str, int] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        word, _, name = part.partition(":")
        if word.lower() not in _LEVELS:
            raise UsageError(f"{VARIABLE}: '{word}' is no level: give one of {', '.join(_LEVELS)}, or LEVEL:MODULE")
        module = name.removeprefix(_ROOT).removeprefix(".")
        levels[f"{_ROOT}.{module}" if module else _ROOT] = _LEVELS[word.lower()]
    return levels
