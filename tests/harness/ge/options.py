# SPDX-License-Identifier: Apache-2.0

"""Options of a build that GE checks: input_shape and precision_mode (ge:compiler/api/aclgrph/option_utils.cc)."""

from __future__ import annotations

import re

from tests.harness.ge import faults
from tests.harness.ge.faults import GeError

SPACES = " \t\n\v\f\r"
LARGEST_NUMBER = 2**63 - 1

PRECISION_MODES = {
    "": True,
    "force_fp16": True,
    "allow_mix_precision": True,
    "allow_mix_precision_fp16": True,
    "allow_fp32_to_fp16": False,
    "allow_mix_precision_bf16": False,
    "allow_fp32_to_bf16": False,
    "cube_fp16in_fp32out": False,
    "force_fp32": False,
    "must_keep_origin_dtype": False,
}
"""The values of precision_mode: whether GE computes float32 graphs in float16. Empty means the default, force_fp16."""


def parse_input_shape(text: str, *, is_dynamic: bool = False) -> dict[str, list[int]]:
    """Return the shapes of a text like `x:2,3;rate:`, by name; of several with one name the first.

    Args:
        text: entries between semicolons; the last colon of each ends the name. No numbers are the shape of a scalar.
        is_dynamic: whether sizes below 1 are taken.

    Raises:
        GeError: an entry has no colon, or a number is none, or too large, or below 1.
    """
    shapes: dict[str, list[int]] = {}
    for entry in text.split(";"):
        name, colon, sizes = entry.rpartition(":")
        if not colon:
            raise GeError.of(faults.OPTION_SYNTAX, f"input_shape: '{entry}' is not name:sizes")
        shape = [_size(size, entry, is_dynamic=is_dynamic) for size in sizes.split(",")] if sizes else []
        shapes.setdefault(name.strip(SPACES), shape)
    return shapes


def _size(text: str, entry: str, *, is_dynamic: bool) -> int:
    if "." in text:
        raise GeError.of(faults.OPTION_SYNTAX, f"input_shape: '{entry}' has a number that is no integer")
    text = text.strip(SPACES)
    if re.match(r"[+-]?[0-9]", text) is None:
        raise GeError.of(faults.OPTION_NUMBER, f"input_shape: '{text}' of '{entry}' is no number")
    if re.fullmatch(r"-?[0-9]+", text) is None:
        raise GeError.of(faults.OPTION_SYNTAX, f"input_shape: '{text}' of '{entry}' has other letters than digits")
    if abs(size := int(text)) > LARGEST_NUMBER:
        raise GeError.of(faults.OPTION_RANGE, f"input_shape: '{text}' of '{entry}' is too large")
    if size <= 0 and not is_dynamic:
        raise GeError.of(faults.OPTION_SIZE, f"input_shape: {size} of '{entry}' is below 1")
    return size


def computes_in_float16(precision_mode: str) -> bool:
    """Return whether GE computes float32 graphs in float16.

    Raises:
        GeError: there is no such mode.
    """
    if precision_mode not in PRECISION_MODES:
        raise GeError.of(faults.OPTION_VALUE, f"precision_mode '{precision_mode}' is none of {list(PRECISION_MODES)}")
    return PRECISION_MODES[precision_mode]
