# SPDX-License-Identifier: Apache-2.0

"""Windows that are legalized for aclnn contain the original windows, by enumeration."""

from __future__ import annotations

import pytest

from poolgrad_lowering.dialect.aclnn_windows import AclnnWindow, has_empty_window
from poolgrad_lowering.model.windows import AxisWindow


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
