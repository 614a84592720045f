# SPDX-License-Identifier: Apache-2.0

"""Every look-alike by name: its graph, why it is a gradient of a pool or none, and the code of the refusal."""

from __future__ import annotations

import numpy as np

from poolgrad_lowering.model.diagnostics.codes import Code
from tests.patterns.lookalikes import maxpoolgrad, others, scatter
from tests.patterns.lookalikes.row import Lookalike, Window

_STRIDE_ONE = Window(strides=(1, 1))
_TILES = Window(strides=(3, 3), pads=(0, 0, 0, 0))
_TWO_TENSORS = "float[2,3,9,12] x, float[2,3,9,12] x2, float[2,3,5,6] dy"

LOOKALIKES: dict[str, Lookalike] = {
    "P0_genuine": Lookalike(scatter.gradient(), "the form as the exporter writes it"),
    "P1_indices_have_other_reader": Lookalike(
        scatter.gradient(outputs="float[2,3,5,6] y, float[2,3,9,12] dx, int64[2,3,5,6] p"),
        "the plane-local indices are a graph output too, and stay", stays=True),
    "P2_whole_tensor_scatter": Lookalike(
        scatter.gradient(
            companion="",
            first="",
            plane_local="",
            rows="r = Reshape (i, minus_one)",
            updates="u = Reshape (dy, minus_one)",
            scatter='s = ScatterElements <axis=0, reduction="add"> (z, r, u)',
            constants={"minus_one": "int64[1] minus_one = {-1}", "canvas_shape": "int64[1] canvas_shape = {648}"},
        ),
        "whole-tensor Indices scattered over the flattened tensor",
    ),
    "N01_overwrite_overlap": Lookalike(
        scatter.gradient(scatter='s = ScatterElements <axis=1, reduction="none"> (z, r, u)'),
        "windows overlap: of several gradients for one element only the last is kept", Code.OVERLAPPING_OVERWRITE),
    "N02_reduction_max": Lookalike(
        scatter.gradient(scatter='s = ScatterElements <axis=1, reduction="max"> (z, r, u)'),
        "gradients are not added, and negative ones are lost to the zeros", Code.REDUCTION),
    "N03_reduction_mul": Lookalike(
        scatter.gradient(scatter='s = ScatterElements <axis=1, reduction="mul"> (z, r, u)'),
        "zero times a gradient is zero", Code.REDUCTION),
    "N04_base_is_ones": Lookalike(
        scatter.gradient(constants={"zero": "float zero = {1}"}), "the canvas is not zeros", Code.BASE_NOT_ZERO
    ),
    "N05_base_is_activation": Lookalike(
        scatter.gradient(canvas="z = Reshape (x, canvas_shape)"), "the canvas is an activation", Code.BASE_NOT_ZERO
    ),
    "N06_indices_shifted": Lookalike(
        scatter.gradient(plane_local="q = Sub (i, d)\np = Sub (q, one)", constants={"one": "int64 one = {1}"}),
        "the index is one before the maximum", Code.PLANE_BASE),
    "N07_companion_on_other_tensor": Lookalike(
        scatter.gradient(
            inputs=_TWO_TENSORS, pool="y, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x2)"
        ),
        "the first index of a plane depends on the shape alone, and the two tensors have one shape",
        operands=lambda feeds: (feeds["x2"], feeds["dy"]),
    ),
    "N08_plane_local_by_mod": Lookalike(
        scatter.gradient(
            companion="", first="", plane_local="p = Mod (i, plane)", constants={"plane": "int64 plane = {108}"}
        ),
        "Mod by the plane size gives the same plane-local indices as Sub",
    ),
    "N09_transposed_dy": Lookalike(
        scatter.gradient(
            inputs="float[2,3,9,12] x, float[2,3,6,5] dy",
            updates="t = Transpose <perm=[0,1,3,2]> (dy)\nu = Reshape (t, row_shape)",
        ),
        "the gradient's operand is the transposed tensor, which has the pooled shape",
        operands=lambda feeds: (feeds["x"], feeds["dy"].swapaxes(2, 3)),
    ),
    "N10_indices_transposed": Lookalike(
        scatter.gradient(rows="t = Transpose <perm=[0,1,3,2]> (p)\nr = Reshape (t, row_shape)"),
        "indices and gradients are flattened in different orders: the pairs are wrong", Code.INDICES_ALTERED),
    "N11_result_has_other_shape": Lookalike(
        scatter.gradient(
            outputs="float[2,3,5,6] y, float[2,3,12,9] dx", constants={"x_shape": "int64[4] x_shape = {2, 3, 12, 9}"}
        ),
        "the result does not have the pooled tensor's shape",
        Code.DX_SHAPE,
    ),
    "N12_rows_are_not_planes": Lookalike(
        scatter.gradient(
            constants={"row_shape": "int64[2] row_shape = {2, 90}", "canvas_shape": "int64[2] canvas_shape = {2, 324}"}
        ),
        "one row holds three planes, whose plane-local indices collide",
        Code.ROWS_NOT_PLANES,
    ),
    "N13_larger_canvas": Lookalike(
        scatter.gradient(
            outputs="float[2,3,5,6] y, float[6,200] dx",
            result="dx = Identity (s)",
            constants={"canvas_shape": "int64[2] canvas_shape = {6, 200}"},
        ),
        "a row of the canvas is wider than a plane",
        Code.ROW_LENGTH,
    ),
    "N14_part_of_dy": Lookalike(
        scatter.gradient(
            rows="i3 = Slice (p, from, to, last)\nr = Reshape (i3, row_shape)",
            updates="dy3 = Slice (dy, from, to, last)\nu = Reshape (dy3, row_shape)",
            constants={
                "from": "int64[1] from = {0}",
                "to": "int64[1] to = {3}",
                "last": "int64[1] last = {3}",
                "row_shape": "int64[2] row_shape = {6, 15}",
            },
        ),
        "only a part of the pooled positions passes its gradient on",
        Code.INDICES_ALTERED,
    ),
    "N15_constant_indices": Lookalike(
        scatter.gradient(rows="r = Identity (frozen)", constants={"frozen": scatter.constant_indices()}),
        "the indices are frozen from a trace and do not follow the input", Code.INDICES_SOURCE),
    "N16_any_dy": Lookalike(
        scatter.gradient(updates="dy2 = Mul (dy, dy)\nu = Reshape (dy2, row_shape)"),
        "what the incoming gradient is made of does not matter",
        operands=lambda feeds: (feeds["x"], feeds["dy"] * feeds["dy"])),
    "N17_scaled_result": Lookalike(
        scatter.gradient(result="v = Reshape (s, x_shape)\ndx = Mul (v, two)", constants={"two": "float two = {2}"}),
        "the scale is applied to the gradient, outside it",
        operands=lambda feeds: (feeds["x"], feeds["dy"] * np.float32(2))),
    "N18_storage_order": Lookalike(
        scatter.gradient(
            pool="y, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1], storage_order=1> (x)"
        ),
        "the indices are column-major inside a plane and are applied as row-major",
        Code.STORAGE_ORDER,
    ),
    "N19_min_pool": Lookalike(
        scatter.gradient(pool="m = Neg (x)\ny, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (m)"),
        "the gradient of the pool over the negated tensor", operands=lambda feeds: (-feeds["x"], feeds["dy"])),
    "N20_indices_are_an_input": Lookalike(
        scatter.gradient(
            inputs="float[2,3,9,12] x, float[2,3,5,6] dy, int64[2,3,5,6] labels", rows="r = Reshape (labels, row_shape)"
        ),
        "the indices come from outside the graph",
        Code.INDICES_SOURCE,
    ),
    "N21_unpool": Lookalike(
        scatter.gradient(
            inputs="float[2,3,9,12] x, float[2,3,3,4] dy",
            outputs="float[2,3,3,4] y, float[2,3,9,12] dx",
            pool="y, i = MaxPool <kernel_shape=[3,3], strides=[3,3]> (x)",
            scatter='s = ScatterElements <axis=1, reduction="none"> (z, r, u)',
            constants={"row_shape": "int64[2] row_shape = {6, 12}"},
        ),
        "overwriting equals adding where windows tile: max-unpool and pool gradient are one",
        window=_TILES,
    ),
    "N22_indices_of_two_pools": Lookalike(
        scatter.gradient(
            inputs=f"{_TWO_TENSORS}, bool[2,3,5,6] chosen",
            pool="y, ia = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)\n"
            "yb, ib = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x2)\n"
            "i = Where (chosen, ia, ib)",
        ),
        "the indices are selected from two pools",
        Code.INDICES_SOURCE,
    ),
    "N23_replicated_dy": Lookalike(
        scatter.gradient(
            inputs="float[2,3,9,12] x, float[2,3,1,1] dy",
            updates="e = Expand (dy, pooled_shape)\nu = Reshape (e, row_shape)",
            constants={"pooled_shape": "int64[4] pooled_shape = {2, 3, 5, 6}"},
        ),
        "the gradient's operand is the expanded tensor, which has the pooled shape",
        operands=lambda feeds: (feeds["x"], np.broadcast_to(feeds["dy"], (2, 3, 5, 6))),
    ),
    "N24_companion_reads_another_element": Lookalike(
        scatter.gradient(constants={"starts": "int64[2] starts = {0, 1}", "ends": "int64[2] ends = {1, 2}"}),
        "the subtracted index is not the first of its plane", Code.PLANE_BASE),
    "N25_nms_keep_mask": Lookalike(
        others.NMS_KEEP_MASK, "an equality mask that keeps local maxima: a forward computation", Code.UNRELATED_MASK,
        window=_STRIDE_ONE, operands=lambda feeds: (feeds["x"], feeds["x"]), output="kept"),
    "N26_stride_one_mask": Lookalike(
        others.STRIDE_ONE_MASK,
        "a mask passes one gradient to a maximum, the pool's gradient the sum over its windows", Code.UNRELATED_MASK,
        window=_STRIDE_ONE),
    "Q1_no_attributes": Lookalike(
        maxpoolgrad.gradient(attributes=""), "older producers copy no attributes; the forward pool has them"
    ),
    "Q2_attributes_disagree": Lookalike(
        maxpoolgrad.gradient(attributes="<kernel_shape=[2,2], strides=[2,2]>"),
        "the node names another pool than the one that made its indices; a kernel that ignores its "
        "attributes computes the gradient, one that reads them does not",
        Code.ATTRIBUTE_MISMATCH,
        is_gradient=True,
    ),
    "Q3_indices_are_an_input": Lookalike(
        maxpoolgrad.gradient(inputs="float[2,3,9,12] x, float[2,3,5,6] dy, int64[2,3,5,6] given", indices="given"),
        "the indices come from outside the graph", Code.INDICES_SOURCE),
    "Q4_indices_shifted": Lookalike(
        maxpoolgrad.gradient(between="one = Constant <value = int64 {1}> ()\nj = Sub (i, one)", indices="j"),
        "the index is one before the maximum", Code.PLANE_BASE),
    "Q5_storage_order": Lookalike(
        maxpoolgrad.gradient(pool="kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1], storage_order=1"),
        "the indices are column-major inside a plane and are applied as row-major", Code.STORAGE_ORDER),
    "Q6_result_has_other_shape": Lookalike(
        maxpoolgrad.gradient(outputs="float[2,3,5,6] y, float[2,3,12,9] dx"),
        "the result is declared with another shape than the pooled tensor's", Code.DX_SHAPE),
    "Q7_indices_have_other_reader": Lookalike(
        maxpoolgrad.gradient(outputs="float[2,3,5,6] y, float[2,3,9,12] dx, int64[2,3,5,6] i"),
        "the whole-tensor indices are a graph output too, and stay", stays=True),
}  # fmt: skip
