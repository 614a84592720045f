# SPDX-License-Identifier: Apache-2.0

"""Integer rules on operands of every rank and length: the elements that onnx computes, or none are known."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from poolgrad_lowering.model.ir.dims import Dim
from tests.oracles.running import Evaluator
from tests.pool_graphs import main_value, parse

Array = npt.NDArray[Any]

OPERANDS: list[Array] = [
    np.array(3),
    np.array(-1),
    np.array([2]),
    np.array([4, 0, -2]),
    np.array([1, 5, 2]),
    np.array([0, 1]),
    np.zeros(0, np.int64),
    np.array([[2, 3]]),
    np.array([[2], [3]]),
]
MALFORMED: dict[str, Array | None] = {
    "from outside": None,
    "a matrix": np.array([[2, 3]]),
    "numbers with fractions": np.array([2.0, 1.0], np.float32),
    "truths": np.array([True, False]),
    "text": np.array(["2", "3"], object),
}


def built(nodes: str, constants: Mapping[str, Array | None], opset: int) -> ModelProto:
    model = parse(f"g (int64[2] X) => (Y) {{ {nodes} }}", opset=opset)
    held = [numpy_helper.from_array(array, name) for name, array in constants.items() if array is not None]
    model.graph.initializer.extend(held)
    outside = [name for name, array in constants.items() if array is None]
    model.graph.input.extend(helper.make_tensor_value_info(name, TensorProto.INT64, [2]) for name in outside)
    return model


def known(nodes: str, constants: Mapping[str, Array | None], opset: int = 13) -> list[int] | None:
    """The elements of Y, if they are known."""
    facts, y = main_value(built(nodes, constants, opset), "Y")
    found = facts.integers(y)
    if found is None:
        return None
    assert not any(dim.symbols for dim in found)
    return [dim.coefficient for dim in found]


def actual(nodes: str, constants: Mapping[str, Array], opset: int = 13) -> Array | None:
    """Y by onnx's reference evaluator; None where it refuses the operands."""
    try:
        [found] = Evaluator(built(nodes, constants, opset)).run(None, {"X": np.zeros(2, np.int64)})
    except (ValueError, IndexError, RuntimeError, TypeError):
        return None
    return np.asarray(found)


@pytest.mark.parametrize("nodes", ["Y = Mul(a, b)", "Y = Concat<axis = 0>(a, b)", "Y = Gather<axis = 0>(a, b)"])
def test_two_operands(nodes: str) -> None:
    computed = 0
    for a, b in product(OPERANDS, repeat=2):
        if ("Gather" in nodes and not a.ndim) or ("Concat" in nodes and 0 in (a.ndim, b.ndim)):
            continue  # no model that runs: these take no scalars, and onnx's evaluator some
        expected = actual(nodes, {"a": a, "b": b})
        found = known(nodes, {"a": a, "b": b})
        if expected is None or max(a.ndim, b.ndim) > 1:
            assert found is None, (a, b)
        else:
            assert found == expected.reshape(-1).tolist(), (a, b)
            computed += 1
    assert computed >= 4


@pytest.mark.parametrize("malformed", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize(
    "nodes",
    [
        "Y = Cast<to = 7>(a)",
        "Y = Concat<axis = 0>(a, b)",
        "Y = Concat<axis = 0>(b, a)",
        "Y = Gather<axis = 0>(a, c)",
        "Y = Gather<axis = 0>(b, a)",
        "Y = Identity(a)",
        "Y = Mul(a, b)",
        "Y = Mul(b, a)",
        "Y = ReduceProd(a)",
        "Y = Reshape(a, d)",
        "Y = Reshape(b, a)",
        "Y = Slice(a, c, d)",
        "Y = Slice(b, a, d)",
        "Y = Slice(b, c, a)",
        "Y = Slice(b, c, d, a)",
        "Y = Slice(b, c, d, c, a)",
        "Y = Split<axis = 0>(a, d)",
        "Y, Z = Split(b, a)",
        "Y = Squeeze(a)",
        "Y = Unsqueeze(a, c)",
        "Y = Unsqueeze(e, a)",
    ],
)
def test_malformed_operands(nodes: str, malformed: Array | None) -> None:
    constants = {"b": np.array([1, 1]), "c": np.array([0]), "d": np.array([2]), "e": np.array(4)}
    assert known(nodes, {**constants, "a": malformed}) is None


ABSENT = ("Cast<to = 7>", "Concat<axis = 0>", "Gather", "Identity", "Mul", "ReduceProd", "Reshape", "Shape", "Size")


@pytest.mark.parametrize("operator", [*ABSENT, "Slice", "Split", "Squeeze", "Unsqueeze"])
def test_no_operand(operator: str) -> None:
    found = known(f"Y = {operator}()", {})
    assert found is None or (operator.startswith("Concat") and not found)


# -- attributes and types

AXES = [[], [0], [-1], [1], [-2], [0, 1], [0, 0]]


@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("opset", [11, 13])
def test_a_scalar_as_a_vector(axes: list[int], opset: int) -> None:
    """Of a tensor of a higher rank, which is no shape, no elements are known: operators treat them by the axis."""
    attribute = f"<axes = {axes}>" if axes else ""
    nodes = f"Y = Unsqueeze{attribute}(a)" if opset == 11 else "Y = Unsqueeze(a, axes)"
    constants = {"a": np.array(5), "axes": np.array(axes, np.int64)}
    assert known(nodes, constants, opset) == ([5] if len(axes) == 1 else None)
    if axes not in ([1], [-2]):
        assert known(nodes, {**constants, "a": np.array([5])}, opset) is None
    row = f"{nodes.replace('Y', 'v')} w = Constant<value_ints = [3, 4]>() m = Mul(v, w) z = Constant<value_int = 0>() "
    assert known(f"{row} Y = Gather(m, z)", constants, max(opset, 12)) in (None, [15])
    if len(axes) > 1:
        assert known(f"{row} Y = Gather(m, z)", constants, max(opset, 12)) is None


@pytest.mark.parametrize("axis", [None, -1, 0, 1])
@pytest.mark.parametrize("operator", ["Concat", "Gather"])
def test_axes(operator: str, axis: int | None) -> None:
    nodes = f"Y = {operator}{'' if axis is None else f'<axis = {axis}>'}(a, b)"
    found = known(nodes, {"a": np.array([4, 5]), "b": np.array([1])})
    if axis == 0 or (axis, operator) == (None, "Gather"):
        assert found == ([4, 5, 1] if operator == "Concat" else [5])
    else:
        assert found is None


INT32, INT64 = np.int32, np.int64
PRODUCTS: list[tuple[list[int], list[int], type[np.generic], list[int] | None]] = [
    ([2**16, 3], [2**15 - 1, 1], INT32, [2**31 - 2**16, 3]),
    ([2**16, 3], [2**15, 1], INT32, None),
    ([2**16, 3], [-(2**15), 1], INT32, [-(2**31), 3]),
    ([2**16, 3], [-(2**15) - 1, 1], INT32, None),
    ([2**16, 3], [2**15, 1], INT64, [2**31, 3]),
    ([2**32, 3], [2**31 - 1, 1], INT64, [2**63 - 2**32, 3]),
    ([2**32, 3], [2**31, 1], INT64, None),
    ([2**32, 3], [-(2**31), 1], INT64, [-(2**63), 3]),
    ([16, 3], [16, 1], np.uint8, None),
    ([16, 3], [16, 1], np.int16, None),
]


@pytest.mark.parametrize(("left", "right", "dtype", "expected"), PRODUCTS)
def test_products_that_their_type_does_not_hold(
    left: list[int], right: list[int], dtype: type[np.generic], expected: list[int] | None
) -> None:
    constants = {"a": np.array(left, dtype), "b": np.array(right, dtype)}
    assert known("Y = Mul(a, b)", constants) == expected
    pair = {"a": np.array([left[0], right[0]], dtype)}
    assert known("Y = ReduceProd(a)", pair) == (expected and expected[:1])
    computed = actual("Y = Mul(a, b)", constants)
    assert computed is not None
    assert expected is None or computed.tolist() == expected


CASTS = [
    (2**31 - 1, TensorProto.INT32, True),
    (2**31, TensorProto.INT32, False),
    (-(2**31), TensorProto.INT32, True),
    (-(2**31) - 1, TensorProto.INT32, False),
    (2**63 - 1, TensorProto.INT64, True),
    (-(2**63), TensorProto.INT64, True),
    (1, TensorProto.BOOL, False),
    (1, TensorProto.UINT8, False),
    (1, TensorProto.FLOAT, False),
    (1, TensorProto.UNDEFINED, False),
]


@pytest.mark.parametrize(("number", "to", "is_known"), CASTS)
def test_casts(number: int, to: int, is_known: bool) -> None:
    found = known(f"Y = Cast<to = {to}>(a)", {"a": np.array([1, number])})
    assert found == ([1, number] if is_known else None)


def test_a_cast_of_what_no_int64_holds() -> None:
    assert known("Y = Cast<to = 7>(a)", {"a": np.array([2**63], np.uint64)}) is None


def test_a_cast_to_nothing() -> None:
    assert known("Y = Cast(a)", {"a": np.array([1])}) is None


REDUCED = {
    "": [24],
    "<axes = [0]>": [24],
    "<axes = [0], noop_with_empty_axes = 1>": [24],
    "<keepdims = 0>": [24],
    "<noop_with_empty_axes = 0>": [24],
    "<axes = [1]>": None,
    "<axes = [-1]>": None,
    "<axes = [0, 0]>": None,
    "<noop_with_empty_axes = 1>": None,
}


@pytest.mark.parametrize(("attributes", "expected"), REDUCED.items())
def test_a_product_along_axes(attributes: str, expected: list[int] | None) -> None:
    assert known(f"Y = ReduceProd{attributes}(a)", {"a": np.array([2, 3, 4])}, 18) == expected


SLICES: list[tuple[list[int], list[int], list[int] | None, list[int] | None]] = [
    ([1], [3], None, None),
    ([-2], [9], [0], None),
    ([0], [-1], [-1], [1]),
    ([-1], [-9], [0], [-1]),
    ([3], [0], [0], [-2]),
    ([0], [9], [0], [3]),
    ([3], [1], [0], [1]),
    ([-9], [2], None, [1]),
]
NO_SLICES = [
    ([0], [1], [1], None),
    ([0], [1], [-2], None),
    ([0], [1], [0], [0]),
    ([0, 1], [1, 2], None, None),
    ([], [], [], []),
    ([0], [1, 2], None, None),
    ([0], [1], [0], [1, 1]),
]


def sliced(bounds: tuple[list[int] | None, ...]) -> tuple[str, dict[str, Array | None]]:
    names = [name if held is not None else '""' for name, held in zip("beas", bounds, strict=True)]
    constants: dict[str, Array | None] = {
        name: np.array(held, np.int64) for name, held in zip("beas", bounds, strict=True) if held is not None
    }
    operands = ", ".join(names).replace(', ""', ", nothing" if bounds[3] else "")
    return f"Y = Slice(v, {operands})", {**constants, "v": np.array([4, 5, 6, 7])}


@pytest.mark.parametrize("bounds", SLICES, ids=str)
def test_slices(bounds: tuple[list[int] | None, ...]) -> None:
    nodes, constants = sliced(bounds if bounds[2] else (*bounds[:2], [0], bounds[3]))
    expected = actual(nodes, {name: held for name, held in constants.items() if held is not None})
    assert expected is not None
    assert known(nodes, constants) == expected.tolist()
    if bounds[2] is None and bounds[3] is None:
        nodes, constants = sliced(bounds)
        assert known(nodes, constants) == expected.tolist()


@pytest.mark.parametrize("bounds", NO_SLICES, ids=str)
def test_no_slices(bounds: tuple[list[int] | None, ...]) -> None:
    assert known(*sliced(bounds)) is None


SPLITS: list[tuple[str, list[int] | None, list[int] | None]] = [
    ("Y = Split(v)", None, [4, 5, 6, 7]),
    ("Y, b = Split(v)", None, [4, 5]),
    ("a, Y = Split(v)", None, [6, 7]),
    ("a, b, c, Y = Split(v)", None, [7]),
    ("a, b, Y = Split(v)", None, None),
    ("a, Y = Split(v, s)", [1, 3], [5, 6, 7]),
    ("Y, b = Split(v, s)", [0, 4], []),
    ("a, Y, c = Split(v, s)", [1, 2, 1], [5, 6]),
    ("a, Y = Split(v, s)", [1, 2], None),
    ("a, Y = Split(v, s)", [1, 2, 1], None),
    ("a, Y = Split(v, s)", [4], None),
    ("a, Y = Split(v, s)", [], None),
    ("Y, b = Split<axis = -1>(v)", None, None),
    ("Y, b = Split<axis = 1>(v)", None, None),
    ("Y, b = Split(v, X)", None, None),
]


@pytest.mark.parametrize(("nodes", "sizes", "expected"), SPLITS)
def test_parts(nodes: str, sizes: list[int] | None, expected: list[int] | None) -> None:
    held = {} if sizes is None else {"s": np.array(sizes, np.int64)}
    assert known(nodes, {"v": np.array([4, 5, 6, 7]), **held}) == expected
    if expected is not None:
        parts = actual(nodes, {"v": np.array([4, 5, 6, 7]), **held})
        assert parts is not None
        assert parts.tolist() == expected


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [("split = [3, 1]", [7]), ("split = [2, 1]", None), ("split = [4]", None), ("axis = 0", [6, 7])],
)
def test_parts_by_an_attribute(attribute: str, expected: list[int] | None) -> None:
    assert known(f"a, Y = Split<{attribute}>(v)", {"v": np.array([4, 5, 6, 7])}, 11) == expected


@pytest.mark.parametrize("nodes", ["Y, b = Split<axis = 0>(X)", "a, Y = Split(X)"])
def test_parts_of_what_is_not_known(nodes: str) -> None:
    assert known(nodes, {}) is None


@pytest.mark.parametrize(
    ("target", "expected"), [([-1], [5]), ([1], [5]), ([], [5]), ([1, 1], None), ([1, -1, 1], None)]
)
def test_reshaped(target: list[int], expected: list[int] | None) -> None:
    assert known("Y = Reshape(v, s)", {"v": np.array([5]), "s": np.array(target, np.int64)}) == expected


@pytest.mark.parametrize(("nodes", "expected"), [("Y = Size(v)", [6]), ("Y = Shape(v)", [2, 3]), ("Y = Size(w)", [1])])
def test_sizes(nodes: str, expected: list[int]) -> None:
    assert known(nodes, {"v": np.zeros((2, 3)), "w": np.array(3)}) == expected


def test_symbols_are_multiplied_by_both() -> None:
    model = parse("g (float[N, M] X) => (Y) { s = Shape(X) t = Shape(X) Y = Mul(s, t) }")
    facts, y = main_value(model, "Y")
    assert facts.integers(y) == (Dim(1, ("N", "N")), Dim(1, ("M", "M")))
