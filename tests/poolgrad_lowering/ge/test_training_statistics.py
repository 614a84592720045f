# SPDX-License-Identifier: Apache-2.0

"""BatchNormalization in training is written in its parts: GE drops the momentum"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import ModelProto

from poolgrad_lowering import export_atc, verify
from tests.oracles import assert_same_bits
from tests.pool_graphs import parse
from tests.poolgrad_lowering.ge.test_rewrites import operators, run

TRAINING = parse(
    """g (float[4,3,5,2] X, float[3] s, float[3] b, float[3] m, float[3] v)
        => (float[4,3,5,2] Y, float[3] M, float[3] V) {
        Y, M, V = BatchNormalization<training_mode = 1, momentum = 0.8, epsilon = 0.001>(X, s, b, m, v)
    }"""
)


@pytest.mark.parametrize("opset", [16, 18])
def test_batch_normalization_in_training_keeps_its_momentum(opset: int) -> None:
    model = ModelProto()
    model.CopyFrom(TRAINING)
    model.opset_import[0].version = opset
    export = export_atc(model)
    assert export.report.converts
    assert "BatchNormalization" not in operators(export.model)
    x = np.random.default_rng(3).normal(1, 2, (4, 3, 5, 2)).astype(np.float32)
    feeds = {
        "X": x,
        **{name: np.array([1, -2, 0.5], np.float32) for name in "sbm"},
        "v": np.array([1, 2, 3], np.float32),
    }
    wide = x.astype(np.float64).transpose(1, 0, 2, 3).reshape(3, -1)
    mean, variance = wide.mean(1), wide.var(1)
    normal = (wide - mean[:, None]) / np.sqrt(variance + 0.001)[:, None] * feeds["s"][:, None] + feeds["b"][:, None]
    expected = [
        normal.reshape(3, 4, 5, 2).transpose(1, 0, 2, 3),
        0.8 * feeds["m"] + 0.2 * mean,
        0.8 * feeds["v"] + 0.2 * variance,
    ]
    for found, onnxruntimes, wanted in zip(run(export.model, feeds), run(model, feeds), expected, strict=True):
        # Sums of 40 numbers of order 4 in float32, and a few roundings: 40 · 2⁻²⁴ of the largest at the very most.
        tolerance = 40 * 2.0**-24 * max(np.abs(wanted).max(), 4)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance)
        np.testing.assert_allclose(onnxruntimes, wanted, rtol=0, atol=tolerance)
    verification = verify(model, export.model)
    assert (verification.differences, verification.whole_model.status) == ((), "same")


def test_batch_normalization_in_training_without_a_running_mean() -> None:
    model = ModelProto()
    model.CopyFrom(TRAINING)
    model.graph.node[0].output[1] = ""
    del model.graph.output[1]
    random = np.random.default_rng(0)
    feeds = {
        value.name: random.normal(size=[dim.dim_value for dim in value.type.tensor_type.shape.dim]).astype(np.float32)
        for value in model.graph.input
    }
    y, _, variance = run(export_atc(TRAINING).model, feeds)
    for found, wanted in zip(run(export_atc(model).model, feeds), (y, variance), strict=True):
        assert_same_bits(found, wanted)


def test_verify_sees_another_momentum() -> None:
    export = export_atc(TRAINING).model
    [kept] = [tensor for tensor in export.graph.initializer if tensor.name.endswith("/kept")]
    kept.CopyFrom(onnx.numpy_helper.from_array(np.array([0.9], np.float32), kept.name))
    assert not verify(TRAINING, export).proven
