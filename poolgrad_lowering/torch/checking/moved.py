# SPDX-License-Identifier: Apache-2.0

"""Tensors of a step moved by roundings, for runs of eager PyTorch that show what rounding can do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
from torch import Tensor

from poolgrad_lowering.model.ir import step_names as names
from poolgrad_lowering.torch.arrays import Arrays, to_tensor
from poolgrad_lowering.torch.checking.judgement import FACTOR, largest_finite

FURTHER_RUNS = 16
"""At most, of eager PyTorch for a step that seems wrong, with inputs moved by roundings, and as many moved farther."""


def may_move(value: np.ndarray) -> bool:
    """Whether a tensor has numbers that rounding can have made: integers may be a mask, and sums of them exact."""
    return not np.issubdtype(value.dtype, np.integer) and value.dtype != bool and bool(np.any(value != np.round(value)))


def moved(movable: Arrays, values: Collection[str], unit: float) -> Iterator[Arrays]:
    """Yield the example inputs, the weights (`values`) and both, moved towards 0 by a rounding, or two.

    Equal elements stay equal, or other maxima would be chosen. `unit` is the largest error of rounding 1.
    """
    all_moved = {
        name: (value.astype(np.float64) * (1 - 2 * unit)).astype(value.dtype) for name, value in movable.items()
    }
    yield {name: value for name, value in all_moved.items() if name not in values}
    yield {name: value for name, value in all_moved.items() if name in values}
    yield all_moved


def moved_at_random(movable: Arrays, unit: float) -> Iterator[Arrays]:
    """Yield tensors with each element moved by up to two roundings, equal ones of a tensor alike.

    What is moved all alike, such as a weight before a BatchNorm, may change nothing.
    """
    generator = np.random.default_rng(0)
    for _ in range(FURTHER_RUNS):
        found = {}
        for name, value in movable.items():
            elements, places = np.unique(value.astype(np.float64), return_inverse=True)
            elements *= 1 + generator.uniform(-2 * unit, 2 * unit, elements.size)
            found[name] = elements[places].reshape(value.shape).astype(value.dtype)
        yield found


class MovedGradients:
    """Moves the gradients that an optimizer gets, by up to what those of a step may be off.

    Args:
        eagers: results of eager PyTorch.
        exact: those in float64.
        tolerance: what a gradient may be off in any case, as a part of its largest element.
    """

    def __init__(self, eagers: Sequence[Arrays], exact: Arrays, tolerance: float) -> None:
        self._generator = np.random.default_rng(0)
        self._most = {
            name: FACTOR * max(largest_finite(each[name] - value) for each in eagers)
            + tolerance * largest_finite(value)
            for name, value in exact.items()
            if name.startswith(names.gradient(""))
        }

    def __call__(self, name: str, gradient: Tensor) -> Tensor:
        """Return the gradient of a parameter, moved."""
        most = self._most[names.gradient(name)]
        return gradient + to_tensor(self._generator.uniform(-most, most, gradient.shape)).to(gradient.dtype)
