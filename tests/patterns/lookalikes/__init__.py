# SPDX-License-Identifier: Apache-2.0

"""Graphs that are, or only look like, max-pool gradients, built by code: the near misses of every pattern."""

from __future__ import annotations

from tests.patterns.lookalikes.row import Lookalike, Window
from tests.patterns.lookalikes.table import LOOKALIKES

__all__ = ["LOOKALIKES", "Lookalike", "Window"]
