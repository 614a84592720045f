# SPDX-License-Identifier: Apache-2.0

"""The bodies of the pools give the bits of the definition, in onnx's reference evaluator and in onnxruntime."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx
import onnx.inliner
import pytest
from onnx import TensorProto, parser

from poolgrad_lowering.dialect import NoFunctionBodyError, function_body
from tests.heads import head
from tests.oracles import assert_same_bits, run_ort
from tests.pool_models import ADAPTIVE, CASES, POOL_2D, POOL_3D, PoolCase, pool_model, values_with_ties
from tests.poolgrad_lowering.dialect.dialect_models import DTYPES, INDEX_DTYPES

GENERATIONS = [10, 12, 13, 15, 18]
"""One opset of each spelling, and those where an operator of the bodies changed its form."""
ADAPTIVE_GENERATIONS = GENERATIONS[1:]

FLAT = PoolCase(POOL_2D, (2, 3, 8, 9), (3, 2), (2, 1), (1, 1), (1, 1))
DILATED = PoolCase(POOL_2D, (2, 3, 8, 9), (3, 2), (2, 1), (1, 1), (2, 3))


def max_pool(case: PoolCase) -> onnx.ModelProto:
    """A case with two spatial axes in ONNX's own words."""
    shape, kernel, strides, dilations = map(list, (case.x_shape, case.ksize, case.strides, case.dilation))
    pads = [*case.pads, *case.pads]
    return parser.parse_model(
        f"""{head(12)} g (float{shape} x) => (float[a,b,c,d] y, int64[a,b,c,d] indices) {{
        y, indices = MaxPool <kernel_shape = {kernel}, strides = {strides}, pads = {pads}, dilations = {dilations}> (x)
        }}"""
    )


@functools.cache
def max_pool_knows_minus_infinity() -> bool:
    """Whether this onnxruntime's MaxPool finds the maximum of a window of -inf, which older ones do not."""
    results = run_ort(max_pool(FLAT), {"x": np.full((2, 3, 8, 9), -np.inf, np.float32)})
    return bool((results["y"] == -np.inf).all())


def run_case(case: PoolCase, opset: int, element_type: int, index_type: int = TensorProto.INT32) -> None:
    """Hold onnxruntime against the definition."""
    x = values_with_ties(case.x_shape, DTYPES[element_type], seed=opset)
    if not max_pool_knows_minus_infinity():
        x = np.maximum(x, DTYPES[element_type](-2))
    y, argmax = case.expected(x)
    model = pool_model(
        case.op,
        case.attributes(index_type),
        opset,
        [None] * len(case.x_shape),
        element_type=element_type,
        index_type=index_type,
    )
    onnx.checker.check_model(model, full_check=True)
    edge = np.float32 if element_type == TensorProto.BFLOAT16 else DTYPES[element_type]
    results = run_ort(model, {"x": x.astype(edge)})
    assert_same_bits(results["y"], y.astype(edge))
    assert_same_bits(results["argmax"], argmax.astype(INDEX_DTYPES[index_type]))


def with_opsets(names: Iterable[str], opsets: Iterable[int]) -> list[Any]:
    """Cases with each of the opsets that has a body."""
    pairs = itertools.product(names, opsets)
    return [
        pytest.param(CASES[name], opset, id=f"{name}-{opset}")
        for name, opset in pairs
        if CASES[name].op != ADAPTIVE or opset >= ADAPTIVE_GENERATIONS[0]
    ]


@pytest.mark.parametrize(("case", "opset"), with_opsets(["2d in 3d, ceil", "2d", "adaptive 2d"], GENERATIONS))
def test_every_type(case: PoolCase, opset: int) -> None:
    pytest.importorskip("onnxruntime")
    for element_type, index_type in itertools.product(DTYPES, INDEX_DTYPES):
        if element_type != TensorProto.BFLOAT16 or opset >= 13:
            run_case(case, opset, element_type, index_type)


@pytest.mark.parametrize("case", [FLAT, DILATED], ids=["flat", "dilated"])
@pytest.mark.parametrize("opset", GENERATIONS)
def test_nan_of_a_windowed_pool_is_that_of_max_pool(opset: int, case: PoolCase) -> None:
    pytest.importorskip("onnxruntime")
    if not max_pool_knows_minus_infinity():
        pytest.skip("nor does this onnxruntime know windows of NaN")
    x = values_with_ties(case.x_shape)
    x[np.random.default_rng(0).random(x.shape) < 0.2] = np.nan
    expected = run_ort(max_pool(case), {"x": x})
    results = run_ort(pool_model(POOL_2D, case.attributes(), opset, x.shape), {"x": x})
    assert_same_bits(results["y"], expected["y"])
    assert_same_bits(results["argmax"], (expected["indices"] % 72).astype(np.int32))


@pytest.mark.parametrize("opset", ADAPTIVE_GENERATIONS)
def test_nan_of_an_adaptive_pool_outranks_all_and_the_last_wins(opset: int) -> None:
    pytest.importorskip("onnxruntime")
    x = values_with_ties((2, 3, 7, 9))
    x[np.random.default_rng(0).random(x.shape) < 0.2] = np.nan
    case = PoolCase(ADAPTIVE, x.shape, output_size=(3, 4))
    y, argmax = case.expected(x)
    results = run_ort(pool_model(ADAPTIVE, case.attributes(), opset, x.shape), {"x": x})
    assert_same_bits(results["y"], y)
    assert_same_bits(results["argmax"], argmax.astype(np.int32))


@pytest.mark.parametrize(
    ("op", "opset", "element_type", "advice"),
    [
        (POOL_3D, 9, TensorProto.FLOAT, "opset 10 or newer"),
        (POOL_2D, 9, TensorProto.FLOAT16, "opset 10 or newer"),
        (ADAPTIVE, 11, TensorProto.FLOAT, "opset 12 or newer"),
        *((op, 12, TensorProto.BFLOAT16, "opset 13 or newer") for op in (POOL_3D, POOL_2D, ADAPTIVE)),
        (ADAPTIVE, 17, TensorProto.DOUBLE, "expected one of FLOAT, FLOAT16, BFLOAT16"),
    ],
)
def test_no_body(op: str, opset: int, element_type: int, advice: str) -> None:
    with pytest.raises(NoFunctionBodyError, match=advice):
        function_body(op, opset, [element_type])
