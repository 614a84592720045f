# SPDX-License-Identifier: Apache-2.0

"""Generates data for a site's inputs: difficult cases for pools and sums, one kind per plane and run.

Kinds for which the two sides of a site may give different bits are excluded. Each is documented in `docs/verify.md`.
For all other data the comparison is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto

from poolgrad_lowering.verification.arrays import AnyArray, IntArray
from poolgrad_lowering.verification.graph import roles
from poolgrad_lowering.verification.graph.flat import FlatNode
from poolgrad_lowering.verification.graph.types import HALVES, TensorTypes
from poolgrad_lowering.verification.sites.cut import Cut, Role

Draw = Callable[[np.random.Generator, IntArray, "Format"], AnyArray]
"""Draws the elements at the given positions, in float64, for a float type."""

DRAWN = frozenset(
    (
        *(TensorProto.BOOL, TensorProto.BFLOAT16, TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE),
        *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64),
        *(TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64),
    )
)
"""The element types for which data is generated."""

NO_NAN_POOLED = "NaN in the pooled tensor"
NO_INFINITE_POOLED = "infinities in the pooled tensor"
NO_NEGATIVE_ZERO = "-0.0 in the incoming gradient"
ONLY_WHOLE = "gradients whose sums are rounded"
ONLY_MULTIPLES = "gradients that are no multiples of their windows' divisors"
NO_INFINITE_GRADIENT = "infinities and NaN in the incoming gradient"


class Format(NamedTuple):
    """The range of a float type: its smallest positive number, its largest, and 2 to the number of its exact bits."""

    smallest: float
    largest: float
    exact: float


FORMATS = {
    "float16": Format(2.0**-24, 65504.0, 2.0**11),
    "bfloat16": Format(2.0**-133, 2.0**127, 2.0**8),
    "float32": Format(2.0**-149, 2.0**127, 2.0**24),
    "float64": Format(5e-324, 2.0**1023, 2.0**53),
}

LARGEST_QUOTIENT = 4
_QUOTIENTS = [1.0, 2.0, 4.0, -1.0, -2.0, -4.0]
"""Powers of two: their product with a divisor is exact wherever the divisor is."""

_DRAWS: dict[str, Draw] = {
    "values": lambda random, at, _: random.standard_normal(at.size),
    "ties": lambda random, at, _: random.integers(0, 2, at.size) * 1.0,
    "whole": lambda random, at, _: random.integers(-4, 5, at.size) * random.choice([1.0, -1.0], at.size),
    "signs": lambda random, at, _: random.choice([1.0, -1.0, 0.0, -0.0], at.size),
    "zeros": lambda random, at, _: random.choice([0.0, -0.0], at.size),
    "ramp": lambda _random, at, _: (at % 251) * 1.0,
    "falling": lambda _random, at, _: -(at % 241) * 1.0,
    "denormals": lambda random, at, limits: random.integers(-6, 7, at.size) * limits.smallest,
    "magnitudes": lambda random, at, limits: random.choice(
        [limits.exact, -limits.exact, 1.0, 3.0, 2 / limits.exact], at.size
    ),
    "extremes": lambda random, at, limits: random.choice(
        [np.inf, -np.inf, limits.largest, -limits.largest, 1.0, -0.0], at.size
    ),
    "nothing": lambda _random, at, _: np.full(at.size, -np.inf),
    "quotients": lambda random, at, _: random.choice(_QUOTIENTS, at.size),
    "single": lambda random, at, _: random.choice(_QUOTIENTS, at.size) * (random.random(at.size) < 0.1),
    "small": lambda random, at, limits: random.choice(_QUOTIENTS, at.size) * limits.smallest,
    "unbounded": lambda random, at, _: random.choice([np.inf, -np.inf, 0.0, 1.0, 2.0], at.size),
    "unknown": lambda random, at, _: np.where(random.random(at.size) < 0.1, np.nan, random.choice(_QUOTIENTS, at.size)),
    "nan": lambda random, at, _: np.where(random.random(at.size) < 0.2, np.nan, random.integers(-3, 4, at.size)),
}
"""The kinds of data by name; sums of magnitudes depend on the order of their terms."""

POOLED = ("values", "ties", "zeros", "ramp", "falling", "denormals", "extremes", "nothing", "nan")
GRADIENT = ("values", "whole", "magnitudes", "denormals", "zeros", "extremes", "nan")
AVERAGED = ("quotients", "single", "small", "unbounded", "unknown")
_NOT_FINITE = {"unbounded", "unknown"}
_LEFT_OUT = {NO_NAN_POOLED: {"nan"}, NO_INFINITE_POOLED: {"extremes", "nothing"}}


class Divisors(NamedTuple):
    """The divisor of each element of an incoming gradient, and the plane (n, c) that it belongs to in the operator.

    `most` is the largest sum of an element of dx, in the largest multiple that is drawn: without other operators that
    read the same gradient, the most windows that contain an element of x.
    """

    of_elements: AnyArray
    planes: AnyArray
    most: int

    def joined(self, other: Divisors) -> Divisors:
        """Return the divisors for two operators that read the same gradient: a multiple of those of both."""
        one, two = self.of_elements, other.of_elements
        elements = one * two
        if all((each >= 1).all() and (each == np.floor(each)).all() for each in (one, two)):
            elements = np.lcm(one.astype(np.int64), two.astype(np.int64)).astype(np.float64)
        sums = (each.most * float((elements / each.of_elements).max(initial=1)) for each in (self, other))
        return Divisors(elements, self.planes, int(max(sums)))


def draw(
    random: np.random.Generator,
    shape: Sequence[int],
    element: int,
    *,
    role: Role,
    run: int,
    not_drawn: Sequence[str] = (),
    divided: Divisors | None = None,
) -> AnyArray:
    """Return data of element type `element` for one input. The kind depends on the plane and run.

    Integers are 0 or 1, booleans False or True. Kinds in `not_drawn` are excluded. `divided` has what the gradient of
    an average pool divides each element by: the elements are multiples. Without it, the first two axes are the planes.
    """
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element))
    if dtype.kind in "biu":
        return np.asarray(random.integers(0, 2, tuple(shape))).astype(dtype)
    kinds = _kinds(role, not_drawn)
    size = math.prod(shape)
    planes = math.prod(shape[:2]) if len(shape) > 2 else max(1, min(size, len(kinds)))
    at = np.arange(size, dtype=np.int64)
    plane = at * planes // max(size, 1)
    if divided is not None:
        plane, planes = divided.planes.reshape(-1), int(divided.planes.max(initial=0)) + 1
    kind = (plane + run * (planes if planes < len(kinds) else 1)) % len(kinds)
    data = np.empty(size, np.float64)
    for number, name in enumerate(kinds):
        chosen = at[kind == number]
        data[chosen] = _DRAWS[name](random, chosen, FORMATS[dtype.name])
    if role is Role.GRADIENT and ONLY_MULTIPLES in not_drawn:
        data *= 1.0 if divided is None else divided.of_elements.reshape(-1)
    if role is Role.GRADIENT and {ONLY_MULTIPLES, NO_NEGATIVE_ZERO}.intersection(not_drawn):
        data += 0.0
    with np.errstate(all="ignore"):
        return data.astype(dtype).reshape(tuple(shape))


def _kinds(role: Role, not_drawn: Sequence[str]) -> tuple[str, ...]:
    if role is Role.GRADIENT and ONLY_MULTIPLES in not_drawn:
        return tuple(kind for kind in AVERAGED if NO_INFINITE_GRADIENT not in not_drawn or kind not in _NOT_FINITE)
    if role is Role.GRADIENT:
        return ("signs",) if ONLY_WHOLE in not_drawn else GRADIENT
    if role is Role.POOLED:
        gone = {kind for reason in not_drawn for kind in _LEFT_OUT.get(reason, ())}
        return tuple(kind for kind in POOLED if kind not in gone)
    return ("values",)


_MULTIPLYING = {("", name) for name in ("Conv", "ConvTranspose", "Einsum", "Gemm", "MatMul", "Mul")}
"""Operators that multiply, maybe by 0, which gives NaN for an infinity."""


def excluded_data(cut: Cut, types: TensorTypes, *, on_provider: bool) -> tuple[str, ...]:
    """Return the kinds of data that are excluded for this site."""
    averages = any(roles.is_dialect_gradient(node) and roles.is_average_gradient(node) for node in cut.region.added)
    reasons = {
        NO_NAN_POOLED: on_provider or any(map(_is_framework_pool, cut.region.removed)),
        NO_INFINITE_POOLED: on_provider or _is_decomposed(cut),
        NO_NEGATIVE_ZERO: any(map(roles.overwrites, cut.region.removed)),
        ONLY_MULTIPLES: averages,
        NO_INFINITE_GRADIENT: averages and any(node.op in _MULTIPLYING for node in cut.region.removed),
        ONLY_WHOLE: any(_adds_in_halves(node, types) for node in cut.region.removed),
    }
    return tuple(kind for kind, left_out in reasons.items() if left_out)


def _is_decomposed(cut: Cut) -> bool:
    """Whether the pool is an ArgMax over elements and −inf padding, which it can select if all elements are −inf."""
    op_types = {node.op[1] for node in cut.original}
    return "ArgMax" in op_types and not op_types.isdisjoint({"Pad", "Where"})


def _is_framework_pool(node: FlatNode) -> bool:
    """Whether the node pools as PyTorch or TensorFlow do, which treat NaN differently from ONNX."""
    if roles.is_average_gradient(node):
        return False
    return roles.is_tensorflow_gradient(node) or (roles.pooled(node) is not None and node.op != ("", "MaxPool"))


def _adds_in_halves(node: FlatNode, types: TensorTypes) -> bool:
    if node.op not in (("", "ScatterElements"), ("", "ScatterND")) or roles.overwrites(node):
        return False
    known = [types[value].element for value in (*node.outputs, *node.inputs) if value in types]
    return any(element in HALVES for element in known)
