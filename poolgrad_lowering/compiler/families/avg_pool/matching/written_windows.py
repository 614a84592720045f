# SPDX-License-Identifier: Apache-2.0

"""The windows and divisors of an average pool, by what is added to which elements and by what it is divided."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np

from poolgrad_lowering.compiler.families.avg_pool.counting import elements
from poolgrad_lowering.compiler.families.avg_pool.gradient import AveragePoolGradient
from poolgrad_lowering.compiler.families.avg_pool.matching.division import Quotient, Scale
from poolgrad_lowering.compiler.families.avg_pool.matching.planes import written_gradient
from poolgrad_lowering.compiler.families.avg_pool.matching.spread import Spread
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.scopes import Value
from poolgrad_lowering.model.windows import AxisWindow, PoolAttributes

Stage = tuple[Spread, list[Value]]
"""Sums, and the values that have them."""


def stages(results: Iterable[tuple[Value, Spread]]) -> list[Stage]:
    """Return the stages of a result, from what is cut most to what is not cut."""
    grouped = groupby(results, itemgetter(1))
    return [(made, [value for value, _ in pairs]) for made, pairs in grouped][::-1]


def average(facts: Facts, found: Sequence[Stage], divided: Sequence[Quotient]) -> AveragePoolGradient | None:
    """Return the gradient of the first stage that is divided by the numbers of elements of its windows, else None."""
    for made, values in found:
        pool = pool_of(made)
        for quotient in divided if pool is not None else ():
            padded = None if pool is None else _counted(pool, made, quotient.scale.then(made.scale))
            if pool is not None and padded is not None:
                sizes = made.counts, made.sizes
                gradient = written_gradient(facts, quotient.dividends, values, sizes, pool, padded=padded)
                if gradient is not None:
                    return gradient
    return None


def pool_of(made: Spread) -> PoolAttributes | None:
    """Return the windows as an ONNX pool: PyTorch's, whose pads are equal at both ends, or with an end that fits.

    None if they are more or fewer than a pool has.
    """
    rows = list(zip(made.kernel, made.strides, made.begins, made.sizes, made.counts, strict=True))
    fitting = tuple(max((count - 1) * stride + kernel - begin - size, 0) for kernel, stride, begin, size, count in rows)
    for ends, ceil in ((made.begins, False), (made.begins, True), (fitting, False)):
        windows = [AxisWindow(*row[:3], end, 1) for row, end in zip(rows, ends, strict=True)]
        counts = [window.output_size(size, ceil=ceil) for window, size in zip(windows, made.sizes, strict=True)]
        behind = (window.starts_behind(row[4] - 1, row[3]) for window, row in zip(windows, rows, strict=True))
        if tuple(counts) == made.counts and not any(behind):
            return PoolAttributes.of(windows, ceil=ceil)
    return None


def one_divisor(made: Spread, scale: Scale) -> int | None:
    """Return the integer that all elements are divided by, or None."""
    first = scale.first
    if not np.isfinite(first) or round(first) < 1:
        return None
    return round(first) if scale.is_division_by(np.full(made.counts, float(round(first)))) else None


def _counted(pool: PoolAttributes, made: Spread, scale: Scale) -> bool | None:
    """Whether each element is divided by those of its window, the padding's too (True) or without them (False).

    None if by anything else.
    """
    rows = zip(made.kernel, made.strides, pool.begins, pool.ends, made.sizes, made.counts, strict=True)
    axes = [
        (AxisWindow(kernel, stride, begin, end, 1), size, count) for kernel, stride, begin, end, size, count in rows
    ]
    for padded in (False, True):
        counts = functools.reduce(np.multiply.outer, [np.array(elements(*axis, padded=padded)) for axis in axes])
        if scale.is_division_by(counts):
            return padded
    return None
