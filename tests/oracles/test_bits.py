# SPDX-License-Identifier: Apache-2.0

"""The comparison of bits must be able to fail."""

from __future__ import annotations

import numpy as np
import pytest

from tests.oracles import assert_same_bits


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (np.float32(0.0), np.float32(-0.0)),
        (np.float32(1), np.float64(1)),
        (np.ones((1, 2)), np.ones((2, 1))),
        (np.array([1.0, np.nan]), np.array([1.0, 2.0])),
        (np.float16(1), np.nextafter(np.float16(1), np.float16(2))),
        (np.int64(1), np.int64(2)),
        (np.bool_(True), np.bool_(False)),
    ],
)
def test_difference(actual: np.generic, expected: np.generic) -> None:
    with pytest.raises(AssertionError):
        assert_same_bits(np.asarray(actual), np.asarray(expected))


def test_equal() -> None:
    negative_nan = np.array([0xFFC00001], np.uint32).view(np.float32)
    assert_same_bits(negative_nan, np.array([np.nan], np.float32))
    assert_same_bits(np.array([], np.float32), np.array([], np.float32))


def test_bfloat16() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    one = np.ones(2, ml_dtypes.bfloat16)
    assert_same_bits(one, one.copy())
    with pytest.raises(AssertionError, match="1 of 2 elements differ"):
        assert_same_bits(one, np.array([1, -1], ml_dtypes.bfloat16))
