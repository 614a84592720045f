# SPDX-License-Identifier: Apache-2.0

"""Contrast as WCAG 2 defines it."""

from __future__ import annotations

from collections.abc import Sequence

TEXT, CONTROL = 4.5, 3.0
"""The smallest contrasts (AA) of text (1.4.3), and of the borders of controls and parts of drawings (1.4.11)."""


def luminance(colour: Sequence[int]) -> float:
    """The relative luminance of a colour, red, green and blue from 0 to 255."""
    parts = [part / 255 for part in colour]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: Sequence[int], second: Sequence[int]) -> float:
    """The contrast of two colours, from 1 to 21."""
    dark, light = sorted((luminance(first), luminance(second)))
    return (light + 0.05) / (dark + 0.05)
