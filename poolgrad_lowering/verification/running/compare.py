# SPDX-License-Identifier: Apache-2.0

"""Compares two tensors bit for bit; all NaNs are equal, because their bits depend on the machine."""

from __future__ import annotations

import numpy as np

from poolgrad_lowering.verification.arrays import AnyArray
from poolgrad_lowering.verification.result import Mismatch


def compare(expected: AnyArray, found: AnyArray, *, run: int, output: str) -> Mismatch | None:
    """Return the first element that differs, with the largest distance of floats in ulp, or None."""
    expected, found = np.asarray(expected), np.asarray(found)
    if expected.dtype != found.dtype:
        return Mismatch(run, output, f"the type is {found.dtype}, expected {expected.dtype}")
    if expected.shape != found.shape:
        return Mismatch(run, output, f"the shape is {found.shape}, expected {expected.shape}")
    one, other = _bits(expected), _bits(found)
    differs = np.asarray(one != other)
    floats = expected.dtype.kind not in "biu"
    nan = np.zeros(differs.shape, np.bool_)
    if floats:
        nan = np.isnan(expected) | np.isnan(found)
        differs &= ~(np.isnan(expected) & np.isnan(found))
    count = int(np.count_nonzero(differs))
    if not count:
        return None
    index = tuple(int(place) for place in np.argwhere(differs)[0])
    return Mismatch(
        run,
        output,
        f"{count} of {differs.size} elements differ",
        index,
        str(expected[index]),
        str(found[index]),
        _max_ulp(one[differs], other[differs]) if floats and not (nan & differs).any() else None,
    )


def _bits(array: AnyArray) -> AnyArray:
    """Return the elements as unsigned integers of the same width."""
    return np.ascontiguousarray(array).reshape(-1).view(f"u{array.dtype.itemsize}").reshape(array.shape)


def _max_ulp(one: AnyArray, other: AnyArray) -> int:
    """Return the largest distance of two elements, counted in floats; -0.0 and 0.0 have distance 1."""
    half = 1 << (8 * one.dtype.itemsize - 1)
    steps = []
    for bits in (one, other):
        wide = bits.astype(object) if one.dtype.itemsize == 8 else bits.astype(np.int64)
        steps.append(np.where(bits >= half, half - 1 - wide, wide))
    return int(np.abs(steps[0] - steps[1]).max())
