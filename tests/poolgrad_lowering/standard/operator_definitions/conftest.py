# SPDX-License-Identifier: Apache-2.0

"""Runs each test of a definition a second time, marked `training`, on the kernel that the definition stands for.

The operators then stay in the models, so that their results are those of onnxruntime-training's kernels.
"""

from __future__ import annotations

import re

import pytest

from tests.poolgrad_lowering.standard.operator_definitions import cases

DIFFERENCES = {
    r"auto_pad\[.*SAME": "The kernel pads by `pads` alone.",
    r"one_operand\[(FastGelu|QuickGelu)-float64": "There is no kernel of doubles.",
    r"one_operand\[(BiasFast|Leaky|LogSoftmax|QuickGeluG|Relu|Softmax)\w*-float64": "There is no kernel of doubles.",
    r"one_operand\[FastGeluGrad-float64": "The kernel of doubles has constants of float32.",
    r"test_(batch_norm|batch_norm_grad|layer_norm)\[.*float64": "There is no kernel of doubles.",
    r"test_layer_norm_grad\[.*float(16|64)": "There is a function for opset 17 and older.",
    r"test_masks_at_the_edges": "There is no kernel of PyTorch's domain.",
    r"_in_float16_\w+_in_float32|float16_sums": "onnx's evaluator runs them, which has no kernel.",
    r"test_dropout_grad\[(None|0.3)-False": "The kernel does not read training_mode.",
    r"test_dropout_grad\[0.0-(None|True)-.*float32": "With a ratio of 0 the kernel does not read the mask.",
    r"test_scale\[float64-.*-1-kernel": "The kernel of doubles has the inverse of the scale in float32.",
    r"test_accumulator": "The kernel writes over the buffer, and returns it as its second output.",
    r"bias\[SoftmaxCrossEntropyLossGrad": "The kernel has no such operand.",
    r"broadcast_axes\[a3": "The kernel gives the axes in another order.",
    r"test_equal_split": "The kernel needs the lengths.",
    r"test_slice_grad\[.*(float16|backwards)": "The kernel takes no float16, and no negative step.",
}
"""By what is in a test's name, why the kernel is no measure of it. A test that passes nevertheless is a failure."""


@pytest.hookimpl(trylast=True)  # behind the parameters of the test, for its name
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test marked `without_kernel` runs once."""
    has_kernel = metafunc.definition.get_closest_marker("without_kernel") is None
    kernel = [pytest.param("kernel", marks=pytest.mark.training)] if has_kernel else []
    metafunc.parametrize("computed_by", ["definition", *kernel], indirect=True)


@pytest.fixture(autouse=True)
def computed_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What computes the operators of a test."""
    if request.param == "kernel":
        monkeypatch.setattr(cases, "KERNELS", True)
        for part, reason in DIFFERENCES.items():
            if re.search(part, request.node.name):
                request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
