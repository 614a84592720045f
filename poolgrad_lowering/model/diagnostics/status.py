# SPDX-License-Identifier: Apache-2.0

"""The status of an anchor after a lowering."""

from __future__ import annotations

from enum import Enum


class Status(str, Enum):
    """What became of an anchor, in the order in which people read anchors. The values are part of the report.

    An unrelated anchor is proven to be no gradient of a pool; it has a code, and does not count as refused.
    """

    LOWERED = "lowered"
    REFUSED = "refused"
    UNRELATED = "unrelated"


def reading_order(status: str) -> int:
    """Sort key of a status: its position in `Status`."""
    return list(Status).index(Status(status))
