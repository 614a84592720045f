# SPDX-License-Identifier: Apache-2.0

"""The example of each operator in standard ONNX, at every opset and for batches of no and of one element."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import poolgrad_lowering
from models.training_operators import OPERATORS, example
from tests.oracles import assert_same_bits, run_ort
from tests.oracles import training_operators as oracle
from tests.poolgrad_lowering.standard.operator_definitions.cases import F32, F64
from tests.poolgrad_lowering.standard.operator_definitions.examples import EXAMPLES, OLDEST, SINCE, operands
from tests.poolgrad_lowering.standard.standard_models import TOLERANCES, assert_close, assert_derived, standardised

pytestmark = pytest.mark.without_kernel


def test_every_operator_has_an_expected_result() -> None:
    missing = sorted(set(OPERATORS) - set(EXAMPLES))
    assert not missing, f"add to EXAMPLES how numpy computes the results of the example of {', '.join(missing)}"
    assert list(EXAMPLES) == list(OPERATORS)


@pytest.mark.parametrize("opset", [11, 12, 13, 15, 18, 21])
@pytest.mark.parametrize("operator", EXAMPLES)
def test_examples(operator: str, opset: int) -> None:
    model = example(operator, opset)
    if opset < OLDEST.get(operator, 11):
        report = poolgrad_lowering.lower(model, standard=True).report.standard
        assert report is not None
        assert [node.code for node in report.left] == ["old-opset"]
        return
    feeds = operands(operator, model)
    found = run_ort(standardised(model), feeds)
    if operator != "InPlaceAccumulatorV2" and opset >= SINCE.get(operator, 0):
        assert_derived(model, found, unknown=True)
    expected = oracle.as_given(EXAMPLES[operator](*feeds.values()))
    for result, array in zip(found.values(), expected, strict=True):
        if array.dtype == F64 and result.dtype != F64:
            assert_close(result, array, F32)
        else:
            assert_same_bits(result, array)


WITH_BATCH = [
    name
    for name in EXAMPLES
    if any(dim.dim_param == "N" for value in example(name).graph.input for dim in value.type.tensor_type.shape.dim)
]


@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("operator", WITH_BATCH)
def test_examples_without_or_with_one_element_in_the_batch(operator: str, batch: int) -> None:
    """A mean of no elements is open."""
    model = example(operator)
    feeds = operands(operator, model, batch)
    found = run_ort(standardised(model), feeds)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = oracle.as_given(EXAMPLES[operator](*feeds.values()))
    for result, array in zip(found.values(), expected, strict=True):
        assert result.shape == array.shape
        known = np.isfinite(array.astype(F64))
        assert_close(result[known], array[known], result.dtype, TOLERANCES[np.dtype(F32)])
