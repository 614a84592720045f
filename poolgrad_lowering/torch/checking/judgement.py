# SPDX-License-Identifier: Apache-2.0

"""How far a result of a step is off the exact one, and how far it may be.

Rounding decides what a difference of large terms gives: the gradient of a bias before a BatchNorm is 0, and both steps
find some other small number. So a step may have the error that eager PyTorch itself has, in its own type against
float64. How large that is depends on chance, above all in tensors of few elements. It is therefore the largest
of several runs: in some, the weights or the example inputs are moved by a rounding.

Where a ReLU's operand is near 0, or two elements of a max pool's window are near each other, rounding decides where a
gradient goes; where a gradient is near 0, it decides where Adam moves a weight. How far off such an element is says
nothing of how near to 0 it was. A step that seems wrong is therefore compared with more runs, in which everything is
moved as far as a step may be off, so that some elements go the other way: these elements may be off in the step too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from poolgrad_lowering.model.ir import step_names as names
from poolgrad_lowering.torch.arrays import Arrays

FACTOR = 8
"""The error of a step may be this many times the error of eager PyTorch: its sums are in another order, and it has
another number of roundings."""

LEAST_NORMAL = 2.0**-126
"""The least normal number of float32: processors may make 0 of what is less."""

MARGIN = 2
"""An element of a step may be off this many times what it is in one of the runs that are moved farther: these are a
sample of all that may happen."""

Judgement = tuple[float, float]
"""How far a result is off the exact one, and how far it may be, as parts of the largest element."""


def judged(
    results: Arrays,
    eagers: list[Arrays],
    further: Iterator[tuple[Arrays, Arrays]],
    exact: Arrays,
    *,
    starts: Arrays,
    tolerance: float,
) -> dict[str, Judgement]:
    """Return the judgement of each output by name; of those that seem wrong, with further results of eager PyTorch.

    `further` are pairs, of which the second result is moved farther. `starts` are the values at which outputs begin,
    where that is not 0. A gradient of zeros, in which other terms cancel, may be off by a part of the largest gradient.
    """
    found: dict[str, Judgement] = {}
    gradients = {name for name in exact if name.startswith(names.gradient(""))}
    noise = tolerance * max((largest_finite(exact[name]) for name in gradients), default=0.0)
    left, farther = results.keys() & exact.keys(), list[Arrays]()
    while left:
        for name in left:
            own, moved = ([eager[name] for eager in runs] for runs in (eagers, farther))
            start = starts.get(name, np.zeros(()))
            found[name] = judged_output(results[name], own, exact[name], start, tolerance, moved)
            if name in gradients and not any(map(np.any, (exact[name], *own))):
                error, allowed = found[name]
                found[name] = error, allowed + noise
        left = {name for name in left if not part(*found[name]) <= 1}
        pair = next(further, None) if left else None
        if pair is None:
            break
        eagers.append(pair[0])
        farther.append(pair[1])
    return found


def judged_output(
    result: np.ndarray,
    eagers: Sequence[np.ndarray],
    exact: np.ndarray,
    start: np.ndarray,
    tolerance: float,
    farther: Sequence[np.ndarray] = (),
) -> Judgement:
    """Return the judgement of one output.

    `eagers` are the results of eager PyTorch, of the same inputs and of moved ones. What begins at `start` may be off
    by a part of its change. An element with the bits of eager PyTorch, a NaN too, is right, and one that is not farther
    off than `MARGIN` times what it is in one of `farther`, the results of inputs that are moved farther.
    """
    result, exact, start, *eagers = (value.astype(np.float64) for value in (result, exact, start, *eagers))
    own = eagers[0]
    with np.errstate(all="ignore"):  # infinities and NaN are elements like others
        truth = np.where(np.isfinite(exact), exact, own)
        apart = np.abs(result - truth)
        right = (result == own) | (np.isnan(result) & np.isnan(own))
        for each in farther:
            right |= apart <= MARGIN * np.abs(each - truth)
        error = _largest(np.where(right, 0, apart))
        eager_error = max(largest_finite(each - truth) for each in eagers)
        largest, change = largest_finite(truth) or 1.0, largest_finite(truth - start)
        factor = FACTOR if eager_error <= change else FACTOR**2  # no digit is right: a square of noise
        allowed = factor * eager_error + tolerance * change + LEAST_NORMAL
    return error / largest, allowed / largest


def is_near(result: np.ndarray, own: np.ndarray, start: np.ndarray, tolerance: float) -> bool:
    """Whether a result is off that of eager PyTorch by a part of its change at most, and has the same NaN."""
    result, own, start = (value.astype(np.float64) for value in (result, own, start))
    with np.errstate(all="ignore"):
        apart = np.where((result == own) | (np.isnan(result) & np.isnan(own)), 0, np.abs(result - own))
        change = largest_finite(own - start)
    return change > 0 and _largest(apart) <= tolerance * change


def part(error: float, allowed: float) -> float:
    """Return an error as a part of what is allowed; infinite for a NaN."""
    return 0.0 if error == 0 else float(np.nan_to_num(np.divide(error, allowed), nan=np.inf))


def largest_finite(value: np.ndarray) -> float:
    """Return the largest absolute value of the finite elements; 0 if there is none."""
    return _largest(np.where(np.isfinite(value), value, 0))


def _largest(value: np.ndarray) -> float:
    return float(np.abs(value).max(initial=0))
