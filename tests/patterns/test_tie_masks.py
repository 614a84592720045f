# SPDX-License-Identifier: Apache-2.0

"""Equality masks are recognised, by what is compared with what, and never lowered."""

from __future__ import annotations

import pytest
from onnx.parser import parse_model

from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.heads import head
from tests.patterns.lowering_checks import NearMisses, check_refused, near_misses
from tests.texts import Says


def shared_among_ties(
    maximum: str = "y = ReduceMax <keepdims=1> (x, axes)",
    compared: str = "e = Equal (x, y)",
    *,
    mask: str = "m = Cast <to=1> (e)",
    opset: int = 18,
) -> str:
    """Return a maximum and its gradient as frameworks without argmax write it, with a step replaced."""
    return f"""{head(opset)}
        g (float[2,3,4,6] x, float[2,3,1,1] dy) => (float[2,3,4,6] dx)
        <int64[2] axes = {{2, 3}}, int64[4] kept = {{2, 3, 1, 1}}> {{
            {maximum}
            {compared}
            {mask}
            n = ReduceSum <keepdims=1> (m, axes)
            q = Div (m, n)
            dx = Mul (q, dy)
        }}"""


def paid_to_all_ties(
    upsampled: str = 'u = Resize <mode="nearest", coordinate_transformation_mode="asymmetric"> (y, , scales)',
    compared: str = "e = Equal (x, u)",
) -> str:
    """Return a hand-written gradient of a 2×2 pool: its output spread over its windows, compared, times dy."""
    return f"""{head(18)}
        g (float[2,3,4,6] x, float[2,3,4,6] dy) => (float[2,3,4,6] dx)
        <float[4] scales = {{1, 1, 2, 2}},
         int64[6] split = {{2, 3, 2, 1, 3, 1}}, int64[6] spread = {{2, 3, 2, 2, 3, 2}},
         int64[4] joined = {{2, 3, 4, 6}}, int64[6] repeats = {{1, 1, 1, 2, 1, 2}}> {{
            y = MaxPool <kernel_shape=[2,2], strides=[2,2]> (x)
            {upsampled}
            {compared}
            m = Cast <to=1> (e)
            dx = Mul (m, dy)
        }}"""


def local_maxima(factor: str) -> str:
    """Return x or dy where an element is the maximum of the window around it: overlapping windows are not summed."""
    return f"""{head(18)}
        g (float[2,3,8,8] x, float[2,3,8,8] dy) => (float[2,3,8,8] kept) {{
            y = MaxPool <kernel_shape=[3,3], strides=[1,1], pads=[1,1,1,1]> (x)
            e = Equal (x, y)
            m = Cast <to=1> (e)
            kept = Mul (m, {factor})
        }}"""


MASKS: NearMisses = {
    (Code.SPLITS_TIES, "kept_axes"): shared_among_ties(),
    (Code.SPLITS_TIES, "the_other_way_round"): shared_among_ties(compared="e = Equal (y, x)"),
    (Code.SPLITS_TIES, "reshaped"): shared_among_ties("r = ReduceMax <keepdims=0> (x, axes)\ny = Reshape (r, kept)"),
    (Code.SPLITS_TIES, "expanded"): shared_among_ties(
        "r = ReduceMax <keepdims=1> (x, axes)\nshape = Shape (x)\ny = Expand (r, shape)"
    ),
    (Code.SPLITS_TIES, "axes_as_an_attribute"): shared_among_ties(
        "y = ReduceMax <keepdims=1, axes=[2,3]> (x)", opset=17
    ),
    (Code.SPLITS_TIES, "global_pool"): shared_among_ties("y = GlobalMaxPool (x)"),
    (Code.SPLITS_TIES, "channels_last"): shared_among_ties(
        "y = ReduceMax <keepdims=1> (x, axes)\nc = Transpose <perm=[0,2,3,1]> (x)",
        "d = Transpose <perm=[0,2,3,1]> (y)\ne = Equal (c, d)",
        mask="b = Cast <to=1> (e)\nm = Transpose <perm=[0,3,1,2]> (b)",
    ),
    (Code.GRADIENT_TO_ALL_TIES, "upsampled"): paid_to_all_ties(),
    (Code.GRADIENT_TO_ALL_TIES, "upsampled_by_expanding"): paid_to_all_ties(
        "s = Reshape (y, split)\nb = Expand (s, spread)\nu = Reshape (b, joined)"
    ),
    (Code.GRADIENT_TO_ALL_TIES, "upsampled_by_tiling"): paid_to_all_ties(
        "s = Reshape (y, split)\nb = Tile (s, repeats)\nu = Reshape (b, joined)"
    ),
    (Code.UNRELATED_MASK, "local_maxima_that_are_kept"): local_maxima("x"),
    (Code.UNRELATED_MASK, "local_maxima_that_are_paid"): local_maxima("dy"),
}


@pytest.mark.parametrize(("code", "model"), near_misses(MASKS))
def test_masks_are_refused(code: Code, model: str, says: Says) -> None:
    says(check_refused(model, code))


OTHERS = {
    "another_tensor": shared_among_ties("z = Neg (x)\ny = ReduceMax <keepdims=1> (z, axes)"),
    "a_minimum": shared_among_ties("y = ReduceMin <keepdims=1> (x, axes)"),
    "a_sum_on_the_way": shared_among_ties("r = ReduceMax <keepdims=1> (x, axes)\ny = Add (r, dy)"),
    "a_constant": shared_among_ties("y = Constant <value_float=0.0> ()"),
    "itself": shared_among_ties("", "e = Equal (x, x)"),
    "the_indices_of_a_pool": paid_to_all_ties("z, i = MaxPool <kernel_shape=[1,1]> (x)\nu = Identity (i)"),
    "the_pool_of_another_tensor": paid_to_all_ties(compared="v = Neg (x)\ne = Equal (v, u)"),
}


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_other_comparisons_are_no_anchors(text: str) -> None:
    assert not lower(parse_model(text)).report.anchors
