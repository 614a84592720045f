# SPDX-License-Identifier: Apache-2.0

"""Rules of moved elements on operands of every rank, type and size: onnx's result where a rule applies, else none."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import numpy_helper

from poolgrad_lowering.compiler.analysis import evaluation
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


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_transpose(shape: tuple[int, ...]) -> None:
    for order in ([], [0], [1], [0, 1], [1, 0], [0, 0], [2, 0, 1], [1, 2, 0], [0, 1, 3], [-1, 0], [1, 2]):
        nodes = f"Y = Transpose<perm = {order}>(X)" if order else "Y = Transpose(X)"
        is_known = not order or sorted(order) == [*range(len(shape))]
        assert (computed(nodes, shape, {}) is not None) == is_known, order


PADS = [[], [0, 0], [1, 2], [0, 1, 2, 0], [1, 0, 0, 0, 0, 3], [0, -1], [1, 0, 0, -1], [0, 0, 0, 1, 0, 0], [1, 1, 1]]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_pad(shape: tuple[int, ...]) -> None:
    for pads in PADS:
        found = computed("Y = Pad(X, P, F)", shape, {"P": np.array(pads, np.int64), "F": INFINITY})
        assert (found is not None) == (bool(shape) and len(pads) == 2 * len(shape) and min(pads) >= 0), pads


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap", "Constant"])
def test_padded_in_another_mode(mode: str) -> None:
    pads = {"P": np.array([1, 1]), "F": INFINITY}
    assert computed(f'Y = Pad<mode = "{mode}">(X, P, F)', (4,), pads) is None
    assert computed('Y = Pad<mode = "constant">(X, P, F)', (4,), pads) is not None


FILLS: dict[str, tuple[Array | None, bool]] = {
    "half": (np.array(-np.inf, np.float16), True),
    "double": (np.array(-np.inf), True),
    "a vector of one": (np.array([-np.inf], np.float32), True),
    "a matrix of one": (np.array([[-np.inf]], np.float32), False),
    "two": (np.array([-np.inf, -np.inf], np.float32), False),
    "none": (np.zeros(0, np.float32), False),
    "absent": (None, False),
    "infinity": (np.array(np.inf, np.float32), False),
    "not a number": (np.array(np.nan, np.float32), False),
    "the lowest number": (np.array(np.finfo(np.float32).min), False),
    "an integer": (np.array(-(2**63)), False),
    "true": (np.array(True), False),
    "text": (np.array("-inf", object), False),
    "a complex number": (np.array(-np.inf, np.complex64), False),
}


@pytest.mark.parametrize(("fill", "is_known"), FILLS.values(), ids=FILLS)
def test_fills(fill: Array | None, is_known: bool) -> None:
    pads, mask = np.array([1, 1]), np.array([True, False, True, True])
    assert (computed("Y = Pad(X, P, F)", (4,), {"P": pads, "F": fill}) is not None) == is_known
    assert (computed("Y = Where(M, X, F)", (4,), {"M": mask, "F": fill}) is not None) == is_known


def test_a_fill_that_adds_no_axis() -> None:
    mask, fill = np.array([True, False, True]), np.array([[-np.inf]], np.float32)
    assert computed("Y = Where(M, X, F)", (2, 3), {"M": mask, "F": fill}) == [[[0, -1, 2], [3, -1, 5]]]
    assert computed("Y = Where(M, X, F)", (3,), {"M": mask, "F": fill}) is None


POSITIONS: list[Array] = [
    np.array(1),
    np.array(0, np.int32),
    np.array([1, 0, 1]),
    np.array([[0, 1], [0, 0]]),
    np.array([[0, 2]]),
    np.array([0, -1]),
    np.array([3]),
    np.zeros((0,), np.int64),
    np.zeros((2, 0), np.int64),
    np.array([0.0, 1.0], np.float32),
    np.array([True, False]),
]


def is_inside(positions: Array, extent: int, least: int = 0) -> bool:
    return positions.dtype.kind == "i" and all(
        least <= position < extent for position in positions.reshape(-1).tolist()
    )


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gather(shape: tuple[int, ...]) -> None:
    for axis, positions in product((None, -3, -2, -1, 0, 1, 2), POSITIONS):
        nodes = f"Y = Gather{'' if axis is None else f'<axis = {axis}>'}(X, I)"
        size = shape[axis or 0] if -len(shape) <= (axis or 0) < len(shape) else None
        is_known = size is not None and is_inside(positions, size, -size)
        assert (computed(nodes, shape, {"I": positions}) is not None) == is_known, (axis, positions)


COORDINATES: list[Array] = [
    *POSITIONS,
    np.array([[1, 1], [0, 0]]),
    np.array([[1, 2], [0, 1]]),
    np.array([[2, 0]]),
    np.array([[1, 0, 1]]),
    np.array([[[1, 0]], [[0, 1]]], np.int32),
    np.array([[1, -1]]),
    np.array([[0, 0, 0, 0]]),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gather_nd(shape: tuple[int, ...]) -> None:
    for positions in COORDINATES:
        found = computed("Y = GatherND(X, I)", shape, {"I": positions})
        depth = positions.shape[-1] if positions.ndim else 0
        is_known = 0 < depth <= len(shape) and all(
            is_inside(positions[..., axis], extent) for axis, extent in enumerate(shape[:depth])
        )
        assert (found is not None) == is_known, positions
        assert computed("Y = GatherND<batch_dims = 1>(X, I)", shape, {"I": positions}) is None


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


LARGE = {
    "Pad": ("Y = Pad(X, P, F)", (2, 2), 15),
    "Gather": ("Y = Gather<axis = 1>(X, I)", (3, 2), 9),
    "Gather, of one": ("Y = Gather(X, J)", (1, 5), 15),
    "Gather, of none": ("Y = Gather(X, E)", (0, 2), 0),
    "GatherND": ("Y = GatherND(X, N)", (2, 4), 12),
    "GatherND of elements": ("Y = GatherND(X, A)", (2, 2), 2),
}


@pytest.mark.parametrize(("nodes", "shape", "size"), LARGE.values(), ids=LARGE)
def test_the_largest_that_is_computed(
    nodes: str, shape: tuple[int, ...], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants = {
        "P": np.array([1, 2, 0, 1]),
        "F": INFINITY,
        "I": np.array([1, 0, 1]),
        "J": np.array([0, 0, 0]),
        "E": np.zeros(0, np.int64),
        "N": np.array([[1], [0], [1]]),
        "A": np.array([[1, 0], [0, 1]]),
    }
    monkeypatch.setattr(evaluation, "MAX_ELEMENTS", size)
    assert computed(nodes, shape, constants) is not None
    monkeypatch.setattr(evaluation, "MAX_ELEMENTS", size - 1)
    assert computed(nodes, shape, constants) is None


ABSENT = {
    "Transpose": "Y = Transpose<perm = [0]>(nobody)",
    "Pad": "Y = Pad(nobody, P, F)",
    "pads": "Y = Pad(X, nobody, F)",
    "fill": "Y = Pad(X, P, nobody)",
    "an axis": "Y = Pad(X, P, F, A)",
    "Gather": "Y = Gather(nobody, I)",
    "positions": "Y = Gather(X, nobody)",
    "GatherND": "Y = GatherND(nobody, I)",
    "coordinates": "Y = GatherND(X, nobody)",
    "Where": "Y = Where(M, nobody, F)",
    "mask": "Y = Where(nobody, X, F)",
    "other": "Y = Where(M, X, nobody)",
}


@pytest.mark.parametrize("nodes", ABSENT.values(), ids=ABSENT)
def test_absent_operands(nodes: str) -> None:
    constants = {"P": np.array([1, 1]), "F": INFINITY, "I": np.array([0]), "M": np.array([True]), "A": np.array([0])}
    assert computed(nodes, (4,), constants) is None
