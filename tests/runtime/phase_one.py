# SPDX-License-Identifier: Apache-2.0

"""Calls of phase 1 with something changed: what the tests of the host library's checks share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pytest

from tests.runtime.aclnn_ctypes import bfloat16, current_device, initialized
from tests.runtime.average_calls import A2, A3, A950

NULLPTR, INVALID, INNER = 161001, 161002, 561103
SOCS = (A950, A2, A3)
WITHOUT = ("Ascend910A", "Ascend910B", "Ascend310P3", "Ascend310B4", "Ascend350_354f")
"""Names of SoCs that have none of the functions, or that are none."""
FLOAT, HALF, BF16 = np.dtype(np.float32), np.dtype(np.float16), bfloat16
DOUBLE, INT8, INT32, INT64 = (np.dtype(t) for t in (np.float64, np.int8, np.int32, np.int64))

Change = Callable[[Any], Any]
"""Another call of the same function."""


def given(**values: Any) -> Change:
    """Change arguments."""
    return lambda call: dataclasses.replace(call, **values)


def tensors(*names: str, **values: Any) -> Change:
    """Change fields of the named tensors."""
    return lambda call: given(**{name: dataclasses.replace(getattr(call, name), **values) for name in names})(call)


def dims(**shapes: tuple[int, ...]) -> Change:
    """Change the shapes of tensors."""
    return both(*(tensors(name, dims=shape) for name, shape in shapes.items()))


def both(*changes: Change) -> Change:
    """All changes, one after the other."""
    return lambda call: reduce(lambda changed, change: change(changed), changes, call)


def code_of(api: str, call: Any, soc: str = A950) -> int:
    """Return what phase 1 answers on a product."""
    with current_device(soc) as aclnn:
        return aclnn.check(api, call)


def row(
    name: str,
    apis: tuple[str, ...],
    change: Change,
    message: str,
    socs: tuple[str, ...] = SOCS,
    *,
    code: int = INVALID,
) -> Any:
    """Return a call that is refused by these functions on these products, as parameters of a test."""
    return pytest.param(apis, change, message, socs, code, id=name)


def order(name: str, api: str, soc: str, message: str, *changes: Change) -> Any:
    """Return a call with two faults, of which the message names the one that is found first."""
    return row(name, (api,), both(*changes), message, (soc,))


def check_refused(
    call: Callable[[str], Any], apis: Sequence[str], message: str, socs: Sequence[str], code: int
) -> None:
    """Assert that a row is refused with its code, by a message that begins with the function's name."""
    for soc in socs:
        with current_device(soc) as aclnn:
            for api in apis:
                assert aclnn.check(api, call(api)) == code, (api, soc)
                text = aclnn.message() or ""
                assert text.startswith(f"{api}GetWorkspaceSize: ")
                assert message in text
                assert code != INVALID or "(161002 ACLNN_ERR_PARAM_INVALID)" in text


def check_legal(api: str, call: Any) -> None:
    """Assert that each product takes the call, without a message, and nothing does without a current device."""
    for soc in SOCS:
        with current_device(soc) as aclnn:
            assert aclnn.check(api, call) == 0, aclnn.message()
            assert aclnn.message() is None
    with initialized() as aclnn:
        assert aclnn.check(api, call) == INVALID
        assert "call aclrtSetDevice" in (aclnn.message() or "")
