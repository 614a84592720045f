# SPDX-License-Identifier: Apache-2.0

"""What a function of Python does with a truth value that it asks for, by its instructions."""

from __future__ import annotations

import dis
import re
import sys
from bisect import bisect
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any

from poolgrad_lowering.torch.explanations import is_file_of_a_model

_BRANCH = re.compile(r"JUMP.*IF_(TRUE|FALSE)")
_END_OF_BLOCK = re.compile(r"JUMP|RETURN|YIELD|FOR_ITER|RERAISE")


def asking_frame(is_asking: Callable[[str], bool]) -> FrameType:
    """Return the innermost running frame whose file is not of what asks for a truth value on behalf of others."""
    frame: Any = sys._getframe()  # noqa: SLF001
    while frame.f_code.co_filename == __file__ or is_asking(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def answer_without_error(frame: FrameType, outermost: CodeType) -> bool | None:
    """Return the truth value, asked for now, with which a function goes on; with the other one it raises an error.

    That is the condition of an `assert`, or of an `if` before a `raise`, where the model handles no error. Returns None
    for any other one, and before Python 3.11, which does not tell what handles errors. The model runs inside of the
    function with the code `outermost`.
    """
    if _is_handled(frame, outermost):
        return None
    code = list(dis.get_instructions(frame.f_code))
    offsets = [each.offset for each in code]
    at = bisect(offsets, frame.f_lasti) - 1
    at += code[at].opname == "TO_BOOL"  # Python 3.13 asks in the instruction before
    branch = code[at]
    if (found := _BRANCH.search(branch.opname)) is None:
        return None
    target = bisect(offsets, branch.argval) - 1
    jumping, going_on = (_raises(code[first:]) for first in (target, at + 1))
    return None if jumping == going_on else (found[1] == "TRUE") is going_on


def _is_handled(frame: FrameType, outermost: CodeType) -> bool:
    """Whether a function of the model, or one that calls it, handles errors of what it runs now."""
    running: FrameType | None = frame
    while running is not None and running.f_code is not outermost:
        if is_file_of_a_model(running.f_code.co_filename):
            handlers = getattr(dis.Bytecode(running.f_code), "exception_entries", None)
            if handlers is None or any(each.start <= running.f_lasti < each.end for each in handlers):
                return True
        running = running.f_back
    return False


def _raises(code: Sequence[dis.Instruction]) -> bool:
    """Whether instructions lead straight to a `raise`."""
    ends = (each.opname for each in code if each.opname == "RAISE_VARARGS" or _END_OF_BLOCK.search(each.opname))
    return next(ends, "") == "RAISE_VARARGS"
