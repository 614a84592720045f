# SPDX-License-Identifier: Apache-2.0

"""The meanings of the command's exit codes: the table that the command, its documentation and the tests read."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """How a command ended."""

    DONE = 0
    FAILED = 1
    BAD_INPUT = 2
    DEFECT = 3
    SITES_ONLY = 4
    INTERRUPTED = 130


MEANINGS: dict[ExitCode, str] = {
    ExitCode.DONE: "done; the report lists refused anchors",
    ExitCode.FAILED: "a check failed: an anchor was refused with `--strict`, a model is not proven, ATC cannot "
    "convert a model, a training step differs from eager PyTorch, one of several models could not be lowered, `doctor` "
    "found no working backend, or `self-test` failed",
    ExitCode.BAD_INPUT: "bad input or usage; nothing is written",
    ExitCode.DEFECT: "a form raised an error on an anchor, which is refused; everything else is done and written. "
    "Report the error, whose traceback is in standard error",
    ExitCode.SITES_ONLY: "of `verify`: every site is proven and nothing else differs, but the whole models could not "
    "be run; with `--no-whole-model`, which does not ask for it, the code is 0",
    ExitCode.INTERRUPTED: "interrupted from the keyboard (Ctrl-C); unfinished files are not written",
}
