# SPDX-License-Identifier: Apache-2.0

"""Data for the self-test: the same in every run, and exact in the element types that it is used for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poolgrad_lowering.runtime.self_test.cases import ElementType
from poolgrad_lowering.runtime.self_test.reference import Array

_SEED = 20


def ties(shape: Sequence[int]) -> Array:
    """Return few distinct integers, so that windows have equal maxima."""
    numbers = _random().integers(-3, 4, shape)
    return numbers.astype(np.float32)


def special(shape: Sequence[int]) -> Array:
    """Return `ties` mixed with NaN and −inf."""
    x, drawn = ties(shape), _random().random(tuple(shape))
    x[drawn < 0.15] = np.nan
    x[drawn > 0.6] = -np.inf
    return x


def whole(shape: Sequence[int]) -> Array:
    """Return small integers except zero: their sums are exact in every element type and order."""
    rng = _random()
    numbers = rng.integers(1, 4, shape) * rng.choice([-1, 1], tuple(shape))
    return np.asarray(numbers, np.float32)


def spread(shape: Sequence[int], element: ElementType) -> Array:
    """Return numbers of seven bits with different magnitudes, so that sums are rounded and depend on the order."""
    rng = _random()
    fractions = rng.integers(64, 128, shape) * rng.choice([-1, 1], tuple(shape)) / 64
    exponents = rng.integers(-element.exponent, element.exponent + 1, shape)
    numbers: Array = np.ldexp(fractions, exponents).astype(np.float32)
    return numbers


def _random() -> np.random.Generator:
    return np.random.default_rng(_SEED)
