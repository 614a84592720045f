# SPDX-License-Identifier: Apache-2.0

"""The tables of the self-test: pairs of pool and gradient operators, and the windows with which they are tested."""

from __future__ import annotations

from dataclasses import dataclass

from onnx import TensorProto

from poolgrad_lowering.dialect import OPS, Op
from poolgrad_lowering.runtime.self_test.poolings import Pooling


@dataclass(frozen=True)
class ElementType:
    """An element type with `fraction_bits` bits of fraction; test data has exponents of at most ±`exponent`, so that
    sums do not overflow.
    """

    name: str
    onnx: int
    fraction_bits: int
    exponent: int


ELEMENT_TYPES = (
    ElementType("float32", TensorProto.FLOAT, 23, 16),
    ElementType("float16", TensorProto.FLOAT16, 10, 4),
    ElementType("bfloat16", TensorProto.BFLOAT16, 7, 16),
)


@dataclass(frozen=True)
class Case:
    """A max pool of the dialect and its gradient, with windows that they can express."""

    pool: Op
    gradient: Op
    pooling: Pooling


def _pool_of(gradient: Op) -> Op:
    """The max pool with the windows of a gradient."""
    pools = (op for op in OPS.values() if not op.is_gradient and op.ranks == gradient.ranks)
    return next(op for op in pools if op.is_adaptive == gradient.is_adaptive)


_POOLINGS = (
    Pooling("1-D", (2, 3, 12), (3,), (3,), (0,)),
    Pooling("1-D overlapping, ceil", (2, 3, 12), (3,), (2,), (1,), ceil_mode=True),
    Pooling("2-D", (2, 3, 8, 10), (2, 2), (2, 2), (0, 0)),
    Pooling("2-D overlapping", (2, 3, 9, 9), (3, 3), (2, 2), (1, 1)),
    Pooling("2-D ceil", (2, 3, 7, 9), (2, 2), (2, 2), (0, 0), ceil_mode=True),
    Pooling("3-D", (2, 3, 4, 6, 6), (2, 2, 2), (2, 2, 2), (0, 0, 0)),
    Pooling("3-D overlapping, ceil", (1, 2, 5, 6, 7), (3, 3, 3), (2, 2, 2), (1, 1, 1), ceil_mode=True),
    Pooling("adaptive 1-D", (2, 3, 12), output_size=(4,)),
    Pooling("adaptive 2-D", (2, 3, 8, 6), output_size=(4, 3)),
    Pooling("adaptive 2-D, uneven", (2, 3, 7, 8), output_size=(3, 5)),
    Pooling("adaptive 3-D, uneven", (2, 2, 5, 6, 7), output_size=(2, 4, 3)),
)

_GRADIENTS = tuple(op for op in OPS.values() if op.is_gradient and op.has_argmax)

CASES = tuple(Case(_pool_of(op), op, pooling) for op in _GRADIENTS for pooling in _POOLINGS if pooling.suits(op))
