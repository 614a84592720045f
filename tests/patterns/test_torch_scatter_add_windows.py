# SPDX-License-Identifier: Apache-2.0

"""PyTorch's form over every kind of window, and in half types: what the lowered node's attributes become."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.helper import tensor_dtype_to_np_dtype
from onnx.parser import parse_graph, parse_model

from poolgrad_lowering import lower
from tests.oracles import assert_same_bits, max_pool_indices, pool_gradient
from tests.patterns.lookalikes.scatter import gradient
from tests.patterns.lowering_checks import backward, check_lowered, known_runners, node_text
from tests.patterns.torch_scatter_text import FORWARD, LOWERED, PLANE_LOCAL

WINDOWS = {  # MaxPool's attributes, the pooled size, the node's attributes
    "tiles": ("kernel_shape=[2,3], strides=[2,3]", (4, 4), "ksize=[1,2,3], strides=[1,2,3], pads=[0,0,0]", 0),
    "gaps": ("kernel_shape=[2,2], strides=[3,4]", (3, 3), "ksize=[1,2,2], strides=[1,3,4], pads=[0,0,0]", 0),
    "stride_one": (
        "kernel_shape=[3,3], pads=[1,1,1,1]",
        (9, 12),
        "ksize=[1,3,3], strides=[1,1,1], pads=[0,1,1]",
        0,
    ),
    "ceil": (
        "kernel_shape=[4,4], strides=[4,5], ceil_mode=1",
        (3, 3),
        "ksize=[1,4,4], strides=[1,4,5], pads=[0,0,0]",
        1,
    ),
    "dilation": (
        "kernel_shape=[3,2], dilations=[2,3]",
        (5, 9),
        "ksize=[1,5,4], strides=[1,1,1], pads=[0,0,0]",
        0,
    ),
    "unequal_pads": (
        "kernel_shape=[3,3], strides=[2,2], pads=[0,1,1,0]",
        (4, 6),
        "ksize=[1,4,4], strides=[1,2,2], pads=[0,1,1]",
        0,
    ),
    "same_upper": (
        'kernel_shape=[3,3], strides=[2,2], auto_pad="SAME_UPPER"',
        (5, 6),
        "ksize=[1,3,4], strides=[1,2,2], pads=[0,1,1]",
        0,
    ),
    "same_lower": (
        'kernel_shape=[2,3], strides=[2,2], auto_pad="SAME_LOWER"',
        (5, 6),
        "ksize=[1,3,4], strides=[1,2,2], pads=[0,1,1]",
        0,
    ),
    "valid": (
        'kernel_shape=[3,3], strides=[2,2], auto_pad="VALID"',
        (4, 5),
        "ksize=[1,3,3], strides=[1,2,2], pads=[0,0,0]",
        0,
    ),
}


def pooled_by(attributes: str, height: int, width: int) -> str:
    """The genuine form over x float[2,3,9,12] with another forward pool."""
    return gradient(
        inputs=f"float[2,3,9,12] x, float[2,3,{height},{width}] dy",
        outputs=f"float[2,3,{height},{width}] y, float[2,3,9,12] dx",
        pool=f"y, i = MaxPool <{attributes}> (x)",
        constants={"row_shape": f"int64[2] row_shape = {{6, {height * width}}}"},
    )


@pytest.mark.parametrize(("attributes", "size", "window", "ceil"), WINDOWS.values(), ids=WINDOWS)
def test_windows(attributes: str, size: tuple[int, int], window: str, ceil: int) -> None:
    check_lowered(
        pooled_by(attributes, *size),
        f"""{PLANE_LOCAL.replace(FORWARD, f"y, i = MaxPool <{attributes}> (x)")}
            dx_argmax = Cast <to=6> (p)
            {backward(window=f"{window}, dilation=[1,1,1], ceil_mode={ceil}")}""",
    )


def test_padding_beyond_half_the_kernel_takes_a_canvas() -> None:
    attributes = "kernel_shape=[3,3], strides=[3,2], pads=[2,1,2,1]"
    check_lowered(
        pooled_by(attributes, 4, 6),
        f"""{PLANE_LOCAL.replace(FORWARD, f"y, i = MaxPool <{attributes}> (x)")}
            dx_origin = Constant <value = int64 {{24}}> ()
            dx_canvas_index = Add (p, dx_origin)
            dx_argmax = Cast <to=6> (dx_canvas_index)
            dx_margins = Constant <value = int64[8] {{0, 0, 2, 0, 0, 0, 1, 0}}> ()
            dx_canvas = Pad (x, dx_margins)
            {
            backward(
                "dx_canvas, dy, dx_argmax",
                "dx_MaxPool3DGradWithArgmax",
                window="ksize=[1,3,3], strides=[1,3,2], pads=[0,0,1], dilation=[1,1,1], ceil_mode=0",
            )
        }
            dx_starts = Constant <value = int64[2] {{2, 0}}> ()
            dx_ends = Constant <value = int64[2] {{11, 12}}> ()
            dx_axes = Constant <value = int64[2] {{2, 3}}> ()
            dx = Slice (dx_MaxPool3DGradWithArgmax, dx_starts, dx_ends, dx_axes)""",
    )


# MaxPool takes bfloat16 from opset 22 on.
@pytest.mark.parametrize(("element_type", "number", "opset"), [("float16", 10, 18), ("bfloat16", 16, 22)])
def test_half_types_are_scattered_in_float32(element_type: str, number: int, opset: int) -> None:
    if tensor_dtype_to_np_dtype(number).itemsize != 2:
        pytest.skip("this onnx has no bfloat16 to compute with")
    check_lowered(
        gradient(
            inputs=f"{element_type}[2,3,9,12] x, {element_type}[2,3,5,6] dy",
            outputs=f"{element_type}[2,3,5,6] y, {element_type}[2,3,9,12] dx",
            updates="v = Reshape (dy, row_shape)\nu = Cast <to=1> (v)",
            result=f"w = Reshape (s, x_shape)\ndx = Cast <to={number}> (w)",
        ).replace('"": 18', f'"": {opset}'),
        LOWERED,
    )


def test_sums_in_a_half_type_are_rounded_once() -> None:
    """The lowered node adds in float32: held against the definition, since the scatter itself rounds every sum."""
    model = parse_model(
        gradient(
            inputs="float16[2,3,9,12] x, float16[2,3,5,6] dy",
            outputs="float16[2,3,5,6] y, float16[2,3,9,12] dx",
            canvas="w = Expand (zero, canvas_shape)\nz = Cast <to=10> (w)",
        )
    )
    random = np.random.default_rng(0)
    x = random.choice([0, 1, 2], (2, 3, 9, 12)).astype(np.float16)
    dy = random.standard_normal((2, 3, 5, 6)).astype(np.float16)
    lowered = lower(model, forward=False).model
    assert node_text(lowered.graph) == node_text(parse_graph(f"g () => () {{ {LOWERED} }}"))
    expected = pool_gradient(x.shape, dy, max_pool_indices(x, [3, 3], [2, 2], [1, 1, 1, 1]))
    for result in (lowered, lower(model).model):
        for run in known_runners(result):
            assert_same_bits(run(result, {"x": x, "dy": dy})["dx"], expected)
