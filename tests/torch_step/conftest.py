# SPDX-License-Identifier: Apache-2.0

"""Gives every test the same random numbers, whatever ran before it."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
