# SPDX-License-Identifier: Apache-2.0

"""onnxruntime training's form, text in and text out: every spelling of it that is lowered, and to what."""

from __future__ import annotations

import math

import pytest

from tests.heads import head
from tests.patterns.lookalikes.maxpoolgrad import gradient
from tests.patterns.lowering_checks import backward, check_lowered

SHAPES = "float[2,3,9,12] x, float[2,3,{}] dy", "float[2,3,{}] y, float[2,3,9,12] dx"
LOWERED = f"""y, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)
    dx_plane = Constant <value = int64 {{108}}> ()
    dx_plane_index = Mod (i, dx_plane)
    dx_argmax = Cast <to=6> (dx_plane_index)
    {backward()}"""


def test_as_the_gradient_builder_writes_it() -> None:
    lowered = check_lowered(
        head(17)
        + """
        g (float[2,3,9,12] x, float[2,3,5,6] dy) => (float[2,3,5,6] y, float[2,3,9,12] dx) {
            y, i = MaxPool <storage_order=0, auto_pad="NOTSET", ceil_mode=0, dilations=[1,1],
                kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]> (x)
            dx = MaxPoolGrad <storage_order=0, auto_pad="NOTSET", ceil_mode=0, dilations=[1,1],
                kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]> (dy, i)
        }""",
        """
            y, i = MaxPool <storage_order=0, auto_pad="NOTSET", ceil_mode=0, dilations=[1,1],
                kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]> (x)
            dx_plane = Constant <value = int64 {108}> ()
            dx_plane_index = Mod (i, dx_plane)
            dx_argmax = Cast <to=6> (dx_plane_index)
            dx = npu.MaxPool3DGradWithArgmax <
                ksize=[1,3,3], strides=[1,2,2], pads=[0,1,1], dilation=[1,1,1], ceil_mode=0, data_format="NCDHW"
            > (x, dy, dx_argmax)
        """,
    )
    assert [(entry.domain, entry.version) for entry in lowered.opset_import] == [("", 17), ("npu", 1)]
    assert [function.name for function in lowered.functions] == ["MaxPool3DGradWithArgmax"]


def test_two_axes_on_ascend950() -> None:
    check_lowered(
        gradient(),
        """y, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)
            dx_plane = Constant <value = int64 {108}> ()
            dx_plane_index = Mod (i, dx_plane)
            dx_argmax = Cast <to=6> (dx_plane_index)
            dx = npu.MaxPoolGradWithArgmaxV3 <
                ksize=[3,3], strides=[2,2], pads=[1,1], dilation=[1,1], ceil_mode=0, dtype=3, data_format="NCHW"
            > (x, dy, dx_argmax)""",
        target="ascend950",
    )


def test_older_producers_copy_no_attributes() -> None:
    check_lowered(gradient(attributes=""), LOWERED)


@pytest.mark.parametrize("opset", [10, 11, 12, 13, 14, 15, 16, 17, 18, 21, 23])
def test_opsets(opset: int) -> None:
    check_lowered(gradient().replace('"": 17', f'"": {opset}'), LOWERED)


def test_before_there_was_mod() -> None:
    check_lowered(
        gradient().replace('"": 17', '"": 9'),
        """y, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)
            dx_plane = Constant <value = int64 {108}> ()
            dx_plane_number = Div (i, dx_plane)
            dx_plane_first = Mul (dx_plane_number, dx_plane)
            dx_plane_index = Sub (i, dx_plane_first)
            dx_argmax = Cast <to=6> (dx_plane_index)
            dx = npu.MaxPool3DGradWithArgmax <
                ksize=[1,3,3], strides=[1,2,2], pads=[0,1,1], dilation=[1,1,1], ceil_mode=0, data_format="NCDHW"
            > (x, dy, dx_argmax)""",
    )


WINDOWS = {  # MaxPool's attributes, x's and the pooled spatial sizes, the node's attributes
    "one_axis": (
        "kernel_shape=[3], strides=[2], pads=[1,1]",
        ("11", "6"),
        "ksize=[1,1,3], strides=[1,1,2], pads=[0,0,1], dilation=[1,1,1], ceil_mode=0",
    ),
    "three_axes": (
        "kernel_shape=[3,2,2], strides=[2,2,2], pads=[1,0,0,1,0,0]",
        ("5,4,6", "3,2,3"),
        "ksize=[3,2,2], strides=[2,2,2], pads=[1,0,0], dilation=[1,1,1], ceil_mode=0",
    ),
    "defaults": (
        "kernel_shape=[2,3]",
        ("9,12", "8,10"),
        "ksize=[1,2,3], strides=[1,1,1], pads=[0,0,0], dilation=[1,1,1], ceil_mode=0",
    ),
    "ceil": (
        "kernel_shape=[4,4], strides=[4,5], ceil_mode=1",
        ("9,12", "3,3"),
        "ksize=[1,4,4], strides=[1,4,5], pads=[0,0,0], dilation=[1,1,1], ceil_mode=1",
    ),
    "ceil_with_unequal_pads": (
        "kernel_shape=[2,3], strides=[2,2], pads=[1,0,0,1], ceil_mode=1",
        ("9,12", "5,6"),
        "ksize=[1,3,4], strides=[1,2,2], pads=[0,1,1], dilation=[1,1,1], ceil_mode=1",
    ),
    "dilation": (
        "kernel_shape=[3,2], dilations=[2,3]",
        ("9,12", "5,9"),
        "ksize=[1,5,4], strides=[1,1,1], pads=[0,0,0], dilation=[1,1,1], ceil_mode=0",
    ),
    "unequal_pads": (
        "kernel_shape=[3,3], strides=[2,2], pads=[0,1,1,0]",
        ("9,12", "4,6"),
        "ksize=[1,4,4], strides=[1,2,2], pads=[0,1,1], dilation=[1,1,1], ceil_mode=0",
    ),
    "same_upper": (
        'kernel_shape=[3,3], strides=[2,2], auto_pad="SAME_UPPER"',
        ("9,12", "5,6"),
        "ksize=[1,3,4], strides=[1,2,2], pads=[0,1,1], dilation=[1,1,1], ceil_mode=0",
    ),
    "same_lower": (
        'kernel_shape=[2,3], strides=[2,2], auto_pad="SAME_LOWER"',
        ("9,12", "5,6"),
        "ksize=[1,3,4], strides=[1,2,2], pads=[0,1,1], dilation=[1,1,1], ceil_mode=0",
    ),
    "valid": (
        'kernel_shape=[3,3], strides=[2,2], auto_pad="VALID"',
        ("9,12", "4,5"),
        "ksize=[1,3,3], strides=[1,2,2], pads=[0,0,0], dilation=[1,1,1], ceil_mode=0",
    ),
    "whole_plane": (
        "kernel_shape=[9,12], strides=[9,12]",
        ("9,12", "1,1"),
        "ksize=[1,9,12], strides=[1,9,12], pads=[0,0,0], dilation=[1,1,1], ceil_mode=0",
    ),
}


@pytest.mark.parametrize(("attributes", "sizes", "window"), WINDOWS.values(), ids=WINDOWS)
def test_windows(attributes: str, sizes: tuple[str, str], window: str) -> None:
    extent, count = sizes
    plane = math.prod(map(int, extent.split(",")))
    check_lowered(
        gradient(
            inputs=f"float[2,3,{extent}] x, float[2,3,{count}] dy",
            outputs=f"float[2,3,{count}] y, float[2,3,{extent}] dx",
            pool=attributes,
            attributes=f"<{attributes}>",
        ),
        f"""y, i = MaxPool <{attributes}> (x)
            dx_plane = Constant <value = int64 {{{plane}}}> ()
            dx_plane_index = Mod (i, dx_plane)
            dx_argmax = Cast <to=6> (dx_plane_index)
            {backward(window=window)}""",
    )


def test_symbolic_batch() -> None:
    check_lowered(
        gradient(
            inputs="float[N,3,9,12] x, float[N,3,5,6] dy",
            outputs="float[N,3,5,6] y, float[N,3,9,12] dx",
        ),
        LOWERED,
    )


def test_every_size_symbolic() -> None:
    check_lowered(
        gradient(inputs="float[N,C,H,W] x, float[N,C,OH,OW] dy", outputs="float[N,C,OH,OW] y, float[N,C,H,W] dx"),
        f"""y, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)
            dx_x_shape = Shape (x)
            dx_spatial_axes = Constant <value = int64[2] {{2, 3}}> ()
            dx_sizes = Gather <axis=0> (dx_x_shape, dx_spatial_axes)
            dx_plane = ReduceProd <keepdims=1> (dx_sizes)
            dx_plane_index = Mod (i, dx_plane)
            dx_argmax = Cast <to=6> (dx_plane_index)
            {backward()}""",
    )


def test_pads_mean_nothing_beside_auto_pad() -> None:
    pool = 'kernel_shape=[3,3], strides=[2,2], auto_pad="VALID"'
    window = "ksize=[1,3,3], strides=[1,2,2], pads=[0,0,0], dilation=[1,1,1], ceil_mode=0"
    check_lowered(
        gradient(
            inputs="float[2,3,9,12] x, float[2,3,4,5] dy",
            outputs="float[2,3,4,5] y, float[2,3,9,12] dx",
            pool=pool,
            attributes=f"<{pool}, pads=[1,1,1,1]>",
        ),
        f"""y, i = MaxPool <{pool}> (x)
            dx_plane = Constant <value = int64 {{108}}> ()
            dx_plane_index = Mod (i, dx_plane)
            dx_argmax = Cast <to=6> (dx_plane_index)
            {backward(window=window)}""",
    )


def test_same_pads_with_stride_one_need_no_size() -> None:
    attributes = 'kernel_shape=[3,2], auto_pad="SAME_LOWER"'
    check_lowered(
        gradient(
            inputs="float[2,3,H,W] x, float[2,3,H,W] dy",
            outputs="float[2,3,H,W] y, float[2,3,H,W] dx",
            pool=attributes,
            attributes=f"<{attributes}>",
        ),
        f"""y, i = MaxPool <{attributes}> (x)
            dx_x_shape = Shape (x)
            dx_spatial_axes = Constant <value = int64[2] {{2, 3}}> ()
            dx_sizes = Gather <axis=0> (dx_x_shape, dx_spatial_axes)
            dx_plane = ReduceProd <keepdims=1> (dx_sizes)
            dx_plane_index = Mod (i, dx_plane)
            dx_argmax = Cast <to=6> (dx_plane_index)
            dx = npu.MaxPool3DGradWithArgmax <
                ksize=[1,3,3], strides=[1,1,1], pads=[0,1,1], dilation=[1,1,1], ceil_mode=0, data_format="NCDHW"
            > (x, dy, dx_argmax)""",
    )


def test_half_precision() -> None:
    check_lowered(
        gradient(
            inputs="float16[2,3,9,12] x, float16[2,3,5,6] dy",
            outputs="float16[2,3,5,6] y, float16[2,3,9,12] dx",
        ),
        LOWERED,
    )


def test_padding_beyond_half_the_kernel_takes_a_canvas() -> None:
    """At opset 9, where Pad and Slice have attributes instead of inputs and Mod is not there.

    Element (h, w) of the 9 × 12 plane is (h + 2, w + 2) of a 12 × 15 canvas: 12h + w becomes 12h + w + 3h + 32.
    """
    attributes = "kernel_shape=[3,3], strides=[3,2], pads=[2,2,2,2]"
    check_lowered(
        gradient(
            inputs="float[2,3,9,12] x, float[2,3,4,7] dy",
            outputs="float[2,3,4,7] y, float[2,3,9,12] dx",
            pool=attributes,
            attributes=f"<{attributes}>",
        ).replace('"": 17', '"": 9'),
        f"""y, i = MaxPool <{attributes}> (x)
            dx_plane = Constant <value = int64 {{108}}> ()
            dx_plane_number = Div (i, dx_plane)
            dx_plane_first = Mul (dx_plane_number, dx_plane)
            dx_plane_index = Sub (i, dx_plane_first)
            dx_row = Constant <value = int64 {{12}}> ()
            dx_row_number = Div (dx_plane_index, dx_row)
            dx_row_step = Constant <value = int64 {{3}}> ()
            dx_row_shift = Mul (dx_row_number, dx_row_step)
            dx_canvas_row = Add (dx_plane_index, dx_row_shift)
            dx_origin = Constant <value = int64 {{32}}> ()
            dx_canvas_index = Add (dx_canvas_row, dx_origin)
            dx_argmax = Cast <to=6> (dx_canvas_index)
            dx_canvas = Pad <pads=[0,0,2,2,0,0,1,1]> (x)
            dx_MaxPool3DGradWithArgmax = npu.MaxPool3DGradWithArgmax <
                ksize=[1,3,3], strides=[1,3,2], pads=[0,0,0], dilation=[1,1,1], ceil_mode=0, data_format="NCDHW"
            > (dx_canvas, dy, dx_argmax)
            dx = Slice <starts=[2,2], ends=[11,14], axes=[2,3]> (dx_MaxPool3DGradWithArgmax)""",
    )


def test_gradient_of_a_pool_with_several_readers() -> None:
    check_lowered(
        gradient(
            inputs="float[2,3,9,12] x, float[2,3,5,6] da, float[2,3,5,6] db",
            outputs="float[2,3,5,6] y, float[2,3,9,12] dx, int64[2,3,5,6] i",
            between="dy = Sum (da, db)",
        ),
        LOWERED.replace("dx_plane =", "dy = Sum (da, db)\ndx_plane =", 1),
    )


def test_indices_seen_through_views() -> None:
    check_lowered(
        gradient(between="j = Identity (i)", indices="j"),
        LOWERED.replace("dx_plane =", "j = Identity (i)\ndx_plane =", 1).replace("Mod (i,", "Mod (j,"),
    )


def test_nested_pools() -> None:
    check_lowered(
        head(17)
        + """
        g (float[2,3,9,12] x, float[2,3,2,2] dy) => (float[2,3,2,2] y, float[2,3,9,12] dx) {
            m, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)
            y, j = MaxPool <kernel_shape=[2,3], strides=[2,3]> (m)
            dm = MaxPoolGrad <kernel_shape=[2,3], strides=[2,3]> (dy, j)
            dx = MaxPoolGrad <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (dm, i)
        }""",
        f"""m, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)
            y, j = MaxPool <kernel_shape=[2,3], strides=[2,3]> (m)
            dm_plane = Constant <value = int64 {{30}}> ()
            dm_plane_index = Mod (j, dm_plane)
            dm_argmax = Cast <to=6> (dm_plane_index)
            dm = npu.MaxPool3DGradWithArgmax <
                ksize=[1,2,3], strides=[1,2,3], pads=[0,0,0], dilation=[1,1,1], ceil_mode=0, data_format="NCDHW"
            > (m, dy, dm_argmax)
            dx_plane = Constant <value = int64 {{108}}> ()
            dx_plane_index = Mod (i, dx_plane)
            dx_argmax = Cast <to=6> (dx_plane_index)
            {backward("x, dm, dx_argmax", "dx")}""",
    )


def test_forward_outside_and_gradient_inside_a_branch() -> None:
    check_lowered(
        head(17)
        + """
        g (bool wanted, float[2,3,9,12] x, float[2,3,5,6] dy) => (float[2,3,5,6] y, float[2,3,9,12] dx)
        <float zero = {0}> {
            y, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)
            dx = If (wanted) <
                then_branch = backward () => (float[2,3,9,12] inner_dx) { inner_dx = MaxPoolGrad (dy, i) },
                else_branch = nothing () => (float[2,3,9,12] none) { none = Mul (x, zero) }>
        }""",
        f"""y, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)
            dx = If (wanted) <
                else_branch = nothing () => (float[2,3,9,12] none) {{ none = Mul (x, zero) }},
                then_branch = backward () => (float[2,3,9,12] inner_dx) {{
                    inner_dx_plane = Constant <value = int64 {{108}}> ()
                    inner_dx_plane_index = Mod (i, inner_dx_plane)
                    inner_dx_argmax = Cast <to=6> (inner_dx_plane_index)
                    {backward("x, dy, inner_dx_argmax", "inner_dx")}
                }}>""",
    )
