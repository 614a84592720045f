# SPDX-License-Identifier: Apache-2.0

"""Chains of operators that keep or broadcast shapes: the same shapes as node by node, without objects for the nodes."""

from __future__ import annotations

import pytest

from poolgrad_lowering.model.ir.dims import static_dims
from tests.pool_graphs import main_value, parse

SHAPES = [
    ("Y = Add(a, b)", (4, 2, 3)),
    ("p = Relu(a)  q = Neg(b)  r = Mul(p, q)  Y = Sub(r, a)", (4, 2, 3)),
    ("p = Where(c, a, b)  Y = Max(p, a, one)", (4, 2, 3)),
    ("p, m = Dropout(a)  Y = Neg(m)", (2, 3)),
    ("p = Neg(one)  q = Neg(p)  Y = Add(q, p)", ()),
    ("p = Relu(Y0)  Y = Add(p, a)", None),
    ("p = Relu(a)  Y = Add(p, seven)", None),
    ("Y = Relu()", None),
    ("Y = Sum()  Z = Add(a, b)", None),
]


@pytest.mark.parametrize(("nodes", "expected"), SHAPES)
def test_shapes(nodes: str, expected: tuple[int, ...] | None) -> None:
    model = parse(
        f"""g (float[2,3] a, float[4,1,3] b, bool[2,1] c, float[7] seven) => (Y) {{
            Y0 = other.Foo(a)  one = Constant<value = float {{1}}>()  {nodes} }}""",
        imports='"other": 1',
    )
    facts, value = main_value(model, "Y")
    assert facts.shape(value) == (None if expected is None else static_dims(expected))
