# SPDX-License-Identifier: Apache-2.0

"""The bodies of adaptive pools that reduce: the definition where it is complete, elsewhere the bits of ReduceMax."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from poolgrad_lowering.dialect.op import Maximum
from tests.heads import head
from tests.oracles import assert_same_bits, run_ort, run_reference
from tests.pool_models import ADAPTIVE, CASES, PoolCase, pool_model
from tests.poolgrad_lowering.dialect.dialect_models import DTYPES

OPSETS = [12, 13, pytest.param(15, marks=pytest.mark.long), 18, pytest.param(20, marks=pytest.mark.long)]
WHOLE = {
    "line": PoolCase(ADAPTIVE, (2, 3, 11), output_size=(1,)),
    "rows": PoolCase(ADAPTIVE, (2, 3, 5, 7), output_size=(5, 1)),
    "columns": PoolCase(ADAPTIVE, (2, 3, 5, 7), output_size=(1, 7)),
    "plane": PoolCase(ADAPTIVE, (2, 3, 5, 7), output_size=(1, 1)),
    "elements": PoolCase(ADAPTIVE, (2, 3, 5, 7), output_size=(5, 7)),
    "depth": PoolCase(ADAPTIVE, (2, 3, 4, 5, 6), output_size=(1, 5, 6)),
    "height": PoolCase(ADAPTIVE, (2, 3, 4, 5, 6), output_size=(4, 1, 6)),
    "width": PoolCase(ADAPTIVE, (2, 3, 4, 5, 6), output_size=(4, 5, 1)),
    "cube": PoolCase(ADAPTIVE, (2, 3, 4, 5, 6), output_size=(1, 1, 1)),
}
GATHERED = {name: case for name, case in CASES.items() if case.op == ADAPTIVE}
BODIES = [
    *(pytest.param(Maximum.WHOLE, case, id=f"whole {name}") for name, case in WHOLE.items()),
    *(
        pytest.param(maximum, case, id=f"{maximum.value} {name}")
        for maximum in (Maximum.GATHERED, Maximum.FILLED)
        for name, case in {**GATHERED, **WHOLE}.items()
    ),
]


def drawn(shape: tuple[int, ...], dtype: Any) -> Any:
    """Ties and infinities, without −0.0 and NaN, of which the definition says other things."""
    drawn = np.random.default_rng(len(shape)).choice([-2.0, 0.0, 1.0, 2.0, np.inf], shape)
    return drawn.astype(dtype)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize(("maximum", "case"), BODIES)
def test_the_definition(maximum: Maximum, case: PoolCase, opset: int) -> None:
    for element_type, dtype in DTYPES.items():
        if element_type == TensorProto.BFLOAT16 and opset < (16 if maximum is Maximum.FILLED else 13):
            continue
        x = drawn(case.x_shape, dtype)
        y, argmax = case.expected(x)
        symbolic = [None] * len(case.x_shape)
        model = pool_model(case.op, case.attributes(), opset, symbolic, element_type=element_type, maximum=maximum)
        onnx.checker.check_model(model, full_check=True)
        edge = np.float32 if element_type == TensorProto.BFLOAT16 else dtype
        runners = [run_reference] if element_type == TensorProto.BFLOAT16 else [run_reference, run_ort]
        for run in runners:
            found = run(model, {"x": x.astype(edge)})
            assert_same_bits(found["y"], y.astype(edge))
            assert_same_bits(found["argmax"], argmax.astype(np.int32))


@pytest.mark.parametrize("axis", [2, 3, None])
def test_whole_axes_are_reduced_as_they_lie(axis: int | None) -> None:
    """With zeros of both signs and NaN: the bits of ReduceMax over x, in each evaluator."""
    axes = [2, 3] if axis is None else [axis]
    case = PoolCase(ADAPTIVE, (2, 3, 9, 17), output_size=(1 if 2 in axes else 9, 1 if 3 in axes else 17))
    model = pool_model(case.op, case.attributes(), 18, [None] * 4, maximum=Maximum.WHOLE)
    reduced = onnx.parser.parse_model(
        f"""{head(18)} g (float[2,3,9,17] x) => (float[2,3,P,Q] y)
        <int64[{len(axes)}] axes = {{{",".join(map(str, axes))}}}> {{ z = Identity (x) y = ReduceMax (z, axes) }}"""
    )
    for seed in range(20):
        x = np.random.default_rng(seed).choice([0.0, -0.0, -1.0, np.nan][: 2 + seed % 3], case.x_shape)
        feeds = {"x": x.astype(np.float32)}
        for run in (run_reference, run_ort):
            assert_same_bits(run(model, feeds)["y"], run(reduced, feeds)["y"])
