# SPDX-License-Identifier: Apache-2.0

"""Every integer rule against onnx's reference evaluator, with known sizes and with symbols in their place."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from poolgrad_lowering.model.facts.integer_rules import INTEGER_RULES
from poolgrad_lowering.model.ir.dims import Dim, Shape
from tests.oracles import run_reference
from tests.pool_graphs import main_value, parse

SIZES = {"N": 3, "C": 2, "H": 5}
CASES = [
    ("Add", "a = Constant<value_ints = [3, 1, -2]>() b = Constant<value_int = 4>() Y = Add(b, a)", 16),
    ("Cast", "s = Shape(X) Y = Cast<to = 6>(s)", 16),
    ("Cast", "s = Shape(X) t = Cast<to = 6>(s) Y = Cast<to = 7>(t)", 16),
    ("Concat", "s = Shape(X) c = Constant<value_ints = [-1, 7]>() Y = Concat<axis = 0>(s, c, s)", 16),
    ("Div", "s = Size(X) c = Constant<value_int = 7>() Y = Div(s, c)", 16),
    ("Div", "s = Size(X) i = Constant<value_int = 0>() n = Shape(X) d = Gather(n, i) Y = Div(s, d)", 16),
    ("Div", "a = Constant<value_int = 9>() b = Constant<value_int = 2>() Y = Div(a, b)", 16),
    *(("Gather", f"s = Shape(X) i = Constant<value_int = {at}>() Y = Gather(s, i)", 16) for at in (-4, -1, 0, 3)),
    ("Gather", "s = Shape(X) i = Constant<value_ints = [2, 0, -1, 2]>() Y = Gather(s, i)", 16),
    ("Identity", "s = Shape(X) Y = Identity(s)", 16),
    ("Max", "s = Shape(X) Y = Max(s)", 16),
    ("Max", "s = Shape(X) Y = Max(s, s, s)", 16),
    ("Max", "a = Constant<value_ints = [3, 1, -2]>() b = Constant<value_ints = [2, 5, -7]>() Y = Max(a, b)", 16),
    ("Mod", "a = Constant<value_ints = [7, 9, -4]>() b = Constant<value_int = 3>() Y = Mod(a, b)", 16),
    ("Mul", "s = Shape(X) Y = Mul(s, s)", 16),
    ("Mul", "s = Shape(X) c = Constant<value_int = 4>() Y = Mul(c, s)", 16),
    ("Mul", "s = Shape(X) c = Constant<value_ints = [4]>() Y = Mul(s, c)", 16),
    ("Mul", "c = Constant<value_ints = [4]>() e = Constant<value = int64[0] {}>() Y = Mul(c, e)", 16),
    ("Mul", "c = Constant<value_ints = [4]>() e = Constant<value = int64[0] {}>() Y = Mul(e, c)", 16),
    ("ReduceProd", "s = Shape(X) Y = ReduceProd(s)", 16),
    ("ReduceProd", "s = Shape(X) Y = ReduceProd<axes = [0], keepdims = 0>(s)", 16),
    ("ReduceProd", "s = Shape(X) Y = ReduceProd(s)", 18),
    ("Reshape", "s = Shape<end = 1>(X) c = Constant<value = int64[0] {}>() Y = Reshape(s, c)", 16),
    ("Reshape", "s = Shape(X) c = Constant<value_ints = [-1]>() Y = Reshape(s, c)", 16),
    (
        "Reshape",
        "s = Shape(X) a = Constant<value_ints = [1]>() b = Constant<value_ints = [-1]>() c = Unsqueeze(s, a)"
        " t = Mul(s, s) d = Unsqueeze(t, b) m = Concat<axis = 1>(c, d, c) Y = Reshape(m, b)",
        16,
    ),
    ("Shape", "Y = Shape(X)", 16),
    *(
        ("Shape", f"Y = Shape<start = {start}, end = {end}>(X)", 16)
        for start in (-9, -2, 0, 3)
        for end in (-9, -1, 2, 9)
    ),
    ("Size", "Y = Size(X)", 16),
    ("Slice", "s = Shape(X) a = Constant<value_ints = [-2]>() e = Constant<value_ints = [9]>() Y = Slice(s, a, e)", 16),
    ("Slice", "s = Shape(X) a = Constant<value_ints = [1]>() e = Constant<value_ints = [-1]>() Y = Slice(s, a, e)", 16),
    ("Slice", "s = Shape(X) Y = Slice<starts = [1], ends = [3]>(s)", 9),
    ("Squeeze", "s = Shape<end = 1>(X) Y = Squeeze(s)", 16),
    ("Sub", "a = Constant<value_ints = [3, 1, -2]>() b = Constant<value_ints = [2, 5, -7]>() Y = Sub(a, b)", 16),
    ("Sub", "a = Constant<value_ints = [3, 1, -2]>() b = Constant<value_int = 4>() Y = Sub(b, a)", 16),
    ("ConstantOfShape", "s = Shape(X) c = Shape(s) Y = ConstantOfShape<value = int64[1] {-7}>(c)", 16),
    ("ConstantOfShape", "c = Constant<value_ints = [0]>() Y = ConstantOfShape<value = int64[1] {-7}>(c)", 16),
    ("Unsqueeze", "s = Size(X) a = Constant<value_ints = [0]>() Y = Unsqueeze(s, a)", 16),
    (
        "Where",
        "n = Shape(X) a = Constant<value_ints = [0]>() u = Gather(n, a)"
        " c = Constant<value_ints = [-1, 4]>() s = Concat<axis = 0>(u, c) m = Constant<value_ints = [-1, -1, -1]>()"
        " o = Constant<value_ints = [1]>() e = Equal(s, m) Y = Where(e, o, s)",
        16,
    ),
    ("Where", "s = Shape(X) e = Equal(s, s) c = Constant<value_int = 4>() Y = Where(e, c, s)", 16),
    ("Where", "s = Shape(X) c = Constant<value_ints = [9]>() e = Equal(s, c) Y = Where(e, s, s)", 16),
]
SPLITS = [
    ("s = Shape(X) Y, b = Split(s)", 16),
    ("s = Shape(X) a, b, Y, d = Split<axis = 0>(s)", 16),
    ("s = Shape(X) a, Y = Split<num_outputs = 2>(s)", 18),
    ("s = Shape(X) p = Constant<value_ints = [1, 2, 1]>() a, Y, c = Split(s, p)", 16),
    ("s = Shape(X) a, Y = Split<split = [1, 3]>(s)", 11),
]
IDS = [re.sub(r"\W+", " ", nodes) for _, nodes, _ in CASES]

NOTHING = [
    ("s = Shape(nobody) Y = Identity(s)", 16),
    ("c = Constant<value_ints = [5000000000]>() Y = Cast<to = 6>(c)", 16),
    ("s = Shape(X) Y = Cast<to = 1>(s)", 16),
    ("s = Shape(X) i = Constant<value_int = 4>() Y = Gather(s, i)", 16),
    ("s = Shape(X) i = Shape(nobody) Y = Gather(s, i)", 16),
    ("s = Size(X) c = Constant<value_int = 0>() Y = Div(s, c)", 16),
    ("s = Shape(X) c = Constant<value_int = 0>() Y = Mod(s, c)", 16),
    ("s = Shape(X) c = Constant<value_int = -2>() Y = Mod(s, c)", 16),
    ("s = Shape(X) c = Constant<value_int = 2>() Y = Mod<fmod = 1>(s, c)", 16),
    ("c = Constant<value_ints = [9223372036854775807]>() Y = Add(c, c)", 16),
    ("s = Size(X) c = Constant<value_int = -7>() Y = Div(s, c)", 16),
    ("s = Shape(X) Y = Div(s, s)", 16),
    ("s = Shape(X) c = Constant<value_ints = [2, 2]>() Y = Mul(s, c)", 16),
    ("s = Shape(X) c = Constant<value_ints = [2]>() Y = Max(s, c)", 16),
    ("s = Shape(X) n = Shape(nobody) Y = Max(s, n)", 16),
    ("s = Shape(X) a = Constant<value_ints = [0]>() Y = ReduceProd(s, a)", 18),
    ("s = Shape(X) Y = ReduceProd<noop_with_empty_axes = 1>(s)", 18),
    ("s = Shape(X) c = Constant<value_ints = [2, 2]>() Y = Reshape(s, c)", 16),
    ("s = Shape(X) Y = Slice<starts = [0, 0], ends = [1, 1]>(s)", 9),
    ("s = Shape(X) a, Y, c = Split(s)", 16),
    ("s = Shape(X) p = Constant<value_ints = [1, 4]>() a, Y = Split(s, p)", 16),
    ("s = Shape(X) p = Shape(nobody) a, Y = Split(s, p)", 16),
    ("s = Shape(X) Y, b = Split<axis = 1>(s)", 16),
    ("s = Shape(nobody) Y, b = Split(s)", 16),
    ("s = Shape(X) Y = Neg(s)", 16),
    ("s = Shape(X) e = Greater(s, s) Y = Where(e, s, s)", 16),
    ("s = Shape(X) c = Constant<value_ints = [2, 2]>() e = Equal(s, s) Y = Where(e, s, c)", 16),
    ("s = Shape(X) Y = other.Identity(s)", 16),
    ("s = Shape(X) n = Shape(nobody) Y = Sub(s, n)", 16),
    ("s = Shape(X) n = Size(nobody) Y = Sub(s, n)", 16),
    ("s = Shape(X) c = Constant<value_ints = [2, 2]>() Y = Sub(s, c)", 16),
    ("c = Constant<value_ints = [65]>() Y = ConstantOfShape<value = int64[1] {1}>(c)", 16),
    ("c = Constant<value_ints = [2, 1]>() Y = ConstantOfShape<value = int64[1] {1}>(c)", 16),
    ("c = Constant<value_ints = [2]>() Y = ConstantOfShape(c)", 16),
    ("c = Constant<value_ints = [2]>() Y = ConstantOfShape<value = bool[1] {1}>(c)", 16),
    ("c = Shape(nobody) Y = ConstantOfShape<value = int64[1] {1}>(c)", 16),
    ("c = Constant<value = int64[1, 2] {3, 4}>() Y = Identity(c)", 16),
    ("c = Constant<value_float = 3.0>() Y = Identity(c)", 16),
]


def known_integers(nodes: str, opset: int, sizes: str) -> Shape | None:
    imports = '"other": 1, "com.microsoft": 1'
    model = parse(f"g (float[{sizes}] X) => (Y) {{ {nodes} }}", opset=opset, imports=imports)
    facts, value = main_value(model, "Y")
    return facts.integers(value)


def actual(nodes: str, opset: int) -> list[int]:
    model = parse(f"g (float[3,2,5,7] X) => (Y) {{ {nodes} }}", opset=opset)
    return run_reference(model, {"X": np.zeros((3, 2, 5, 7), np.float32)})["Y"].reshape(-1).tolist()


def test_every_rule_has_a_case() -> None:
    assert {op_type for op_type, _, _ in CASES} == set(INTEGER_RULES)


@pytest.mark.parametrize(("op_type", "nodes", "opset"), CASES, ids=IDS)
def test_static(op_type: str, nodes: str, opset: int) -> None:
    assert op_type in nodes
    found = known_integers(nodes, opset, "3,2,5,7")
    assert found is not None
    assert [dim.static for dim in found] == actual(nodes, opset)


@pytest.mark.parametrize(("op_type", "nodes", "opset"), CASES, ids=IDS)
def test_symbolic(op_type: str, nodes: str, opset: int) -> None:
    assert op_type in nodes
    found = known_integers(nodes, opset, "N,C,H,7")
    assert found is not None
    values = [dim.coefficient * math.prod(SIZES[symbol] for symbol in dim.symbols) for dim in found]
    assert values == actual(nodes, opset)


@pytest.mark.parametrize("op_type", ["Add", "Max", "Mod", "Sub"])
def test_a_symbol_beside_a_number_is_not_known(op_type: str) -> None:
    nodes = f"s = Shape(X) c = Constant<value_ints = [1, 1, 1, 1]>() Y = {op_type}(s, c)"
    assert known_integers(nodes, 16, "3,2,5,7") is not None
    assert known_integers(nodes, 16, "N,2,5,7") is None


def test_the_quotient_of_a_symbol_is_exact() -> None:
    nodes = "s = Size(X) c = Constant<value_int = 4>() Y = Div(s, c)"
    assert known_integers(nodes, 16, "3,2,5,7") == (Dim(52),)
    assert known_integers(nodes, 16, "N,2,5,7") is None


@pytest.mark.parametrize(
    ("compared", "is_known"),
    [("-1", True), ("0", False), ("3", False), ("-1 * N", False)],
)
def test_whether_a_size_is_another_number(compared: str, is_known: bool) -> None:
    number, *symbol = compared.split(" * ")
    factor = f"f = Constant<value_int = {number}>() n = Shape(X) c = Mul(f, n)"
    given = factor if symbol else f"c = Constant<value_ints = [{number}]>()"
    nodes = f"s = Shape(X) {given} o = Constant<value_int = 1>() e = Equal(s, c) Y = Where(e, o, s)"
    assert known_integers(nodes, 16, "4,2,5,7") is not None
    assert (known_integers(nodes, 16, "N,2,5,7") is not None) == is_known


@pytest.mark.parametrize(("nodes", "opset"), SPLITS)
def test_parts_of_a_split(nodes: str, opset: int) -> None:
    found = known_integers(nodes, opset, "3,2,5,7")
    assert found is not None
    assert [dim.static for dim in found] == actual(nodes, opset)


@pytest.mark.parametrize(("nodes", "opset"), NOTHING)
def test_nothing_is_known(nodes: str, opset: int) -> None:
    assert known_integers(nodes, opset, "3,2,5,7") is None


CONCAT_TRAINING = "s = Shape(X) c = Constant<value_ints = [7]>() {} = com.microsoft.ConcatTraining<axis = 0>(c, s)"


def test_concat_of_onnxruntime_training() -> None:
    found = known_integers(CONCAT_TRAINING.format("Y, lengths"), 16, "N,C,H,7")
    assert found == (Dim(7), Dim(1, ("N",)), Dim(1, ("C",)), Dim(1, ("H",)), Dim(7))


def test_the_lengths_that_it_also_gives() -> None:
    assert known_integers(CONCAT_TRAINING.format("joined, Y"), 16, "N,C,H,7") == (Dim(1), Dim(4))
    nodes = "z = Concat<axis = 1>(X, X) joined, Y = com.microsoft.ConcatTraining<axis = {}>({})"
    assert known_integers(nodes.format(-1, "z, X"), 16, "N,2") == (Dim(4), Dim(2))
    assert known_integers(nodes.format(0, "X, X"), 16, "N,2") == (Dim(1, ("N",)),) * 2
    assert known_integers(nodes.format(2, "z, X"), 16, "N,2") is None
    assert known_integers(nodes.format(0, "z, unknown"), 16, "N,2") is None


@pytest.mark.parametrize(
    ("shape", "other", "axes", "others"),
    [
        ("N,C,5", [5], (), (1, 0)),
        ("N,C,5", [4, 1, 1, 5], (0,), None),
        ("N,1,5", [3, 1], (1,), (2, 0)),
        ("N,C,5", [3, 5], None, (0,)),
        ("N,C,5", [1, 5], (), None),
        ("2,1,5", [2, 3, 1], (1,), (2,)),
        ("2,1,5", [1, 1, 1], (), (2, 0)),
    ],
)
def test_the_axes_on_which_operands_are_broadcast(
    shape: str, other: list[int], axes: tuple[int, ...] | None, others: tuple[int, ...] | None
) -> None:
    """Of a symbolic size it is not known whether it is 1, which tells nothing beside another 1 or the same size."""
    nodes = f"s = Shape(X) c = Constant<value_ints = {other}>() {{}} = com.microsoft.BroadcastGradientArgs(s, c)"
    for outputs, expected in (("Y, b", axes), ("a, Y", others)):
        found = known_integers(nodes.format(outputs), 16, shape)
        assert (None if found is None else tuple(dim.static for dim in found)) == expected


@pytest.mark.parametrize(("operands", "axes"), [("s, t", [0]), ("t, s", [])])
def test_the_first_rows_of_a_table_are_not_broadcast(operands: str, axes: list[int]) -> None:
    """As an embedding of positions for tokens of any number: the table has as many rows, or the model does not run."""
    nodes = (
        "z = Constant<value_ints = [0]>() e = Shape<start = 1, end = 2>(X) W = ConstantOfShape(w) P = Slice(W, z, e, z)"
        " w = Constant<value_ints = [9, 5]>() s = Shape(P) t = Shape(X)"
        f" Y, b = com.microsoft.BroadcastGradientArgs({operands})"
    )
    found = known_integers(nodes, 16, "N,T,5")
    assert found is not None
    assert [dim.static for dim in found] == axes


def test_an_operator_of_the_models_own_has_no_rule() -> None:
    model = parse(
        f"g (float[N] X) => (Y) {{ {CONCAT_TRAINING.format('Y, lengths')} }}",
        imports='"com.microsoft": 1',
        functions="""<domain: "com.microsoft", opset_import: ["" : 16]>
            ConcatTraining <axis> (a, b) => (c, d) { c = Identity(b) d = Identity(a) }""",
    )
    facts, value = main_value(model, "Y")
    assert facts.integers(value) is None
