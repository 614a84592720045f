# SPDX-License-Identifier: Apache-2.0

"""Values computed in proofs against onnx's reference evaluator; what must stay unknown stays unknown."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from poolgrad_lowering.compiler.analysis import evaluation as evaluation_module
from poolgrad_lowering.compiler.analysis.constant_values import ARITHMETIC_RULES
from poolgrad_lowering.compiler.analysis.evaluation import (
    Evaluation,
    Rule,
    are_within,
    broadcast_shape,
    is_affordable,
)
from poolgrad_lowering.compiler.families.max_pool.matching.window_tables import MOVEMENT_RULES, NOWHERE
from tests.oracles import run_reference
from tests.pool_graphs import main_value, parse

Array = npt.NDArray[Any]

ARITHMETIC = {
    "Add": "c = Constant<value = int64[1,3] {4, 5, 6}>() Y = Add(X, c)",
    "Sub": "c = Constant<value_int = 7>() Y = Sub(c, X)",
    "Mul": "Y = Mul(X, X)",
    "Mod": "c = Constant<value_int = 3>() Y = Mod(X, c)",
    "Div": "c = Constant<value_int = 2>() Y = Div(X, c)",
    "Floor": "f = Cast<to = 1>(X) c = Constant<value_float = 3.0>() d = Div(f, c) e = Floor(d) Y = Cast<to = 7>(e)",
    "Cast": "Y = Cast<to = 6>(X)",
    "CastLike": "c = Constant<value = int32 {0}>() Y = CastLike(X, c)",
    "Range": "a = Constant<value_int = 2>() b = Constant<value_int = 7>() c = Constant<value_int = 2>() "
    "r = Range(a, b, c) Y = Add(X, r)",
    "Expand": "s = Constant<value_ints = [4, 1, 3]>() Y = Expand(X, s)",
    "GatherElements": "c = Constant<value = int64[2,6] {9,8,7,6,5,4,3,2,1,0,-1,-2}>() "
    "Y = GatherElements<axis = 1>(c, X)",
    "Reshape": "s = Constant<value_ints = [3, -1]>() Y = Reshape(X, s)",
}
MOVEMENT = {
    "Transpose": "Y = Transpose<perm = [2, 0, 1]>(X)",
    "Pad": "p = Constant<value_ints = [0, 1, 0, 2, 0, 1]>() f = Constant<value = float {-inf}>() Y = Pad(X, p, f)",
    "Gather": "i = Constant<value = int64[2,2] {1, 0, 1, 1}>() Y = Gather<axis = -2>(X, i)",
    "GatherND": "i = Constant<value = int64[3,2] {1, 0, 0, 1, 1, 1}>() Y = GatherND(X, i)",
    "Where": "m = Constant<value = bool[2,1] {0, 1}>() f = Constant<value = float {-inf}>() Y = Where(m, X, f)",
    "Flatten": "Y = Flatten(X)",
}
UNKNOWN_ARITHMETIC = {
    "negative remainder": "c = Constant<value_int = 9>() d = Sub(X, c) e = Constant<value_int = 2>() Y = Mod(d, e)",
    "division by zero": "c = Constant<value_int = 0>() Y = Div(X, c)",
    "negative quotient": "c = Constant<value_int = 9>() d = Sub(X, c) e = Constant<value_int = 2>() Y = Div(d, e)",
    "cut short": "f = Cast<to = 1>(X) c = Constant<value_float = 3.0>() d = Div(f, c) Y = Cast<to = 7>(d)",
    "shapes that do not fit": "c = Constant<value_ints = [1, 2]>() Y = Add(X, c)",
    "types that differ": "c = Constant<value_float = 2.0>() Y = Add(X, c)",
    "picked from what is computed": "Y = GatherElements<axis = 1>(X, X)",
    "picked beyond the end": "c = Constant<value = int64[2,2] {1, 2, 3, 4}>() Y = GatherElements<axis = 1>(c, X)",
    "picked along no axis": "c = Constant<value = int64[2,6] {0,0,0,0,0,0,0,0,0,0,0,0}>() "
    "Y = GatherElements<axis = 2>(c, X)",
    "expanded to no shape": "s = Constant<value_ints = [5]>() Y = Expand(X, s)",
    "an operator without a rule": "Y = Abs(X)",
    "from nowhere": "Y = Add(X, nobody)",
}
UNKNOWN_MOVEMENT = {
    "padded with zeros": "p = Constant<value_ints = [0, 1, 0, 2, 0, 1]>() Y = Pad(X, p)",
    "padded with another value": "p = Constant<value_ints = [0, 1, 0, 2, 0, 1]>() f = Constant<value_float = -9.0>() "
    "Y = Pad(X, p, f)",
    "cut": "p = Constant<value_ints = [0, -1, 0, 0, 0, 0]>() f = Constant<value = float {-inf}>() Y = Pad(X, p, f)",
    "padded along some axes": "p = Constant<value_ints = [0, 1]>() f = Constant<value = float {-inf}>() "
    "a = Constant<value_ints = [1]>() Y = Pad(X, p, f, a)",
    "gathered before the start": "i = Constant<value_ints = [-3]>() Y = Gather(X, i)",
    "gathered beyond the end": "i = Constant<value_ints = [2]>() Y = Gather(X, i)",
    "gathered by what is gathered": "Y = Gather(X, X)",
    "gathered in batches": "i = Constant<value = int64[2,1] {1, 0}>() Y = GatherND<batch_dims = 1>(X, i)",
    "gathered by too many coordinates": "i = Constant<value = int64[1,4] {0, 0, 0, 0}>() Y = GatherND(X, i)",
    "masked with another value": "m = Constant<value = bool[2,1] {0, 1}>() f = Constant<value_float = 0.0>() "
    "Y = Where(m, X, f)",
    "masked the other way round": "m = Constant<value = bool[2,1] {0, 1}>() f = Constant<value = float {-inf}>() "
    "Y = Where(m, f, X)",
    "a larger mask": "m = Constant<value = bool[3,1,1,1] {0, 1, 0}>() f = Constant<value = float {-inf}>() "
    "Y = Where(m, X, f)",
    "added to": "Y = Add(X, X)",
}


def evaluated(declared: str, nodes: str, rules: dict[str, Rule], given: Array) -> Array | None:
    """Return what follows for Y where X is given."""
    facts, y = main_value(parse(f"g ({declared} X) => (Y) {{ {nodes} }}"), "Y")
    x = y.scope.resolve("X")
    assert x is not None
    return Evaluation(facts, rules, {x: given}).value(y)


def reference(declared: str, nodes: str, x: Array) -> Array:
    return run_reference(parse(f"g ({declared} X) => (Y) {{ {nodes} }}"), {"X": x})["Y"]


@pytest.mark.parametrize("op_type", ARITHMETIC)
def test_arithmetic(op_type: str) -> None:
    x = np.arange(6).reshape(2, 3)
    found = evaluated("int64[2,3]", ARITHMETIC[op_type], ARITHMETIC_RULES, x)
    expected = reference("int64[2,3]", ARITHMETIC[op_type], x)
    assert found is not None
    assert (found.dtype, found.shape, found.tolist()) == (expected.dtype, expected.shape, expected.tolist())


@pytest.mark.parametrize("op_type", MOVEMENT)
def test_movement(op_type: str) -> None:
    numbers = np.arange(8).reshape(2, 2, 2)
    found = evaluated("float[2,2,2]", MOVEMENT[op_type], MOVEMENT_RULES, numbers)
    expected = reference("float[2,2,2]", MOVEMENT[op_type], numbers.astype(np.float32))
    assert found is not None
    assert found.tolist() == np.where(np.isneginf(expected), NOWHERE, expected).tolist()


def test_every_rule_has_a_case() -> None:
    assert set(ARITHMETIC_RULES) <= set(ARITHMETIC)
    assert set(MOVEMENT_RULES) <= set(MOVEMENT)


@pytest.mark.parametrize("nodes", UNKNOWN_ARITHMETIC.values(), ids=UNKNOWN_ARITHMETIC)
def test_arithmetic_that_is_not_known(nodes: str) -> None:
    assert evaluated("int64[2,3]", nodes, ARITHMETIC_RULES, np.arange(6).reshape(2, 3)) is None


@pytest.mark.parametrize("nodes", UNKNOWN_MOVEMENT.values(), ids=UNKNOWN_MOVEMENT)
def test_movement_that_is_not_known(nodes: str) -> None:
    assert evaluated("float[2,2,2]", nodes, MOVEMENT_RULES, np.arange(8).reshape(2, 2, 2)) is None


def test_the_largest_value_that_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_affordable((1 << 22, 2))
    assert not is_affordable(((1 << 23) + 1,))
    monkeypatch.setattr(evaluation_module, "MAX_ELEMENTS", 6)
    assert is_affordable((2, 3))
    assert broadcast_shape((2, 1), (3,)) == (2, 3)
    assert not is_affordable((7,))
    assert broadcast_shape((7, 1), (1,)) is None


@pytest.mark.parametrize(
    ("positions", "expected"),
    [
        (np.array([0, 2]), True),
        (np.array([[0, 3]]), False),
        (np.array([-1, 0]), False),
        (np.array(2, np.uint8), True),
        (np.array([0.0, 1.0]), False),
        (np.array([True]), False),
        (np.zeros(0, np.int32), True),
    ],
)
def test_positions_within_an_extent(positions: Array, expected: bool) -> None:
    assert are_within(positions, 3) is expected


def depth_of(second: int) -> Array | None:
    """What follows by two chains of which one is 40 long, each value of which asks for the one before it."""
    chains = [("a", 40), ("b", second)]
    nodes = " ".join(f"{name}{n + 1} = Neg({name}{n})" for name, length in chains for n in range(length))
    facts, y = main_value(parse(f"g (float[1] a0, float[1] b0) => (Y) {{ {nodes} Y = Add(a40, b{second}) }}"), "Y")
    given = {value: np.ones(1) for value in map(y.scope.resolve, ("a0", "b0")) if value is not None}
    return Evaluation(facts, {**ARITHMETIC_RULES, "Neg": lambda known, node: known.value(node.input(0))}, given).value(
        y
    )


def test_the_longest_chain() -> None:
    assert depth_of(63) is not None
    assert depth_of(64) is None


def test_a_chain_without_end() -> None:
    nodes = " ".join(f"v{number + 1} = Neg(v{number})" for number in range(500))
    assert (
        evaluated(
            "float[1]", f"v0 = Neg(X) {nodes} Y = Neg(v500)", {"Neg": lambda k, n: k.value(n.input(0))}, np.ones(1)
        )
        is None
    )
