# SPDX-License-Identifier: Apache-2.0

"""Compares two tensors bit for bit, or up to a bound; all NaNs are equal: their bits depend on the machine."""

from __future__ import annotations

import numpy as np

from poolgrad_lowering.verification.arrays import AnyArray
from poolgrad_lowering.verification.result import Mismatch

EXACT, _TEXTS = "biuOSU", "OSU"
"""The kinds of element types, in numpy's letters, that are no floats, and of these the texts."""
ERRORS = {"float64": 1e-10, "float32": 2e-5, "float16": 1e-2, "bfloat16": 8e-2}
"""The largest difference of two results, relative to the largest element.

Sums are added up in other orders: those of n terms differ by about √n units in the last place. These are some hundred
units, for sums of 10,000 terms; a half is also rounded in between by one of the two.
"""


def compare(
    expected: AnyArray, found: AnyArray, *, run: int, output: str, bound: AnyArray | None = None
) -> Mismatch | None:
    """Return the first element that differs, with the largest distance of floats in ulp, or None.

    `bound` has the largest distance of two elements that are finite.
    """
    expected, found = np.asarray(expected), np.asarray(found)
    if expected.dtype != found.dtype:
        return Mismatch(run, output, f"the type is {found.dtype}, expected {expected.dtype}")
    if expected.shape != found.shape:
        return Mismatch(run, output, f"the shape is {found.shape}, expected {expected.shape}")
    one, other = _bits(expected), _bits(found)
    differs = np.asarray(one != other)
    if not differs.any():
        return None
    floats = expected.dtype.kind not in EXACT
    nan = np.zeros(differs.shape, np.bool_)
    if floats:
        nan = np.isnan(expected) | np.isnan(found)
        differs &= ~(np.isnan(expected) & np.isnan(found))
    if bound is not None:
        distance = np.abs(expected.astype(np.float64) - found.astype(np.float64))
        differs &= ~(np.isfinite(distance) & np.isfinite(bound) & (distance <= bound))
    count = int(np.count_nonzero(differs))
    if not count:
        return None
    index = tuple(int(place) for place in np.argwhere(differs)[0])
    what, first = f"{count} of {differs.size} elements differ", (str(expected[index]), str(found[index]))
    ulp = _max_ulp(one[differs], other[differs]) if floats and not (nan & differs).any() else None
    return Mismatch(run, output, what, index, *first, ulp)


def _bits(array: AnyArray) -> AnyArray:
    """Return the elements as unsigned integers of the same width, texts as they are."""
    if array.dtype.kind in _TEXTS:
        return array
    return np.ascontiguousarray(array).reshape(-1).view(f"u{array.dtype.itemsize}").reshape(array.shape)


def _max_ulp(one: AnyArray, other: AnyArray) -> int:
    """Return the largest distance of two elements, counted in floats; -0.0 and 0.0 have distance 1."""
    half = 1 << (8 * one.dtype.itemsize - 1)
    steps = []
    for bits in (one, other):
        wide = bits.astype(object) if one.dtype.itemsize == 8 else bits.astype(np.int64)
        steps.append(np.where(bits >= half, half - 1 - wide, wide))
    return int(np.abs(steps[0] - steps[1]).max())


def relative_error(before: AnyArray, after: AnyArray, scale: AnyArray) -> float:
    """Return the largest difference of two arrays, relative to the largest element of `scale`.

    NaNs and infinities have to be in the same places, and texts the same.
    """
    if after.shape != before.shape or after.dtype != before.dtype:
        return float("inf")
    if before.dtype.kind in _TEXTS:
        return 0.0 if np.array_equal(before, after) else float("inf")
    one, other = before.astype(np.float64), after.astype(np.float64)
    odd = ~np.isfinite(one) | ~np.isfinite(other)
    if not np.array_equal(one[odd], other[odd], equal_nan=True):
        return float("inf")
    return float(np.abs(one[~odd] - other[~odd]).max(initial=0)) / (largest(scale) or 1.0)


def largest(array: AnyArray) -> float:
    """Return the largest absolute of the finite floats of an array, 0 if there are none."""
    wide = np.abs(np.asarray(array, np.float64)) if array.dtype.kind not in EXACT else np.zeros(0)
    return float(wide[np.isfinite(wide)].max(initial=0))
