# SPDX-License-Identifier: Apache-2.0

"""The runs into which nodes that are elsewhere divide an order of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def count_runs(order: Iterable[int], is_elsewhere: Sequence[bool]) -> int:
    """Return the number of runs of nodes that are not elsewhere."""
    count, was_elsewhere = 0, True
    for position in order:
        count += was_elsewhere and not is_elsewhere[position]
        was_elsewhere = is_elsewhere[position]
    return count
