# SPDX-License-Identifier: Apache-2.0

"""Windows that runtimes drop and onnx's shape inference counts: sizes of a site's inputs are those of runtimes."""

from __future__ import annotations

import onnx
import pytest
from onnx import ModelProto

from poolgrad_lowering import lower, verify
from poolgrad_lowering.verification.graph.types import tensor_types
from tests.pool_graphs import parse


def nested(outer: str, pooled: str, dy: str) -> ModelProto:
    """A pool that drops a window, and a pool over its output with its gradient, which alone is lowered."""
    return parse(
        f"""g (float[2,1,5,2] x, float{dy} dy) => (float[2,1,{pooled}] dp) {{
            p = MaxPool <{outer}, ceil_mode=1> (x)
            y, i = MaxPool <kernel_shape=[2,1]> (p)
            dp = MaxPoolGrad (dy, i)
        }}"""
    )


DROPPING = {
    "kernel_of_one": ("kernel_shape=[2,1], strides=[1,2]", "4,1", "[2,1,3,1]"),
    "end_padding": ("kernel_shape=[2,2], strides=[2,3], pads=[0,0,1,1]", "3,1", "[2,1,2,1]"),
    "one_axis_keeps_its_last": ("kernel_shape=[2,1], strides=[2,2]", "3,1", "[2,1,2,1]"),
}


@pytest.mark.parametrize("described", [False, True])
@pytest.mark.parametrize(("outer", "pooled", "dy"), DROPPING.values(), ids=DROPPING)
def test_sizes_are_those_of_runtimes(outer: str, pooled: str, dy: str, described: bool) -> None:
    """Also where a tool has written what inference counts."""
    model = nested(outer, pooled, dy)
    if described:
        model = onnx.shape_inference.infer_shapes(model)
    found = tensor_types(model)["p"].dims
    assert found == (2, 1, *map(int, pooled.split(",")))
    result = lower(model)
    assert len(result.report.lowered) == 1
    verified = verify(model, result.model)
    assert verified.proven, verified.first_failure
