# SPDX-License-Identifier: Apache-2.0

"""Gradients of half types with fewer elements than cores are refused where AvgPool3DGrad would compute them."""

from __future__ import annotations

import pytest
from onnx import ModelProto

from poolgrad_lowering import lower
from tests.pool_graphs import parse


def gradient(elements: str, x: str, dy: str, pool: str = "kernel_shape = [2], pads = [1, 1]") -> ModelProto:
    return parse(
        f"""g ({elements}[{x}] x, {elements}[{dy}] dy) => ({elements}[{dy}] y, {elements}[{x}] dx) {{
            y = AveragePool<{pool}>(x)
            dx = AveragePoolGrad<{pool}>(dy)
        }}"""
    )


PLANE = "kernel_shape = [2, 2], pads = [1, 1, 1, 1]"


@pytest.mark.refusal("few-elements")
@pytest.mark.parametrize("elements", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("target", "x", "dy", "pool"),
    [
        ("atlas-a2", "1,1,2", "1,1,3", "kernel_shape = [2], pads = [1, 1], count_include_pad = 1"),
        ("atlas-a3", "3,4,3", "3,4,4", "kernel_shape = [2], pads = [1, 1]"),
        ("atlas-a2", "1,1,47", "1,1,48", "kernel_shape = [2], pads = [1, 1]"),
        ("atlas-a2", "1,1,3,4", "1,1,4,5", PLANE),
        ("ascend950", "1,1,71", "1,1,72", "kernel_shape = [2], pads = [1, 1]"),
        ("ascend950", "1,2,1,2,3", "1,2,2,3,4", "kernel_shape = [2, 2, 2], pads = [1, 1, 1, 1, 1, 1]"),
    ],
)
def test_fewer_elements_than_cores(elements: str, target: str, x: str, dy: str, pool: str) -> None:
    model = gradient(elements, x, dy, pool)
    result = lower(model, target=target)
    [anchor] = result.report.anchors
    assert (anchor.status, anchor.code) == ("refused", "few-elements")
    assert "windows over" in (anchor.reason or "")
    assert result.model == model


@pytest.mark.parametrize(
    ("target", "elements", "x", "dy", "pool"),
    [
        ("atlas-a2", "float", "1,1,2", "1,1,3", "kernel_shape = [2], pads = [1, 1]"),
        ("atlas-a2", "float16", "1,1,48", "1,1,49", "kernel_shape = [2], pads = [1, 1]"),
        ("atlas-a2", "float16", "1,1,5", "1,1,5", "kernel_shape = [3], pads = [1, 1]"),
        ("atlas-a2", "float16", "1,1,3,6", "1,1,4,3", "kernel_shape = [2, 2], strides = [1, 2], pads = [1, 0, 1, 0]"),
        ("atlas-a2", "float16", "N,1,2", "N,1,3", "kernel_shape = [2], pads = [1, 1]"),
        ("ascend950", "float16", "1,1,3,4", "1,1,4,5", PLANE),
    ],
)
def test_near_misses_are_lowered(target: str, elements: str, x: str, dy: str, pool: str) -> None:
    [anchor] = lower(gradient(elements, x, dy, pool), target=target).report.anchors
    assert anchor.status == "lowered", anchor


def test_a_canvas_counts_its_padding() -> None:
    """Pads that are not equal need a canvas, which has as many elements as windows."""
    pool = "kernel_shape = [2], pads = [0, 1]"
    [anchor] = lower(gradient("float16", "1,1,3", "1,1,3", pool)).report.anchors
    assert anchor.status == "lowered", anchor
