# SPDX-License-Identifier: Apache-2.0

"""Gradients of average pools with the arithmetic of Ascend's operators: float32 terms, summed window by window."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.oracles.pooling import Array

Term = Callable[[Array, float], Array]
"""The term of a window from its gradients in float32 and its divisor."""


@dataclass(frozen=True)
class Span:
    """A window along an axis: its elements of x, and the number of elements that it counts."""

    begin: int
    end: int
    count: int


def windowed_spans(size: int, count: int, kernel: int, stride: int, pad: int, *, counts_padding: bool) -> list[Span]:
    """Return the windows along an axis; with `counts_padding` a window counts its elements in the padding too."""
    spans = []
    for start in (window * stride - pad for window in range(count)):
        begin, end = max(start, 0), min(start + kernel, size)
        counted = min(start + kernel, size + pad) - start if counts_padding else end - begin
        spans.append(Span(begin, end, counted))
    return spans


def adaptive_spans(size: int, count: int) -> list[Span]:
    """Return the windows of an adaptive pool along an axis."""
    bounds = [(window * size // count, -(-(window + 1) * size // count)) for window in range(count)]
    return [Span(begin, end, end - begin) for begin, end in bounds]


def divided(grads: Array, divisor: float) -> Array:
    """g / d in float32."""
    return grads / np.float32(divisor)


def multiplied(grads: Array, divisor: float) -> Array:
    """g · (1 / d) in float32, with the reciprocal rounded."""
    return grads * (np.float32(1) / np.float32(divisor))


def rounded_operand(term: Term, dtype: np.dtype[Any]) -> Term:
    """Return the term with d, or 1 / d, rounded to a type first."""

    def of_rounded(grads: Array, divisor: float) -> Array:
        if term is divided:
            return grads / np.float32(divisor).astype(dtype).astype(np.float32)
        return grads * (np.float32(1) / np.float32(divisor)).astype(dtype).astype(np.float32)

    return of_rounded


def average_gradient(  # noqa: PLR0917 - a gradient and its windows
    grad: Array,
    x_shape: Sequence[int],
    spans: Sequence[Sequence[Span]],
    divisor: int,
    term: Term,
    reverse: bool = False,
    rows_first: bool = False,
) -> Array:
    """Sum the terms of all windows in float32, in row-major order or another; round once to grad's type.

    Args:
        grad: [N, C, *windows].
        x_shape: (N, C, *axes).
        spans: the windows along each axis.
        divisor: of all windows; 0: the product of the window's counts.
        term: g and d to the term.
        reverse: from the last window to the first.
        rows_first: first the terms of each row of windows, along the last axis, then these sums.
    """
    wide = grad.astype(np.float32)
    sums = np.zeros(tuple(x_shape), np.float32)
    windows = list(itertools.product(*(range(len(axis)) for axis in spans)))
    length = len(spans[-1]) if rows_first else 1
    rows = [windows[begin : begin + length] for begin in range(0, len(windows), length)]
    for row in reversed(rows) if reverse else rows:
        sums_of_row = np.zeros_like(sums) if rows_first else sums
        for window in row:
            chosen = [axis[number] for axis, number in zip(spans, window, strict=True)]
            at: Any = (..., *window)
            terms = term(wide[at], divisor or math.prod(span.count for span in chosen))
            place: Any = (..., *(slice(span.begin, span.end) for span in chosen))
            sums_of_row[place] += terms.reshape(*terms.shape, *[1] * len(chosen))
        if rows_first:
            sums += sums_of_row
    with np.errstate(over="ignore"):
        return sums.astype(grad.dtype)
