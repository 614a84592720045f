# SPDX-License-Identifier: Apache-2.0

"""How far two sums of the same terms of an average pool's gradient can be apart, if they are not computed exactly.

A term is an element of the gradient over its divisor, or times the rounded reciprocal of the divisor: it has a relative
error of at most 2u, where u is half the distance of 1 to the next number of the type. A sum of n such terms, in any
order, has an error of at most (n + 1)·u·S, where S is the sum of their absolutes. Two of them are apart by at most
twice as much, (n + 1)·ε·S.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

import numpy as np
from onnx import numpy_helper

from poolgrad_lowering.verification.arrays import AnyArray
from poolgrad_lowering.verification.graph.protos import constant_tensor
from poolgrad_lowering.verification.running.averages import Divisors
from poolgrad_lowering.verification.running.data import FORMATS, LARGEST_QUOTIENT
from poolgrad_lowering.verification.running.evaluator import Runner
from poolgrad_lowering.verification.sites.cut import Cut, Role


def multiplies_by_fractions(cut: Cut) -> bool:
    """Whether the original has a constant that is no whole number: it may multiply by a reciprocal."""
    made = (constant_tensor(node.proto) for node in cut.original)
    stored = (cut.constants[value] for node in cut.original for value in node.inputs if value in cut.constants)
    arrays = (numpy_helper.to_array(tensor) for tensor in chain(filter(None, made), stored))
    return any(bool((array != np.floor(array)).any()) for array in arrays if array.dtype.kind not in "biuOU")


def are_exact(cut: Cut, divided: Mapping[str, Divisors], feeds: Mapping[str, AnyArray]) -> bool:
    """Whether all products of divisors and quotients, and all sums of quotients, are numbers of the type."""
    for value, role in cut.inputs.items():
        if role is not Role.GRADIENT:
            continue
        found, dtype = divided.get(value), feeds[value].dtype
        if found is None or found.most * LARGEST_QUOTIENT > FORMATS[dtype.name].exact:
            return False
        if (found.of_elements.astype(dtype) != found.of_elements).any():
            return False
        if found.of_elements.max(initial=0) * LARGEST_QUOTIENT > FORMATS[dtype.name].largest:
            return False
    return True


def rounding_bounds(
    original: Runner, cut: Cut, divided: Mapping[str, Divisors], feeds: Mapping[str, AnyArray]
) -> dict[str, AnyArray]:
    """Return how far each element of the results can be apart, by running the original on absolutes and divisors.

    The original is linear in its gradients. The divisors give the number n of terms of each element.
    """
    gradients = [value for value, role in cut.inputs.items() if role is Role.GRADIENT]
    if any(value not in divided for value in gradients):
        return {}
    absolutes = {value: np.abs(feeds[value]) for value in gradients}
    counting = {value: divided[value].of_elements.astype(feeds[value].dtype) for value in gradients}
    sums, numbers = original({**feeds, **absolutes}), original({**feeds, **counting})
    return {
        name: (np.ceil(numbers[name].astype(np.float64)) + 1)
        * (2 / FORMATS[array.dtype.name].exact)
        * array.astype(np.float64)
        for name, array in sums.items()
        if array.dtype.name in FORMATS
    }
