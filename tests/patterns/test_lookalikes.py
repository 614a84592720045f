# SPDX-License-Identifier: Apache-2.0

"""The table of look-alikes holds what it claims: valid models, and the numerical truth of every row."""

from __future__ import annotations

import onnx
import pytest

from tests.oracles import assert_same_bits, max_pool_indices, pool_gradient, run_ort, run_reference
from tests.patterns.lookalikes import LOOKALIKES, Lookalike

ROWS = [pytest.param(row, id=name) for name, row in LOOKALIKES.items()]
# onnx's checker and onnxruntime without training know no MaxPoolGrad.
STANDARD_ROWS = [pytest.param(row, id=name) for name, row in LOOKALIKES.items() if not name.startswith("Q")]


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


def test_every_family_is_complete() -> None:
    numbers = {name.split("_")[0] for name in LOOKALIKES}
    assert numbers >= {f"P{k}" for k in range(3)} | {f"N{k:02}" for k in range(1, 27)} | {f"Q{k}" for k in range(1, 8)}


@pytest.mark.parametrize("row", ROWS)
def test_shapes_are_consistent(row: Lookalike) -> None:
    onnx.shape_inference.infer_shapes(row.build(), strict_mode=True)


@pytest.mark.parametrize("row", STANDARD_ROWS)
def test_model_is_valid(row: Lookalike) -> None:
    onnx.checker.check_model(row.build(), full_check=True)


@pytest.mark.parametrize("row", ROWS)
def test_numerical_truth(row: Lookalike) -> None:
    """A gradient is one for every seed; an impostor is caught at the first."""
    seeds = range(3) if row.is_gradient else range(1)
    assert [equals_the_gradient(row, seed) for seed in seeds] == [row.is_gradient] * len(seeds)


@pytest.mark.parametrize("row", STANDARD_ROWS)
def test_onnxruntime_agrees(row: Lookalike) -> None:
    pytest.importorskip("onnxruntime")
    model, feeds = row.build(), row.feeds()
    expected = run_ort(model, feeds)
    for name, value in run_reference(model, feeds).items():
        assert_same_bits(value, expected[name])


@pytest.mark.parametrize("row", ROWS)
def test_only_gradients_are_lowered(row: Lookalike) -> None:
    assert row.reason
    assert row.is_gradient or row.expected == "refused"
