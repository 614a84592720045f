# SPDX-License-Identifier: Apache-2.0

"""Comparison of tensors bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def assert_same_bits(actual: npt.NDArray[Any], expected: npt.NDArray[Any]) -> None:
    """Assert equal dtypes, shapes and bits; zeros of different sign differ.

    One NaN is as good as another: IEEE 754 leaves sign and payload of a computed NaN to the machine.
    """
    assert actual.dtype == expected.dtype, f"dtype {actual.dtype}, expected {expected.dtype}"
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    differs = _bits(actual) != _bits(expected)
    if expected.dtype.kind not in "biu":
        differs &= ~(np.isnan(actual) & np.isnan(expected))
    if not differs.any():
        return
    where = tuple(np.argwhere(differs)[0].tolist())
    raise AssertionError(
        f"{np.count_nonzero(differs)} of {differs.size} elements differ, the first at {where}: "
        f"{actual[where]!r}, expected {expected[where]!r}"
    )


def _bits(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the array's elements as unsigned integers of the same width."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)
