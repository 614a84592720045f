# SPDX-License-Identifier: Apache-2.0

"""Rules of index arithmetic on operands of every type, rank and sign: onnx's value where a rule applies, else none."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import TensorProto, numpy_helper

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


def known(nodes: str, given: Mapping[str, Array], constants: Mapping[str, Array] | None = None) -> Array | None:
    """What the rules say of Y, which nodes compute from given arrays and from constants."""
    model = parse(
        f"g ({', '.join(f'float{list(held.shape)} {name}' for name, held in given.items())}) => (Y) {{ {nodes} }}"
    )
    model.graph.initializer.extend(numpy_helper.from_array(held, name) for name, held in (constants or {}).items())
    facts, y = main_value(model, "Y")
    values = {y.scope.resolve(name): array for name, array in given.items()}
    found = Evaluation(facts, ARITHMETIC_RULES, {value: array for value, array in values.items() if value}).value(y)
    return None if found is None else np.asarray(found)


def actual(nodes: str, given: Mapping[str, Array]) -> Array:
    """What onnx's reference evaluator computes."""
    with np.errstate(all="ignore"):
        [found] = Evaluator(parse(f"g ({', '.join(given)}) => (Y) {{ {nodes} }}")).run(None, dict(given))
    return np.asarray(found)


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


@pytest.mark.parametrize("op_type", ["Add", "Div", "Floor", "GatherElements", "Expand", "Cast"])
def test_absent_operands(op_type: str) -> None:
    three = np.array([3, 4])
    for operands in ("", "X", "nobody", "nobody, X", "X, nobody", '"", X'):
        if op_type in ("Floor", "Cast") and operands.startswith("X"):
            continue
        attributes = "<to = 7>" if op_type == "Cast" else ""
        model = parse(f"g (int64[2] X) => (Y) {{ Y = {op_type}{attributes}() }}")
        model.graph.node[0].input.extend(name.strip(' "') for name in operands.split(",") if operands)
        facts, y = main_value(model, "Y")
        x = y.scope.resolve("X")
        assert x is not None
        assert Evaluation(facts, ARITHMETIC_RULES, {x: three}).value(y) is None, operands


@pytest.mark.parametrize("data", OPERANDS, ids=repr)
def test_floor(data: Array) -> None:
    found = known("Y = Floor(X)", {"X": data})
    assert (found is not None) == (data.dtype.kind == "f")
    if found is not None:
        assert bits(found) == bits(actual("Y = Floor(X)", {"X": data}))


CAST: list[Array] = [
    *OPERANDS,
    np.array([2**31, -(2**31)]),
    np.array([2**31 - 1, -(2**31)]),
    np.array([2**24 + 1]),
    np.array([1e30, 2.0], np.float32),
    np.array([3.0, -2.0], np.float16),
]
TARGETS: dict[int | None, type[np.generic]] = {
    TensorProto.FLOAT: np.float32,
    TensorProto.INT32: np.int32,
    TensorProto.INT64: np.int64,
}


def is_kept(data: Array, target: type[np.generic]) -> bool:
    """Whether the type holds every number exactly, by Python's numbers."""
    if data.dtype.kind not in ("i", "f") or not np.isfinite(data).all():
        return data.dtype.kind == "f" and target is np.float32 and not np.isnan(data).any()
    numbers = data.reshape(-1).tolist()
    if target is np.float32:
        return all(float(np.float32(number)) == number for number in numbers)
    return all(number == int(number) and abs(number) <= 2**31 for number in numbers) and (
        np.dtype(target).itemsize == 8 or all(-(2**31) <= number < 2**31 for number in numbers)
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("to", [None, 0, *TARGETS, TensorProto.UINT8, TensorProto.BOOL, TensorProto.DOUBLE, 99])
def test_cast(to: int | None) -> None:
    nodes = "Y = Cast(X)" if to is None else f"Y = Cast<to = {to}>(X)"
    for data in CAST:
        if np.abs(data.astype(np.float64)).max(initial=0) == 2**62:
            continue
        found = known(nodes, {"X": data})
        assert (found is not None) == (to in TARGETS and is_kept(data, TARGETS[to])), data
        if found is not None:
            assert bits(found) == bits(actual(nodes, {"X": data}))


POSITIONS: list[Array] = [
    np.array([[0, 2, 1], [1, 1, 0]]),
    np.array([[0, 1, 1], [1, 0, 0]], np.int32),
    np.array([[0], [2]]),
    np.array([[1, 0, 1]]),
    np.array([[0, 1, 1, 0], [1, 0, 0, 1]]),
    np.array([[0, 3, 1], [1, 1, 0]]),
    np.array([[0, -1, 1], [1, 1, 0]]),
    np.array([[0, 1, 1], [1, 0, 0], [0, 0, 1]]),
    np.array([1, 0, 2]),
    np.array(1),
    np.zeros((0, 3), np.int64),
    np.zeros((2, 0), np.int64),
    np.array([[0, 1, 1], [1, 0, 0]], np.float32),
    np.array([[0, 1, 1], [1, 0, 0]], np.bool_),
]
PICKED: list[Array] = [
    np.array([[9, 8, 7], [6, 5, 4]]),
    np.array([5, 4, 3]),
    np.array([0.5, 0.25, -1], np.float32),
    np.array(5),
    np.zeros((0, 3), np.int64),
]


@pytest.mark.parametrize("axis", [None, -3, -2, -1, 0, 1, 2])
def test_gather_elements(axis: int | None) -> None:
    nodes = f"Y = GatherElements{'' if axis is None else f'<axis = {axis}>'}(C, X)"
    along = axis or 0
    computed = 0
    for data, positions in product(PICKED, POSITIONS):
        found = known(nodes, {"X": positions}, {"C": data})
        expected = (
            -data.ndim <= along < data.ndim == positions.ndim
            and positions.dtype.kind == "i"
            and all(0 <= position < data.shape[along] for position in positions.reshape(-1).tolist())
            and np.delete(positions.shape, along).tolist() == np.delete(data.shape, along).tolist()
        )
        assert (found is not None) == expected, (data, positions)
        if found is not None:
            computed += 1
            picked = np.empty_like(positions, data.dtype)
            for place in np.ndindex(positions.shape):
                source = list(place)
                source[along] = positions[place]
                picked[place] = data[tuple(source)]
            assert bits(found) == bits(picked)
    assert computed or axis in (-3, 2)


@pytest.mark.parametrize("data", [np.array(5), np.array([1, 2, 3]), np.array([[4], [5]]), np.zeros((0, 1), np.int32)])
def test_expand(data: Array) -> None:
    for target in ([], [1], [3], [2, 3], [2, 1, 1], [0, 1], [0], [2, -1], [-1], [2, 2], [2**40, 2**40], [1] * 70):
        found = known("Y = Expand(X, S)", {"X": data}, {"S": np.array(target, np.int64)})
        try:
            shape = np.broadcast_shapes(data.shape, tuple(target))
        except ValueError:
            shape = None
        if shape is None or np.prod([float(extent) for extent in shape]) > 1e9:
            assert found is None, target
        else:
            assert found is not None, target
            assert bits(found) == bits(actual("Y = Expand(X, S)", {"X": data, "S": np.array(target, np.int64)}))


@pytest.mark.parametrize("target", [np.array([[2, 3]]), np.array([2.0, 3.0], np.float32)])
def test_expanded_to_what_is_no_shape(target: Array) -> None:
    assert known("Y = Expand(X, S)", {"X": np.array([1, 2, 3])}, {"S": target}) is None


def test_expanded_to_a_symbol() -> None:
    model = parse("g (int64[1] X, float[N] Z) => (Y) { S = Shape(Z) Y = Expand(X, S) }")
    facts, y = main_value(model, "Y")
    x = y.scope.resolve("X")
    assert x is not None
    assert Evaluation(facts, ARITHMETIC_RULES, {x: np.array([1])}).value(y) is None


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("like", [np.float32, np.int32, np.int64, np.uint8, np.float64])
def test_cast_like(like: type[np.generic]) -> None:
    for data in CAST:
        if np.abs(data.astype(np.float64)).max(initial=0) == 2**62:
            continue
        found = known("Y = CastLike(X, C)", {"X": data}, {"C": np.zeros((2, 2), like)})
        assert (found is not None) == (like in TARGETS.values() and is_kept(data, like)), data
        if found is not None:
            assert bits(found) == bits(data.astype(like))


@pytest.mark.parametrize(("start", "limit", "delta"), [(0, 6, 1), (-3, 5, 2), (4, 4, 1), (9, 2, 3), (0, 7, 10)])
def test_range(start: int, limit: int, delta: int) -> None:
    bounds = {"a": np.array(start), "b": np.array(limit), "c": np.array(delta)}
    found = known("Y = Range(a, b, c)", {}, bounds)
    assert found is not None
    assert bits(found) == bits(actual("Y = Range(a, b, c)", bounds))


RANGES_NOT_KNOWN: dict[str, dict[str, Array]] = {
    "downwards": {"a": np.array(5), "b": np.array(0), "c": np.array(-1)},
    "no_step": {"a": np.array(0), "b": np.array(5), "c": np.array(0)},
    "too_long": {"a": np.array(0), "b": np.array(2**40), "c": np.array(1)},
    "of_floats": {"a": np.array(0.0), "b": np.array(5.0), "c": np.array(1.0)},
    "of_vectors": {"a": np.array([0, 1]), "b": np.array(5), "c": np.array(1)},
    "without_a_step": {"a": np.array(0), "b": np.array(5)},
}


@pytest.mark.parametrize("bounds", RANGES_NOT_KNOWN.values(), ids=RANGES_NOT_KNOWN)
def test_ranges_that_are_not_known(bounds: dict[str, Array]) -> None:
    assert known("Y = Range(a, b, c)", {}, bounds) is None


def test_a_range_of_what_is_given_is_not_known() -> None:
    """It is no operation on the elements of what is given."""
    assert known("Y = Range(a, X, c)", {"X": np.array(5)}, {"a": np.array(0), "c": np.array(1)}) is None
