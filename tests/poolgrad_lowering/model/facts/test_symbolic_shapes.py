# SPDX-License-Identifier: Apache-2.0

"""What the shape rules tell of sizes that are no numbers."""

from __future__ import annotations

import pytest

from poolgrad_lowering.model.ir.dims import Shape
from tests.pool_graphs import main_value, parse
from tests.poolgrad_lowering.model.facts.inferred import without_inference


@pytest.fixture(autouse=True)
def _without_inference(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a rule does not tell stays unknown."""
    without_inference(monkeypatch)


def derived_shape(text: str) -> Shape | None:
    facts, value = main_value(parse(text), "Y")
    return facts.shape(value)


def symbolic(nodes: str, shape: str = "N,3,L") -> list[str] | None:
    """The sizes of Y as text, where X has a shape."""
    found = derived_shape(f"g (float[{shape}] X, float[A] Z) => (Y) {{ {nodes} }}")
    return None if found is None else [str(dim) for dim in found]


FIRST_ROWS = (
    "z = Constant<value_ints = [0]>() o = Constant<value_ints = [1]>() e = Shape<start = 2>(X) A = Slice(X, z, e, o)"
)


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("Y = MaxPool<kernel_shape = [2]>(X)", ["N", "3", "?main:Y[2]"]),
        ("y, Y = MaxPool<kernel_shape = [2]>(X)", ["N", "3", "?main:y[2]"]),
        (", Y = MaxPool<kernel_shape = [2]>(X)", ["N", "3", "?main:Y[2]"]),
        ("Y = Concat<axis = 2>(X, X)", ["N", "3", "2*L"]),
        ("A = Concat<axis = 2>(X, X) Y = Concat<axis = 2>(X, A)", ["N", "3", "3*L"]),
        ("A = Transpose<perm = [2, 1, 0]>(X) Y = Concat<axis = 0>(X, A)", ["?main:Y[0]", "3", "L"]),
        ("Y = Concat<axis = 1>(X, X)", ["N", "6", "L"]),
        ("s = Constant<value_ints = [0, 0, 0, 0]>() Y = Reshape(X, s)", ["N", "3", "L", "?main:Y[3]"]),
        ("s = Constant<value_ints = [0, 0]>() Y = Reshape(nobody, s)", ["?main:Y[0]", "?main:Y[1]"]),
        ("s = Constant<value_ints = [6, -1]>() Y = Reshape(nobody, s)", ["6", "?main:Y[1]"]),
        ("s = Constant<value_ints = [0, -1]>() Y = Reshape(X, s)", ["N", "3*L"]),
        ("s = Constant<value_ints = [2, -1]>() Y = Reshape(X, s)", ["2", "?main:Y[1]"]),
        ("s = Constant<value_ints = [0, -1]>() Y = Reshape<allowzero = 1>(X, s)", ["0", "?main:Y[1]"]),
        ("z = Reshape(Z, Z) s = Shape(z) Y = Reshape(X, s)", None),
        ("s = Constant<value_ints = [1, 0]>() e = Constant<value_ints = [9, 1]>() Y = Slice(X, s, e)",
         ["?main:Y[0]", "1", "L"]),
        ("s = Constant<value_ints = [0, 0, 0]>() e = Constant<value_ints = [1, 1, 1]>() Y = Slice(X, s, e)",
         ["1", "1", "1"]),
        (f"s = Constant<value_ints = [0]>() e = Constant<value_ints = [{2**63 - 1}]>() Y = Slice(X, s, e)",
         ["N", "3", "L"]),
        (f"s = Constant<value_ints = [1]>() e = Constant<value_ints = [{2**63 - 1}]>() Y = Slice(X, s, e)",
         ["?main:Y[0]", "3", "L"]),
        ("s = Constant<value_ints = [0]>() e = Constant<value_ints = [2]>() Y = Slice(X, s, e)",
         ["?main:Y[0]", "3", "L"]),
        ("s = Constant<value_ints = [0]>() e = Constant<value_ints = [1]>() t = Constant<value_ints = [2]>() "
         "Y = Slice(X, s, e, s, t)", ["?main:Y[0]", "3", "L"]),
        ("Y = Squeeze(X)", None),
        ("Y = ArgMax<axis = 1>(X)", ["N", "1", "L"]),
        ("Y = Flatten<axis = 2>(X)", ["3*N", "L"]),
        ("s = Shape(X) Y = Expand(Z, s)", ["N", "3", "?main:Y[2]"]),
        ("s = Shape(X) c = Constant<value_float = 1.0>() Y = Expand(c, s)", ["N", "3", "L"]),
        ("Y = Mul(X, Z)", ["N", "3", "?main:Y[2]"]),
        # axes, starts and sizes of which only some are numbers
        ("o = Shape<end = 1>(X) z = Constant<value_ints = [0]>() a = Concat<axis = 0>(z, o) Y = Squeeze(X, a)", None),
        ("o = Shape<end = 1>(X) z = Constant<value_ints = [0]>() a = Concat<axis = 0>(z, o) Y = Unsqueeze(X, a)", None),
        ("o = Shape<end = 1>(X) z = Constant<value_ints = [0]>() s = Concat<axis = 0>(z, o) Y = Slice(X, s, z)", None),
        ("o = Shape<end = 1>(X) Y = Slice(X, o, o)", None),
        # parts of what is joined
        ("A = Concat<axis = 0>(X, X) z = Constant<value_ints = [0]>() o = Shape<end = 1>(X) Y = Slice(A, z, o, z)",
         ["N", "3", "L"]),
        ("A = Concat<axis = 0>(X, X, X) z = Constant<value_ints = [0]>() o = Shape<end = 1>(X)"
         " e = Shape<end = 1>(A) Y = Slice(A, o, e, z)", ["2*N", "3", "L"]),
        ("A = Concat<axis = 0>(X, X) e = Constant<value_ints = [9223372036854775807]>()"
         " z = Constant<value_ints = [0]>() o = Shape<end = 1>(X) Y = Slice(A, o, e, z)", ["N", "3", "L"]),
        ("A = Concat<axis = 0>(X, X) z = Constant<value_ints = [0]>() e = Shape<end = 1>(A) Y = Slice(X, z, e, z)",
         ["?main:Y[0]", "3", "L"]),
        ("z = Constant<value_ints = [0]>() e = Shape<start = 2>(X) Y = Slice(X, z, e, z)", ["?main:Y[0]", "3", "L"]),
        # the first rows of a table, which broadcast beside as many others only if it has them
        (f"{FIRST_ROWS} Y = Identity(A)", ["N", "min(L, 3)", "L"]),
        (f"{FIRST_ROWS} B = Transpose<perm = [0, 2, 1]>(A) C = Slice(B, z, o, o) Y = Add(X, C)", ["N", "3", "L"]),
        (f"{FIRST_ROWS} B = Transpose<perm = [0, 2, 1]>(A) C = Slice(B, z, o, o) Y = Add(C, X)", ["N", "3", "L"]),
        (f"{FIRST_ROWS} B = Transpose<perm = [0, 2, 1]>(A) Y = Add(B, A)", ["N", "L", "L"]),
        (f"{FIRST_ROWS} Y = Slice(X, o, e, o)", ["N", "?main:Y[1]", "L"]),
        (f"{FIRST_ROWS} B = Slice(X, z, o, o) Y = Slice(B, z, e, o)", ["N", "?main:Y[1]", "L"]),
    ],
)  # fmt: skip
def test_sizes_without_a_number(nodes: str, expected: list[str] | None) -> None:
    """A size that no formula gives is a symbol of its own, named after the value and the axis."""
    assert symbolic(nodes) == expected
