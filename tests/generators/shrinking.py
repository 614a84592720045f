# SPDX-License-Identifier: Apache-2.0

"""Bounds how long hypothesis makes a failing example smaller, for which it has no setting."""

from __future__ import annotations

from hypothesis.internal.conjecture import engine

SECONDS = 20


def bound_shrinking(seconds: float = SECONDS) -> None:
    """Let each failing test shrink its example for so long, in place of five minutes."""
    assert hasattr(engine, "MAX_SHRINKING_SECONDS"), "hypothesis has another name for the bound of shrinking"
    engine.MAX_SHRINKING_SECONDS = seconds  # type: ignore[misc, assignment]
