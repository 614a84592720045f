"""What the command's exit codes mean: one table that the command, its documentation and the tests read."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """How a command ended."""

    DONE = 0
    FAILED = 1
    BAD_INPUT = 2
    INTERRUPTED = 130


MEANINGS: dict[ExitCode, str] = {
    ExitCode.DONE: "done; refused anchors are in the report",
    ExitCode.FAILED: "a check failed: something was refused and `--strict` given, a model is not proven, one of "
    "several models could not be lowered, `doctor` found no backend that works, `self-test` did not pass",
    ExitCode.BAD_INPUT: "bad input or usage; nothing is written",
    ExitCode.INTERRUPTED: "interrupted from the keyboard (Ctrl-C); what was begun is not written",
}
