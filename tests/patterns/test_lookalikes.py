# SPDX-License-Identifier: Apache-2.0

"""Look-alikes: gradients are lowered to the same bits, all others refused; the table says what they compute."""

from __future__ import annotations

import onnx
import pytest

from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.oracles import assert_same_bits, max_pool_indices, pool_gradient, run_ort, run_reference
from tests.patterns.lookalikes import LOOKALIKES, Lookalike
from tests.patterns.lowering_checks import TARGETS, NearMisses, check_refused, check_same_results, near_misses
from tests.texts import Says

each_row = pytest.mark.parametrize("row", LOOKALIKES.values(), ids=LOOKALIKES)
# onnx's checker and onnxruntime without training know no MaxPoolGrad.
STANDARD = {name: row for name, row in LOOKALIKES.items() if not name.startswith("Q")}
each_standard_row = pytest.mark.parametrize("row", STANDARD.values(), ids=STANDARD)


def equals_the_gradient(row: Lookalike, seed: int) -> bool:
    """Run the row's model; is its output, bit for bit, the pool gradient of its operands?"""
    feeds = row.feeds(seed)
    result = run_reference(row.build(), feeds)[row.output]
    x, dy = row.operands(feeds)
    indices = max_pool_indices(x, row.window.kernel_shape, row.window.strides, row.window.pads)
    try:
        assert_same_bits(result, pool_gradient(x.shape, dy, indices))
    except AssertionError:
        return False
    return True


@each_row
def test_shapes_are_consistent(row: Lookalike) -> None:
    onnx.shape_inference.infer_shapes(row.build(), strict_mode=True)


@each_standard_row
def test_model_is_valid(row: Lookalike) -> None:
    onnx.checker.check_model(row.build(), full_check=True)


@each_row
def test_numerical_truth(row: Lookalike) -> None:
    """A gradient is one for every seed; an impostor is caught at the first."""
    is_gradient = row.is_gradient or row.code is None
    seeds = range(3) if is_gradient else range(1)
    assert [equals_the_gradient(row, seed) for seed in seeds] == [is_gradient] * len(seeds)


@each_standard_row
def test_onnxruntime_agrees(row: Lookalike) -> None:
    pytest.importorskip("onnxruntime")
    model, feeds = row.build(), row.feeds()
    expected = run_ort(model, feeds)
    for name, value in run_reference(model, feeds).items():
        assert_same_bits(value, expected[name])


GRADIENTS = {name: row for name, row in LOOKALIKES.items() if row.code is None}
IMPOSTORS: NearMisses = {(row.code, name): row.build() for name, row in LOOKALIKES.items() if row.code}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("row", GRADIENTS.values(), ids=GRADIENTS)
def test_gradients_are_lowered(row: Lookalike, target: str) -> None:
    model = row.build()
    result = lower(model, target=target)
    [anchor] = result.report.lowered
    assert anchor.forward_code == (Code.FORWARD_READERS.value if row.stays else None)
    for seed in range(2):
        check_same_results(model, result.model, row.feeds(seed))


@pytest.mark.parametrize(("code", "model"), near_misses(IMPOSTORS))
def test_impostors_are_refused(code: Code, model: onnx.ModelProto, says: Says) -> None:
    for target in TARGETS:
        says(check_refused(model, code, target=target))
