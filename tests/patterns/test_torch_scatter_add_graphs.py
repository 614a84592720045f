# SPDX-License-Identifier: Apache-2.0

"""PyTorch's form, text in and text out: whole graphs of other ranks, scopes and several pools."""

from __future__ import annotations

import pytest

from tests.graphs import Written
from tests.heads import head
from tests.patterns.lowering_checks import check_lowered

GRAPHS = {
    "one_axis_is_written_on_two": head(18)
    + """
        g (float[2,3,11] x, float[2,3,5] dy) => (float[2,3,5] y, float[2,3,11] dx)
        <int64[1] axis = {2}, int64[2] starts = {0, 0}, int64[2] ends = {1, 1}, int64[2] axes = {2, 3},
         int64[2] rows = {6, 5}, int64[2] canvas = {6, 11}, int64[4] x_shape = {2, 3, 1, 11}, float zero = {0}> {
            x_2d = Unsqueeze (x, axis)
            y_2d, i = MaxPool <kernel_shape=[1,3], strides=[1,2]> (x_2d)
            y = Squeeze (y_2d, axis)
            y1, i1 = MaxPool <kernel_shape=[1,1]> (x_2d)
            d = Slice (i1, starts, ends, axes)
            p = Sub (i, d)
            r = Reshape (p, rows)
            dy_2d = Unsqueeze (dy, axis)
            u = Reshape (dy_2d, rows)
            z = Expand (zero, canvas)
            s = ScatterElements <axis=1, reduction="add"> (z, r, u)
            dx_2d = Reshape (s, x_shape)
            dx = Squeeze (dx_2d, axis)
        }""",
    "one_axis_as_it_is": head(18)
    + """
        g (float[2,3,11] x, float[2,3,5] dy) => (float[2,3,5] y, float[2,3,11] dx)
        <int64 plane = {11}, int64[3] canvas = {2, 3, 11}, float zero = {0}> {
            y, i = MaxPool <kernel_shape=[3], strides=[2]> (x)
            p = Mod (i, plane)
            z = Expand (zero, canvas)
            dx = ScatterElements <axis=2, reduction="add"> (z, p, dy)
        }""",
    "three_axes": head(18)
    + """
        g (float[2,3,5,4,6] x, float[2,3,2,2,3] dy) => (float[2,3,2,2,3] y, float[2,3,5,4,6] dx)
        <int64[3] starts = {0, 0, 0}, int64[3] ends = {1, 1, 1}, int64[3] axes = {2, 3, 4}, float zero = {0},
         int64[2] rows = {6, 12}, int64[2] canvas = {6, 120}, int64[5] x_shape = {2, 3, 5, 4, 6}> {
            y, i = MaxPool <kernel_shape=[3,2,2], strides=[2,2,2]> (x)
            y1, i1 = MaxPool <kernel_shape=[1,1,1]> (x)
            d = Slice (i1, starts, ends, axes)
            p = Sub (i, d)
            r = Reshape (p, rows)
            u = Reshape (dy, rows)
            z = Expand (zero, canvas)
            s = ScatterElements <axis=1, reduction="add"> (z, r, u)
            dx = Reshape (s, x_shape)
        }""",
    "unbatched": head(18)
    + """
        g (float[3,9,12] x, float[3,5,6] dy) => (float[3,5,6] y, float[3,9,12] dx)
        <int64[1] axis = {0}, int64[2] starts = {0, 0}, int64[2] ends = {1, 1}, int64[2] axes = {2, 3},
         int64[2] rows = {3, 30}, int64[2] canvas = {3, 108}, int64[3] x_shape = {3, 9, 12}, float zero = {0}> {
            x_4d = Unsqueeze (x, axis)
            y_4d, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x_4d)
            y = Squeeze (y_4d, axis)
            y1, i1 = MaxPool <kernel_shape=[1,1]> (x_4d)
            d = Slice (i1, starts, ends, axes)
            p_4d = Sub (i, d)
            p = Squeeze (p_4d, axis)
            r = Reshape (p, rows)
            u = Reshape (dy, rows)
            z = Expand (zero, canvas)
            s = ScatterElements <axis=1, reduction="add"> (z, r, u)
            dx = Reshape (s, x_shape)
        }""",
    "every_size_symbolic": head(18)
    + """
        g (float[N,C,H,W] x, float[N,C,OH,OW] dy) => (float[N,C,OH,OW] y, float[N,C,H,W] dx)
        <float zero = {0}, int64[3] rows = {0, 0, -1}> {
            y, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)
            x_shape = Shape (x)
            planes = Shape <start=0, end=2> (x)
            sizes = Shape <start=2> (x)
            plane = ReduceProd <keepdims=1> (sizes)
            p = Mod (i, plane)
            r = Reshape (p, rows)
            u = Reshape (dy, rows)
            canvas = Concat <axis=0> (planes, plane)
            z = Expand (zero, canvas)
            s = ScatterElements <axis=2, reduction="add"> (z, r, u)
            dx = Reshape (s, x_shape)
        }""",
    "forward_outside_and_gradient_inside_a_branch": head(18)
    + """
        g (bool wanted, float[2,3,9,12] x, float[2,3,5,6] dy) => (float[2,3,5,6] y, float[2,3,9,12] dx)
        <int64 plane = {108}, int64[2] rows = {6, 30}, int64[2] canvas = {6, 108}, int64[4] x_shape = {2, 3, 9, 12},
         float zero = {0}> {
            y, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)
            dx = If (wanted) <
                then_branch = backward () => (float[2,3,9,12] inner_dx) {
                    p = Mod (i, plane)
                    r = Reshape (p, rows)
                    u = Reshape (dy, rows)
                    z = Expand (zero, canvas)
                    s = ScatterElements <axis=1, reduction="add"> (z, r, u)
                    inner_dx = Reshape (s, x_shape)
                },
                else_branch = nothing () => (float[2,3,9,12] none) { none = Mul (x, zero) }>
        }""",
    "pools_of_one_x_share_a_companion_and_a_base": head(18)
    + """
        g (float[2,3,9,12] x, float[2,3,5,6] da, float[2,3,3,4] db)
            => (float[2,3,5,6] a, float[2,3,3,4] b, float[2,3,9,12] dx)
        <int64[2] starts = {0, 0}, int64[2] ends = {1, 1}, int64[2] axes = {2, 3}, float zero = {0},
         int64[2] a_rows = {6, 30}, int64[2] b_rows = {6, 12}, int64[2] canvas = {6, 108},
         int64[4] x_shape = {2, 3, 9, 12}> {
            a, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)
            b, j = MaxPool <kernel_shape=[3,3], strides=[3,3]> (x)
            y1, i1 = MaxPool <kernel_shape=[1,1]> (x)
            d = Slice (i1, starts, ends, axes)
            p = Sub (i, d)
            q = Sub (j, d)
            z = Expand (zero, canvas)
            pr = Reshape (p, a_rows)
            qr = Reshape (q, b_rows)
            ua = Reshape (da, a_rows)
            ub = Reshape (db, b_rows)
            sa = ScatterElements <axis=1, reduction="add"> (z, pr, ua)
            sb = ScatterElements <axis=1, reduction="add"> (z, qr, ub)
            dxa = Reshape (sa, x_shape)
            dxb = Reshape (sb, x_shape)
            dx = Add (dxa, dxb)
        }""",
    "rows_of_one_gradient_are_the_updates_of_the_next": head(18)
    + """
        g (float[2,3,9,12] x, float[2,3,2,2] dy) => (float[2,3,2,2] y, float[2,3,9,12] dx)
        <int64[2] starts = {0, 0}, int64[2] ends = {1, 1}, int64[2] axes = {2, 3}, float zero = {0},
         int64[2] m_rows = {6, 30}, int64[2] y_rows = {6, 4}, int64[2] canvas = {6, 108},
         int64[4] x_shape = {2, 3, 9, 12}> {
            m, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)
            y, j = MaxPool <kernel_shape=[2,3], strides=[2,3]> (m)
            i0, i1 = MaxPool <kernel_shape=[1,1]> (x)
            j0, j1 = MaxPool <kernel_shape=[1,1]> (m)
            ib = Slice (i1, starts, ends, axes)
            jb = Slice (j1, starts, ends, axes)
            p = Sub (i, ib)
            q = Sub (j, jb)
            qr = Reshape (q, y_rows)
            u = Reshape (dy, y_rows)
            zm = Expand (zero, m_rows)
            dm = ScatterElements <axis=1, reduction="add"> (zm, qr, u)
            pr = Reshape (p, m_rows)
            zx = Expand (zero, canvas)
            s = ScatterElements <axis=1, reduction="add"> (zx, pr, dm)
            dx = Reshape (s, x_shape)
        }""",
}


@pytest.mark.parametrize("source", GRAPHS.values(), ids=GRAPHS)
def test_graphs(source: str, written: Written) -> None:
    check_lowered(source, written)
