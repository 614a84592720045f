# SPDX-License-Identifier: Apache-2.0

"""Every shape rule against onnx's reference evaluator, with known sizes and with symbols in their place."""

from __future__ import annotations

import math
import re

import numpy as np
import onnx
import pytest

from poolgrad_lowering.analysis import facts as facts_module
from poolgrad_lowering.analysis.shape_rules import SHAPE_RULES, is_opaque, slice_bounds
from poolgrad_lowering.ir.dims import Shape
from tests.oracles import run_reference
from tests.pool_graphs import main_value, parse

CASES = [
    ("Add", "Y = Add(X0, X1)", [(2, 1, 3), (4, 1)], 16),
    *(("ArgMax", f"Y = ArgMax<axis = {axis}>(X)", [(2, 3, 4)], 16) for axis in range(-3, 3)),
    ("ArgMax", "Y = ArgMax<axis = -2, keepdims = 0>(X)", [(2, 3, 4)], 16),
    ("ArgMax", "Y = ArgMax(X)", [(2, 3)], 16),
    ("Cast", "Y = Cast<to = 7>(X)", [(2, 3)], 16),
    ("CastLike", "Y = CastLike(X, X)", [(2, 3)], 16),
    *(("Concat", f"Y = Concat<axis = {axis}>(X0, X1, X0)", [(2, 3), (2, 3)], 16) for axis in (-2, -1, 0, 1)),
    ("Concat", "Y = Concat<axis = 0>(X0, X1)", [(2, 3), (4, 3)], 16),
    ("Constant", "Y = Constant<value = int64[2,1] {3, 4}>()", [(1,)], 16),
    ("Constant", "Y = Constant<value_float = 1.0>()", [(1,)], 16),
    ("ConstantOfShape", "s = Shape(X) Y = ConstantOfShape(s)", [(2, 3)], 16),
    ("Expand", "s = Shape(X) z = Constant<value = float {0.0}>() Y = Expand(z, s)", [(2, 3)], 16),
    ("Expand", "s = Shape(X) z = Constant<value = float[1,1] {0.0}>() Y = Expand(z, s)", [(2, 3)], 16),
    ("Expand", "s = Constant<value_ints = [1]>() Y = Expand(X, s)", [(2, 3)], 16),
    ("Expand", "s = Constant<value_ints = [4, 2, 3]>() Y = Expand(X, s)", [(2, 1)], 16),
    *(("Flatten", f"Y = Flatten<axis = {axis}>(X)", [(2, 3, 4)], 16) for axis in range(-3, 4)),
    ("Gather", "i = Constant<value_ints = [1, 0]>() Y = Gather(X, i)", [(2, 3)], 16),
    ("Gather", "i = Constant<value_int = 1>() Y = Gather(X, i)", [(2, 3)], 16),
    *(
        ("Gather", f"i = Constant<value = int64[2,1] {{0, 1}}>() Y = Gather<axis = {axis}>(X, i)", [(2, 3, 4)], 16)
        for axis in range(-3, 3)
    ),
    (
        "GatherElements",
        "i = Constant<value = int64[2,1] {0, 1}>() Y = GatherElements<axis = 1>(X, i)",
        [(2, 3)],
        16,
    ),
    ("Identity", "Y = Identity(X)", [(2, 0, 3)], 16),
    ("MaxPool", "Y, I = MaxPool<kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 1, 1]>(X)", [(2, 3, 7, 5)], 16),
    ("MaxPool", "Y, I = MaxPool<kernel_shape = [3], strides = [2], ceil_mode = 1>(X)", [(2, 3, 8)], 16),
    ("MaxPool", "Y, I = MaxPool<kernel_shape = [3], pads = [1, 1]>(X)", [(2, 3, 8)], 16),
    ("MaxPool", 'Y, I = MaxPool<kernel_shape = [3], auto_pad = "SAME_UPPER", strides = [2]>(X)', [(2, 3, 9)], 16),
    *(("Mod", "Y = Mod<fmod = 1>(X0, X1)", shapes, 16) for shapes in ([(2, 3), (3,)], [(2, 1), (1, 3)], [(), (2,)])),
    ("Mul", "Y = Mul(X0, X1)", [(4, 2, 3), (2, 1)], 16),
    ("Neg", "Y = Neg(X)", [(2, 3)], 16),
    ("Relu", "Y = Relu(X)", [()], 16),
    ("Reshape", "s = Constant<value_ints = [3, -1]>() Y = Reshape(X, s)", [(2, 3, 4)], 16),
    ("Reshape", "s = Constant<value_ints = [0, -1, 2]>() Y = Reshape(X, s)", [(2, 3, 4)], 16),
    ("Reshape", "s = Constant<value_ints = [0, 0, 4]>() Y = Reshape(X, s)", [(2, 3, 4)], 16),
    ("Reshape", "s = Constant<value_ints = [0, 5]>() Y = Reshape<allowzero = 1>(X, s)", [(2, 0, 4)], 16),
    (
        "Reshape",
        "s = Shape(X) i = Constant<value_ints = [1, 0]>() t = Gather(s, i) Y = Reshape(X, t)",
        [(2, 3)],
        16,
    ),
    ("Reshape", "s = Constant<value = int64[0] {}>() Y = Reshape(X, s)", [(1, 1)], 16),
    (
        "ScatterElements",
        "i = Constant<value = int64[1,1] {0}>() u = Constant<value = float[1,1] {0.0}>() Y = ScatterElements(X, i, u)",
        [(2, 3)],
        16,
    ),
    (
        "ScatterND",
        "i = Constant<value = int64[1,2] {0, 0}>() u = Constant<value = float[1] {0.0}>() Y = ScatterND(X, i, u)",
        [(2, 3)],
        16,
    ),
    ("Shape", "Y = Shape(X)", [(2, 3, 4)], 16),
    ("Shape", "Y = Shape<start = -2, end = 9>(X)", [(2, 3, 4)], 16),
    ("Shape", "Y = Shape<start = 2, end = 1>(X)", [(2, 3, 4)], 16),
    ("Slice", "Y = Slice<starts = [0, 1], ends = [1, 9], axes = [-1, 0]>(X)", [(3, 4)], 9),
    ("Slice", "Y = Slice<starts = [1], ends = [-1]>(X)", [(4, 4)], 9),
    *(
        (
            "Slice",
            f"s = Constant<value_ints = [{start}]>() e = Constant<value_ints = [{end}]>() Y = Slice(X, s, e)",
            [(4, 2)],
            16,
        )
        for start in (-9, -2, 0, 1, 9)
        for end in (-9, -1, 0, 1, 2, 2**62)
    ),
    (
        "Slice",
        "s = Constant<value_ints = [0]>() e = Constant<value_ints = [1]>() a = Constant<value_ints = [-1]>() "
        "t = Constant<value_ints = [1]>() Y = Slice(X, s, e, a, t)",
        [(4, 2)],
        16,
    ),
    *(
        (
            "Slice",
            f"s = Constant<value_ints = [{start}]>() e = Constant<value_ints = [{end}]>() "
            f"a = Constant<value_ints = [1]>() t = Constant<value_ints = [{step}]>() Y = Slice(X, s, e, a, t)",
            [(2, 5)],
            16,
        )
        for start, end, step in ((0, 5, 2), (1, 4, 3), (4, -9, -1), (9, 0, -2), (-1, -4, -1), (-2, 9, -1), (0, 1, -1))
    ),
    ("Squeeze", "Y = Squeeze(X)", [(1, 3, 1)], 16),
    ("Squeeze", "a = Constant<value_ints = [-1]>() Y = Squeeze(X, a)", [(1, 3, 1)], 16),
    ("Squeeze", "Y = Squeeze<axes = [0]>(X)", [(1, 3, 1)], 11),
    ("Sub", "Y = Sub(X0, X1)", [(2, 3), (2, 3)], 16),
    ("Transpose", "Y = Transpose(X)", [(2, 3, 4)], 16),
    ("Transpose", "Y = Transpose<perm = [1, 2, 0]>(X)", [(2, 3, 4)], 16),
    ("Unsqueeze", "a = Constant<value_ints = [0, -1]>() Y = Unsqueeze(X, a)", [(2, 3)], 16),
    ("Unsqueeze", "Y = Unsqueeze<axes = [1, 2]>(X)", [(2, 3)], 11),
    ("Where", "c = Cast<to = 9>(X0) Y = Where(c, X1, X2)", [(2, 1, 1), (4, 3), (1,)], 16),
]
IDS = [re.sub(r"\W+", " ", text) for _, text, _, _ in CASES]

NOTHING = [
    "Y = ArgMax<axis = 3>(X)",
    "s = Constant<value_ints = [2, -1, -1]>() Y = Reshape(X, s)",
    "s = Shape(nobody) Y = Reshape(X, s)",
    "Y = Squeeze(nobody)",
    "a = Constant<value_ints = [7]>() Y = Squeeze(X, a)",
    "a = Constant<value_ints = [0, 0]>() Y = Unsqueeze(X, a)",
    "a = Constant<value_ints = [7]>() Y = Unsqueeze(X, a)",
    "a = Constant<value_ints = [2]>() Y = Expand(X, a)",
    "Y = Expand(X, nobody)",
    "s = Constant<value_ints = [0]>() e = Constant<value_ints = [1, 2]>() Y = Slice(X, s, e)",
    "s = Constant<value_ints = [0]>() e = Constant<value_ints = [1]>() a = Constant<value_ints = [9]>() "
    "Y = Slice(X, s, e, a)",
    "s = Constant<value_ints = [0]>() e = Constant<value_ints = [1]>() a = Shape(nobody) Y = Slice(X, s, e, a)",
    "i = Constant<value_ints = [0]>() Y = Gather<axis = 3>(X, i)",
    "Y = Concat<axis = 3>(X, X)",
    "Y = Concat<axis = 0>(X, nobody)",
    "z = Constant<value = float[2] {0, 0}>() Y = Concat<axis = 0>(X, z)",
    "Y = Transpose<perm = [0, 0, 1]>(X)",
    "Y = Transpose<perm = [0, 1]>(X)",
    "Y = Transpose<perm = 1>(X)",
    "s = Constant<value_ints = [-2, 1]>() Y = ConstantOfShape(s)",
    "Y = Mul(X, nobody)",
    "Y = MaxPool<kernel_shape = [2, 2]>(X)",
    "Y = MaxPool<strides = [2]>(X)",
    "s = Constant<value_ints = [0]>() e = Constant<value_ints = [1]>() Y = Slice(X, s, e, s, s)",
    "s = Constant<value_ints = [0]>() e = Constant<value_ints = [1]>() t = Shape(nobody) Y = Slice(X, s, e, s, t)",
    "Y = other.Relu(X)",
]


@pytest.fixture(autouse=True)
def _without_inference(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a rule does not tell stays unknown."""
    monkeypatch.setattr(facts_module, "inferred_types", lambda *_: {})


def model_of(nodes: str, shapes: list[tuple[object, ...]], opset: int) -> onnx.ModelProto:
    names = ["X"] if len(shapes) == 1 else [f"X{number}" for number in range(len(shapes))]
    sizes = ["[" + ",".join(map(str, shape)) + "]" if shape else "" for shape in shapes]
    inputs = ", ".join(f"float{size} {name}" for name, size in zip(names, sizes, strict=True))
    return parse(f"g ({inputs}) => (Y) {{ {nodes} }}", opset=opset)


def derived_shape(model: onnx.ModelProto) -> Shape | None:
    facts, value = main_value(model, "Y")
    return facts.shape(value)


def actual_shape(model: onnx.ModelProto, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    feeds = {value.name: np.ones(shape, np.float32) for value, shape in zip(model.graph.input, shapes, strict=True)}
    return run_reference(model, feeds)["Y"].shape


def test_every_rule_has_a_case() -> None:
    assert {op_type for op_type, *_ in CASES} == set(SHAPE_RULES)


@pytest.mark.parametrize(("op_type", "nodes", "shapes", "opset"), CASES, ids=IDS)
def test_static(op_type: str, nodes: str, shapes: list[tuple[int, ...]], opset: int) -> None:
    assert op_type in nodes
    model = model_of(nodes, shapes, opset)
    shape = derived_shape(model)
    assert shape is not None
    assert tuple(dim.static for dim in shape) == actual_shape(model, shapes)


@pytest.mark.parametrize(("op_type", "nodes", "shapes", "opset"), CASES, ids=IDS)
def test_symbolic(op_type: str, nodes: str, shapes: list[tuple[int, ...]], opset: int) -> None:
    """A size above 1 is a symbol (equal sizes the same one); what is then known holds for the sizes behind it."""
    assert op_type in nodes
    names = [tuple(f"s{size}" if size > 1 else size for size in shape) for shape in shapes]
    shape = derived_shape(model_of(nodes, names, opset))
    actual = actual_shape(model_of(nodes, shapes, opset), shapes)
    if shape is None:
        return
    assert len(shape) == len(actual)
    for dim, extent in zip(shape, actual, strict=True):
        values = [int(symbol[1:]) for symbol in dim.symbols if not is_opaque(dim)]
        assert is_opaque(dim) or dim.coefficient * math.prod(values) == extent


@pytest.mark.parametrize("nodes", NOTHING)
def test_nothing_is_known(nodes: str) -> None:
    assert derived_shape(parse(f"g (float[2,3,4] X) => (Y) {{ {nodes} }}", imports='"other": 1')) is None


def test_symbols_multiply() -> None:
    shape = derived_shape(
        parse("g (float[N,16,H,5] X) => (Y) { s = Constant<value_ints = [-1, 5]>() Y = Reshape(X, s) }")
    )
    assert shape is not None
    assert list(map(str, shape)) == ["16*H*N", "5"]


def test_a_quotient_that_is_no_product_is_a_symbol_of_its_own() -> None:
    shape = derived_shape(parse("g (float[N] X) => (Y) { s = Constant<value_ints = [2, -1]>() Y = Reshape(X, s) }"))
    assert shape is not None
    assert [is_opaque(dim) for dim in shape] == [False, True]


def test_broadcast_of_different_symbols_is_unknown() -> None:
    assert derived_shape(parse("g (float[N] A, float[M] B) => (Y) { Y = Sub(A, B) }")) is None


@pytest.mark.parametrize("opset", [9, 16])
def test_slice_bounds(opset: int) -> None:
    nodes = (
        "Y = Slice<starts = [0, 1], ends = [1, 2], axes = [-1, 0]>(X)"
        if opset < 10
        else "s = Constant<value_ints = [0, 1]>() e = Constant<value_ints = [1, 2]>() "
        "a = Constant<value_ints = [-1, 0]>() Y = Slice(X, s, e, a)"
    )
    facts, value = main_value(parse(f"g (float[3,4,5] X) => (Y) {{ {nodes} }}", opset=opset), "Y")
    assert value.producer is not None
    assert slice_bounds(facts, value.producer, 3) == {2: (0, 1), 0: (1, 2)}
