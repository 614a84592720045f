# SPDX-License-Identifier: Apache-2.0

"""Windows that are legalized for aclnn contain the original windows, by enumeration."""

from __future__ import annotations

import itertools

import pytest

from poolgrad_lowering.dialect.aclnn_windows import AclnnWindow, has_empty_window
from poolgrad_lowering.model.windows import AxisWindow
from tests.window_facts import Axis, aclnn_count, axes


def window_of(axis: Axis) -> AxisWindow:
    return AxisWindow(axis.kernel, axis.stride, axis.begin, axis.end, axis.dilation)


@pytest.mark.parametrize("ceil", [False, True])
def test_aclnn_counts(ceil: bool) -> None:
    for size, kernel, stride, pad in itertools.product(range(1, 14), range(1, 6), range(1, 5), range(3)):
        window = AclnnWindow(kernel, stride, pad)
        assert window.output_size(size, ceil=ceil) == aclnn_count(size, kernel, stride, pad, ceil=ceil)
        shifted = AclnnWindow(kernel, stride, pad, before=2, after=1)
        assert shifted.output_size(size, ceil=ceil) == aclnn_count(size + 3, kernel, stride, pad, ceil=ceil)


@pytest.mark.parametrize("size", range(1, 14))
def test_empty_windows(size: int) -> None:
    for axis in axes():
        taps = axis.taps(size)
        if taps:
            assert has_empty_window(window_of(axis), size, len(taps)) == (not all(taps)), (axis, size)


def test_a_huge_pool_is_checked_at_once() -> None:
    """The work does not grow with any number of the model."""
    huge = 2**60
    assert not has_empty_window(AxisWindow(3, 1, 1, 1, 1), huge, huge)
    assert not has_empty_window(AxisWindow(huge, 1, huge - 1, 0, 1), 10, huge)
    assert has_empty_window(AxisWindow(huge, 1, huge, 0, 1), 10, huge)
    assert has_empty_window(AxisWindow(2, 1, huge - 1, 0, huge), 10, huge)
    assert not has_empty_window(AxisWindow(huge, 20, huge // 20 * 20, 0, 20), 10, 10**6)
    assert not has_empty_window(AxisWindow(2, 2**30, 1, 0, 2**30), 2 * huge, 2**30)


@pytest.mark.parametrize(
    ("window", "legal"),
    [
        (AclnnWindow(1, 1, 0), True),
        (AclnnWindow(2, 1, 1), True),
        (AclnnWindow(3, 1, 1), True),
        (AclnnWindow(3, 1, 2), False),
        (AclnnWindow(0, 1, 0), False),
        (AclnnWindow(2, 0, 0), False),
        (AclnnWindow(2, 1, -1), False),
    ],
)
def test_legal_windows(window: AclnnWindow, legal: bool) -> None:
    assert window.is_legal() is legal
