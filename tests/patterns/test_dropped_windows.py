# SPDX-License-Identifier: Apache-2.0

"""A last window that would start behind the input: onnxruntime drops it, onnx's shape inference counts it."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto

from poolgrad_lowering import lower, verify
from tests.oracles import assert_same_bits, run_ort
from tests.pool_graphs import parse

FEEDS = {"x": np.array([[[1, 2]]], np.float32), "dy": np.array([[[3]]], np.float32)}


def gradient(incoming: str) -> ModelProto:
    """A kernel of 1 with stride 2 over 2 elements, rounded up: one window."""
    return parse(
        f"""g (float[1,1,2] x, float[1,1,1] dy) => (float[1,1,2] dx)
            <int64[2] rows = {{1, -1}}, int64[3] shape = {{1, 1, 2}}, float[1,2] zeros = {{0, 0}}> {{
            y, i = MaxPool <kernel_shape=[1], strides=[2], ceil_mode=1> (x)
            {incoming}
            r = Reshape (i, rows)
            u = Reshape (d, rows)
            s = ScatterElements <axis=1, reduction="add"> (zeros, r, u)
            dx = Reshape (s, shape)
        }}""",
        opset=18,
    )


@pytest.mark.parametrize("target", ["atlas-a2", "ascend950"])
@pytest.mark.parametrize("forward", [False, True])
def test_gradient_of_the_windows_that_are_left(target: str, forward: bool) -> None:
    pytest.importorskip("onnxruntime")
    model = gradient("d = Identity (dy)")
    result = lower(model, target=target, forward=forward)
    assert len(result.report.lowered) == 1
    assert verify(model, result.model).proven
    expected = np.array([[[3, 0]]], np.float32)
    for each in (model, result.model):
        assert_same_bits(run_ort(each, FEEDS)["dx"], expected)


@pytest.mark.parametrize("behind", ["Relu (y)", "Elu (y)", "Conv (y, w)", "Clip (y)"])
def test_what_is_computed_from_the_windows(behind: str) -> None:
    """Shape inference would say that it has two of them."""
    model = gradient(f"w = Constant <value = float[1,1,1] {{2}}> () c = {behind} d = Mul (c, dy)")
    result = lower(model)
    assert len(result.report.lowered) == 1
    assert verify(model, result.model).proven
    pytest.importorskip("onnxruntime")
    assert_same_bits(run_ort(result.model, FEEDS)["dx"], run_ort(model, FEEDS)["dx"])
