# SPDX-License-Identifier: Apache-2.0

"""Rules of index arithmetic on operands of every type, rank and sign: onnx's value where a rule applies, else none."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from poolgrad_lowering.compiler.analysis.constant_values import ARITHMETIC_RULES
from poolgrad_lowering.compiler.analysis.evaluation import Evaluation
from tests.oracles.running import Evaluator
from tests.pool_graphs import main_value, parse

Array = npt.NDArray[Any]

OPERANDS: list[Array] = [
    np.array(5),
    np.array([3]),
    np.array([7, 1, 2]),
    np.array([[1, 2, 3], [4, 5, 6]]),
    np.array([[[9, 8, 7]], [[1, 2, 3]]]),
    np.array([-4, 9, 1]),
    np.array([4, 0, 1]),
    np.array([1, 2]),
    np.array([2**62, 3, 5]),
    np.zeros((0, 3), np.int64),
    np.array(2, np.int32),
    np.array([7, 1, 2], np.int32),
    np.array([[-3], [5]], np.int32),
    np.array([200, 100, 3], np.uint8),
    np.array(3.0, np.float32),
    np.array([7.5, 1, 2], np.float32),
    np.array([-0.5, 0.1, 3], np.float32),
    np.array([np.nan, np.inf, 1], np.float32),
    np.array([[0.25], [-0.0]], np.float64),
    np.array([True, False, True]),
]


def bits(array: Array) -> tuple[np.dtype[Any], tuple[int, ...], bytes]:
    return array.dtype, array.shape, array.tobytes()


def fit(left: Array, right: Array) -> bool:
    """Whether ONNX broadcasts the shapes."""
    return all(1 in pair or pair[0] == pair[1] for pair in zip(left.shape[::-1], right.shape[::-1], strict=False))


def is_computed(op_type: str, left: Array, right: Array) -> bool:
    """Whether a rule takes the operands: of one type, of shapes that fit, and where ONNX's rounding is no question."""
    if left.dtype != right.dtype or left.dtype.kind not in ("i", "f") or not fit(left, right):
        return False
    if op_type in ("Add", "Sub", "Mul"):
        return True
    divides = not (right <= 0).any() and not np.isnan(right).any()
    if left.dtype.kind == "f":
        return op_type == "Div" and divides
    return divides and not (left < 0).any()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("op_type", ["Add", "Div", "Mod", "Mul", "Sub"])
def test_of_two(op_type: str) -> None:
    model = parse(f"g (float X, float W) => (Y) {{ Y = {op_type}(X, W) }}")
    facts, y = main_value(model, "Y")
    x, w = y.scope.resolve("X"), y.scope.resolve("W")
    assert x is not None
    assert w is not None
    evaluator = Evaluator(model)
    counts = {True: 0, False: 0}
    for left, right in product(OPERANDS, repeat=2):
        found = Evaluation(facts, ARITHMETIC_RULES, {x: left, w: right}).value(y)
        assert (found is not None) == is_computed(op_type, left, right), (left, right)
        counts[found is not None] += 1
        if found is not None:
            with np.errstate(all="ignore"):
                [expected] = evaluator.run(None, {"X": left, "W": right})
            assert bits(np.asarray(found)) == bits(np.asarray(expected)), (left, right)
    assert min(counts.values()) > 10
