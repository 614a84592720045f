# SPDX-License-Identifier: Apache-2.0

"""What a function of Python does with a truth value that it asks for, by its instructions."""

from __future__ import annotations

import dis
import re
from bisect import bisect
from collections.abc import Sequence
from types import FrameType

_BRANCH = re.compile(r"JUMP.*IF_(TRUE|FALSE)")
_END_OF_BLOCK = re.compile(r"JUMP|RETURN|YIELD|FOR_ITER|RERAISE")


def answer_without_error(frame: FrameType) -> bool | None:
    """Return the truth value, asked for now, with which a function goes on; with the other one it raises an error.

    That is the condition of an `assert`, or of an `if` before a `raise`. Returns None for any other one.
    """
    code = list(dis.get_instructions(frame.f_code))
    offsets = [each.offset for each in code]
    at = bisect(offsets, frame.f_lasti) - 1
    for number, branch in enumerate(code[at : at + 2], at + 1):  # Python 3.13 asks in the instruction before
        if found := _BRANCH.search(branch.opname):
            jumps_if = found[1] == "TRUE"
            target = bisect(offsets, branch.argval) - 1
            jumping, going_on = (_raises(code[first:]) for first in (target, number))
            return None if jumping == going_on else jumps_if is going_on
    return None


def _raises(code: Sequence[dis.Instruction]) -> bool:
    """Whether instructions lead straight to a `raise`."""
    ends = (each.opname for each in code if each.opname == "RAISE_VARARGS" or _END_OF_BLOCK.search(each.opname))
    return next(ends, "") == "RAISE_VARARGS"
