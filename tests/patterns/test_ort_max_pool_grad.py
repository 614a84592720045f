# SPDX-License-Identifier: Apache-2.0

"""onnxruntime training's form, text in and text out: every spelling of it that is lowered, and to what."""

from __future__ import annotations

import pytest

from tests.graphs import Written
from tests.heads import head
from tests.patterns.lookalikes.maxpoolgrad import gradient
from tests.patterns.lowering_checks import check_lowered


def test_two_axes_on_ascend950(written: Written) -> None:
    check_lowered(gradient(), written, target="ascend950")


def over(inputs: str, outputs: str, **changes: str) -> str:
    """Return the form over other sizes or types, of x and dy and of y and dx."""
    (x, dy), (y, dx) = inputs.split(), outputs.split()
    return gradient(inputs=f"{x} x, {dy} dy", outputs=f"{y} y, {dx} dx", **changes)


SPELLINGS = {
    "older_producers_copy_no_attributes": gradient(attributes=""),
    "symbolic_batch": over("float[N,3,9,12] float[N,3,5,6]", "float[N,3,5,6] float[N,3,9,12]"),
    "every_size_symbolic": over("float[N,C,H,W] float[N,C,OH,OW]", "float[N,C,OH,OW] float[N,C,H,W]"),
    "half_precision": over("float16[2,3,9,12] float16[2,3,5,6]", "float16[2,3,5,6] float16[2,3,9,12]"),
    "pads_mean_nothing_beside_auto_pad": over(
        "float[2,3,9,12] float[2,3,4,5]",
        "float[2,3,4,5] float[2,3,9,12]",
        pool='kernel_shape=[3,3], strides=[2,2], auto_pad="VALID"',
        attributes='<kernel_shape=[3,3], strides=[2,2], auto_pad="VALID", pads=[1,1,1,1]>',
    ),
    "same_pads_with_stride_one_need_no_size": over(
        "float[2,3,H,W] float[2,3,H,W]",
        "float[2,3,H,W] float[2,3,H,W]",
        pool='kernel_shape=[3,2], auto_pad="SAME_LOWER"',
        attributes='<kernel_shape=[3,2], auto_pad="SAME_LOWER">',
    ),
    # At opset 9, where Pad and Slice have attributes instead of inputs and Mod is not there.
    # Element (h, w) of the 9 × 12 plane is (h + 2, w + 2) of a 12 × 15 canvas: 12h + w becomes 12h + w + 3h + 32.
    "padding_beyond_half_the_kernel_takes_a_canvas": over(
        "float[2,3,9,12] float[2,3,4,7]",
        "float[2,3,4,7] float[2,3,9,12]",
        pool="kernel_shape=[3,3], strides=[3,2], pads=[2,2,2,2]",
        attributes="<kernel_shape=[3,3], strides=[3,2], pads=[2,2,2,2]>",
    ).replace('"": 17', '"": 9'),
    "a_pool_with_several_readers": gradient(
        inputs="float[2,3,9,12] x, float[2,3,5,6] da, float[2,3,5,6] db",
        outputs="float[2,3,5,6] y, float[2,3,9,12] dx, int64[2,3,5,6] i",
        between="dy = Sum (da, db)",
    ),
    "indices_seen_through_views": gradient(between="j = Identity (i)", indices="j"),
    "nested_pools": head(17)
    + """
        g (float[2,3,9,12] x, float[2,3,2,2] dy) => (float[2,3,2,2] y, float[2,3,9,12] dx) {
            m, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)
            y, j = MaxPool <kernel_shape=[2,3], strides=[2,3]> (m)
            dm = MaxPoolGrad <kernel_shape=[2,3], strides=[2,3]> (dy, j)
            dx = MaxPoolGrad <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (dm, i)
        }""",
}


@pytest.mark.parametrize("source", SPELLINGS.values(), ids=SPELLINGS)
def test_spellings(source: str, written: Written) -> None:
    check_lowered(source, written)


@pytest.mark.parametrize("opset", [*range(9, 19), 21, 23])
def test_opsets(opset: int, written: Written) -> None:
    """There is no Mod before opset 10."""
    check_lowered(gradient().replace('"": 17', f'"": {opset}'), written)


WINDOWS = {  # MaxPool's attributes, x's and the pooled spatial sizes
    "one_axis": ("kernel_shape=[3], strides=[2], pads=[1,1]", "11", "6"),
    "three_axes": ("kernel_shape=[3,2,2], strides=[2,2,2], pads=[1,0,0,1,0,0]", "5,4,6", "3,2,3"),
    "defaults": ("kernel_shape=[2,3]", "9,12", "8,10"),
    "tiles": ("kernel_shape=[2,3], strides=[2,3]", "9,12", "4,4"),
    "gaps": ("kernel_shape=[2,2], strides=[3,4]", "9,12", "3,3"),
    "stride_one": ("kernel_shape=[3,3], pads=[1,1,1,1]", "9,12", "9,12"),
    "ceil": ("kernel_shape=[4,4], strides=[4,5], ceil_mode=1", "9,12", "3,3"),
    "ceil_with_unequal_pads": ("kernel_shape=[2,3], strides=[2,2], pads=[1,0,0,1], ceil_mode=1", "9,12", "5,6"),
    "dilation": ("kernel_shape=[3,2], dilations=[2,3]", "9,12", "5,9"),
    "unequal_pads": ("kernel_shape=[3,3], strides=[2,2], pads=[0,1,1,0]", "9,12", "4,6"),
    "same_upper": ('kernel_shape=[3,3], strides=[2,2], auto_pad="SAME_UPPER"', "9,12", "5,6"),
    "same_lower": ('kernel_shape=[2,3], strides=[2,2], auto_pad="SAME_LOWER"', "9,12", "5,6"),
    "valid": ('kernel_shape=[3,3], strides=[2,2], auto_pad="VALID"', "9,12", "4,5"),
    "whole_plane": ("kernel_shape=[9,12], strides=[9,12]", "9,12", "1,1"),
}


@pytest.mark.parametrize(("attributes", "extent", "count"), WINDOWS.values(), ids=WINDOWS)
def test_windows(attributes: str, extent: str, count: str, written: Written) -> None:
    x, y = f"float[2,3,{extent}]", f"float[2,3,{count}]"
    check_lowered(over(f"{x} {y}", f"{y} {x}", pool=attributes, attributes=f"<{attributes}>"), written)
