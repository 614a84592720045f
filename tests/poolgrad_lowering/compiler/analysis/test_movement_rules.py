# SPDX-License-Identifier: Apache-2.0

"""Rules of moved elements on operands of every rank, type and size: onnx's result where a rule applies, else none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import numpy_helper

from poolgrad_lowering.compiler.analysis.evaluation import Evaluation
from poolgrad_lowering.compiler.families.max_pool.matching.window_tables import MOVEMENT_RULES, NOWHERE
from tests.oracles.running import Evaluator
from tests.pool_graphs import main_value, parse

Array = npt.NDArray[Any]

SHAPES = [(), (2,), (2, 3), (3, 1, 2), (0, 2), (2, 2, 2)]
INFINITY = np.array(-np.inf, np.float32)


def computed(nodes: str, shape: tuple[int, ...], constants: Mapping[str, Array | None]) -> list[Any] | None:
    """The positions in Y, if they are known; they are then those that onnx's reference evaluator finds there."""
    held = {name: array for name, array in constants.items() if array is not None}
    model = parse(f"g (float{list(shape)} X) => (Y) {{ {nodes} }}", opset=18)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in held.items())
    facts, y = main_value(model, "Y")
    x = y.scope.resolve("X")
    assert x is not None
    numbers = np.arange(np.prod(shape, dtype=np.int64)).reshape(shape)
    found = Evaluation(facts, MOVEMENT_RULES, {x: numbers}).value(y)
    if found is None:
        return None
    assert not isinstance(found, np.ndarray) or found.dtype.kind == "i"
    dtype = held.get("F", INFINITY).dtype
    [expected] = Evaluator(model).run(None, {"X": numbers.astype(dtype)})
    assert np.shape(found) == np.shape(expected)
    assert found.tolist() == np.where(np.isneginf(expected), NOWHERE, expected).tolist()
    return [found.tolist()]


MASKS: list[Array] = [
    np.array(True),
    np.array([False, True]),
    np.array([True]),
    np.array([[True], [False]]),
    np.array([[True, False, True]]),
    np.array([[True, False, True], [False, False, True]]),
    np.array([[[True]], [[False]], [[True]]]),
    np.array([1, 0]),
    np.array([0.0, 1.0], np.float32),
    np.zeros((0, 1), np.bool_),
    np.zeros((0,), np.bool_),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_where(shape: tuple[int, ...]) -> None:
    for mask in MASKS:
        try:
            fits = np.broadcast_shapes(shape, mask.shape) == shape
        except ValueError:
            fits = False
        found = computed("Y = Where(M, X, F)", shape, {"M": mask, "F": INFINITY})
        assert (found is not None) == (fits and mask.dtype == np.bool_), mask
