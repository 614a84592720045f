# SPDX-License-Identifier: Apache-2.0

"""Each name has the positions of the nodes that consume it, in order."""

from __future__ import annotations

import pytest

from poolgrad_lowering.model.ir.scopes import UseLists


def test_no_uses() -> None:
    assert UseLists().of("a") == []


@pytest.mark.parametrize("name", ["a", "b", "", "nobody"])
def test_positions_in_order(name: str) -> None:
    names = ["a", "b", "", "a", "a", "b", ""]
    positions = [0, 0, 1, 1, 1, 7, -1]
    expected = [position for other, position in zip(names, positions, strict=True) if other == name]
    assert UseLists(names, positions).of(name) == expected
