# SPDX-License-Identifier: Apache-2.0

"""Generates data for a site's inputs: difficult cases for pools and sums, one kind per plane and run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from poolgrad_lowering.verification.arrays import AnyArray, IntArray
from poolgrad_lowering.verification.sites.cut import Role

Draw = Callable[[np.random.Generator, IntArray, "Format"], AnyArray]

_UNSIGNED = ("UINT16", "UINT32", "UINT64", "UINT8")
DRAWN = frozenset(
    map(
        TensorProto.DataType.Value,
        [
            "BFLOAT16",
            "BOOL",
            "DOUBLE",
            "FLOAT",
            "FLOAT16",
            "INT16",
            "INT32",
            "INT64",
            "INT8",
            "UINT16",
            "UINT32",
            "UINT64",
            "UINT8",
        ],
    )
)
"""The element types for which data is generated."""

NO_NAN_POOLED = "NaN in the pooled tensor"
NO_INFINITE_POOLED = "infinities in the pooled tensor"
NO_NEGATIVE_ZERO = "-0.0 in the incoming gradient"
ONLY_WHOLE = "gradients whose sums are rounded"


class Format:
    """The range of a float type: its smallest positive number, its largest, and its largest exact integers."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        smallest, largest, bits = {
            "float16": (2.0**-24, 65504.0, 11),
            "bfloat16": (2.0**-133, 2.0**127, 8),
            "float32": (2.0**-149, 2.0**127, 24),
            "float64": (5e-324, 2.0**1023, 53),
        }[dtype.name]
        self.smallest, self.largest, self.exact = smallest, largest, 2.0**bits


def _values(random: np.random.Generator, at: IntArray, _: Format) -> AnyArray:
    return random.standard_normal(at.size)


def _ties(random: np.random.Generator, at: IntArray, _: Format) -> AnyArray:
    return random.integers(0, 2, at.size) * 1.0


def _zeros(random: np.random.Generator, at: IntArray, _: Format) -> AnyArray:
    return random.choice([0.0, -0.0], at.size)


def _ramp(_random: np.random.Generator, at: IntArray, _: Format) -> AnyArray:
    return (at % 251) * 1.0


def _falling(_random: np.random.Generator, at: IntArray, _: Format) -> AnyArray:
    return -(at % 241) * 1.0


def _denormals(random: np.random.Generator, at: IntArray, limits: Format) -> AnyArray:
    return random.integers(-6, 7, at.size) * limits.smallest


def _magnitudes(random: np.random.Generator, at: IntArray, limits: Format) -> AnyArray:
    """Numbers whose sums depend on the order of their terms."""
    return random.choice([limits.exact, -limits.exact, 1.0, 3.0, 2 / limits.exact], at.size)


def _extremes(random: np.random.Generator, at: IntArray, limits: Format) -> AnyArray:
    return random.choice([np.inf, -np.inf, limits.largest, -limits.largest, 1.0, -0.0], at.size)


def _nothing(_random: np.random.Generator, at: IntArray, _: Format) -> AnyArray:
    return np.full(at.size, -np.inf)


def _nan(random: np.random.Generator, at: IntArray, _: Format) -> AnyArray:
    return np.where(random.random(at.size) < 0.2, np.nan, random.integers(-3, 4, at.size))


def _whole(random: np.random.Generator, at: IntArray, _: Format) -> AnyArray:
    whole: AnyArray = random.integers(-4, 5, at.size) * random.choice([1.0, -1.0], at.size)
    return whole


def _signs(random: np.random.Generator, at: IntArray, _: Format) -> AnyArray:
    return random.choice([1.0, -1.0, 0.0, -0.0], at.size)


POOLED: tuple[Draw, ...] = (_values, _ties, _zeros, _ramp, _falling, _denormals, _extremes, _nothing, _nan)
GRADIENT: tuple[Draw, ...] = (_values, _whole, _magnitudes, _denormals, _zeros, _extremes, _nan)
OTHER: tuple[Draw, ...] = (_values,)

KINDS = max(len(POOLED), len(GRADIENT))
"""The number of runs after which a plane has had every kind of data."""


def draw(
    random: np.random.Generator,
    shape: Sequence[int],
    element: int,
    *,
    role: Role,
    run: int,
    not_drawn: Sequence[str] = (),
) -> AnyArray:
    """Return data of element type `element` for one input. The kind depends on the plane (the first two axes) and run.

    Integers are 0 or 1, booleans False or True. Kinds in `not_drawn` are excluded.
    """
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element))
    if dtype.kind in "biu":
        return np.asarray(random.integers(0, 2, tuple(shape))).astype(dtype)
    kinds = _kinds(role, not_drawn)
    size = math.prod(shape)
    planes = math.prod(shape[:2]) if len(shape) > 2 else max(1, min(size, len(kinds)))
    at = np.arange(size, dtype=np.int64)
    kind = (at * planes // max(size, 1) + run * (planes if planes < len(kinds) else 1)) % len(kinds)
    data = np.empty(size, np.float64)
    for number, function in enumerate(kinds):
        chosen = at[kind == number]
        data[chosen] = function(random, chosen, Format(dtype))
    if role is Role.GRADIENT and NO_NEGATIVE_ZERO in not_drawn:
        data += 0.0
    with np.errstate(all="ignore"):
        return data.astype(dtype).reshape(tuple(shape))


def _kinds(role: Role, not_drawn: Sequence[str]) -> tuple[Draw, ...]:
    if role is Role.GRADIENT:
        return (_signs,) if ONLY_WHOLE in not_drawn else GRADIENT
    if role is Role.POOLED:
        left_out = {NO_NAN_POOLED: (_nan,), NO_INFINITE_POOLED: (_extremes, _nothing)}
        gone = {kind for reason in not_drawn for kind in left_out.get(reason, ())}
        return tuple(kind for kind in POOLED if kind not in gone)
    return OTHER
