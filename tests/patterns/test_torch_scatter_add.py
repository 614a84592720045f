# SPDX-License-Identifier: Apache-2.0

"""PyTorch's form, text in and text out: every spelling of it, graphs of more pools, and what they become."""

from __future__ import annotations

import pytest

from tests.graphs import Written
from tests.heads import head
from tests.patterns.lookalikes.scatter import gradient
from tests.patterns.lowering_checks import check_lowered


def test_two_axes_on_ascend950(written: Written) -> None:
    check_lowered(gradient(), written, target="ascend950")


ZEROS = f"{{{', '.join(['0'] * 648)}}}"


REMAINDER = {"companion": "", "first": "", "plane_local": "p = Mod (i, plane)"}
WHOLE = {"companion": "", "first": "", "plane_local": "", "rows": "r = Reshape (i, row_shape)"}
SPELLINGS = {
    # zeros
    "expand": gradient(),
    "initializer": gradient(canvas="", constants={"zero": f"float[6,108] z = {ZEROS}"}),
    "constant": gradient(canvas=f"z = Constant <value = float[6,108] {ZEROS}> ()"),
    "constant_of_shape": gradient(canvas="z = ConstantOfShape (canvas_shape)"),
    "constant_of_shape_with_value": gradient(canvas="z = ConstantOfShape <value = float[1] {0}> (canvas_shape)"),
    "expand_over_concat": gradient(
        canvas="n = Constant <value_ints = [6]> ()\nhw = Constant <value_ints = [108]> ()\n"
        "c = Concat <axis=0> (n, hw)\nz = Expand (zero, c)"
    ),
    "cast": gradient(
        canvas="w = Expand (zero, canvas_shape)\nz = Cast <to=1> (w)", constants={"zero": "int64 zero = {0}"}
    ),
    "reshape": gradient(
        canvas="w = Expand (zero, long)\nz = Reshape (w, canvas_shape)",
        constants={"long": "int64[1] long = {648}"},
    ),
    # views
    "allowzero": gradient(result="dx = Reshape <allowzero=1> (s, x_shape)"),
    "free_size": gradient(constants={"row_shape": "int64[2] row_shape = {-1, 30}"}),
    "copied_sizes": gradient(
        rows="r3 = Reshape (p, planes)\nr = Reshape (r3, row_shape)",
        constants={"planes": "int64[3] planes = {0, 0, -1}"},
    ),
    "flatten": gradient(rows="rn = Flatten <axis=2> (p)\nr = Identity (rn)", updates="u = Flatten <axis=-2> (dy)"),
    "three_axes": gradient(
        scatter='s = ScatterElements <axis=2, reduction="add"> (z, r, u)',
        constants={
            "row_shape": "int64[3] row_shape = {2, 3, 30}",
            "canvas_shape": "int64[3] canvas_shape = {2, 3, 108}",
        },
    ),
    "three_axes_from_the_end": gradient(
        scatter='s = ScatterElements <axis=-1, reduction="add"> (z, r, u)',
        constants={
            "row_shape": "int64[3] row_shape = {2, 3, 30}",
            "canvas_shape": "int64[3] canvas_shape = {2, 3, 108}",
        },
    ),
    "result_in_two_steps": gradient(
        result="v = Reshape (s, rows)\ndx = Reshape (v, x_shape)", constants={"rows": "int64[2] rows = {54, 12}"}
    ),
    # An optimiser has merged the Reshape to the pooled shape and the one to rows: the node makes the shape anew.
    "updates_that_never_had_the_pooled_shape": gradient(
        inputs="float[2,3,9,12] x, float[6,30] dy", updates="u = Identity (dy)"
    ),
    "rows_that_are_read_as_they_are": gradient(outputs="float[2,3,5,6] y, float[6,108] dx", result="dx = Neg (s)"),
    # A converter to float16 that leaves scatters alone writes this where another scatter takes the rows.
    "rows_that_are_cast_and_read_as_they_are": gradient(
        inputs="float16[2,3,9,12] x, float16[2,3,5,6] dy",
        outputs="float16[2,3,5,6] y, float[6,108] dx",
        updates="v = Reshape (dy, row_shape)\nu = Cast <to=1> (v)",
        result="h = Cast <to=10> (s)\ndx = Cast <to=1> (h)",
    ),
    # A layer over rows in front of the pool: the gradient goes back to rows in one Reshape.
    "result_in_the_shape_of_what_x_is_a_view_of": gradient(
        inputs="float[54,12] x_rows, float[2,3,5,6] dy",
        outputs="float[2,3,5,6] y, float[54,12] dx",
        pool="x = Reshape (x_rows, x_shape)\ny, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)",
        result="dx = Reshape (s, as_rows)",
        constants={"as_rows": "int64[2] as_rows = {54, 12}"},
    ),
    # plane-local indices
    "remainder": gradient(**REMAINDER, constants={"plane": "int64 plane = {108}"}),
    "remainder_of_a_vector": gradient(**REMAINDER, constants={"plane": "int64[1] plane = {108}"}),
    "remainder_of_rows": gradient(
        companion="",
        first="",
        plane_local="",
        rows="q = Reshape (i, row_shape)\nr = Mod (q, plane)",
        constants={"plane": "int64 plane = {108}"},
    ),
    "whole_tensor": gradient(
        **WHOLE,
        scatter='s = ScatterElements <axis=0, reduction="add"> (z, r, u)',
        constants={"row_shape": "int64[1] row_shape = {-1}", "canvas_shape": "int64[1] canvas_shape = {648}"},
    ),
    "whole_tensor_as_one_row": gradient(
        **WHOLE,
        constants={"row_shape": "int64[2] row_shape = {1, 180}", "canvas_shape": "int64[2] canvas_shape = {1, 648}"},
    ),
    # With one plane the whole tensor's numbering is the plane's.
    "one_plane": gradient(
        **WHOLE,
        inputs="float[1,1,9,12] x, float[1,1,5,6] dy",
        outputs="float[1,1,5,6] y, float[1,1,9,12] dx",
        constants={
            "row_shape": "int64[2] row_shape = {1, 30}",
            "canvas_shape": "int64[2] canvas_shape = {1, 108}",
            "x_shape": "int64[4] x_shape = {1, 1, 9, 12}",
        },
    ),
    "int32_before_the_rows": gradient(rows="c = Cast <to=6> (p)\nr = Reshape (c, row_shape)"),
    "int32_after_the_rows": gradient(rows="q = Reshape (p, row_shape)\nr = Cast <to=6> (q)"),
    "companion_with_explicit_defaults": gradient(
        companion="y1, i1 = MaxPool <kernel_shape=[1,1], dilations=[2,2], ceil_mode=1> (x)"
    ),
    "batch_size_from_another_input": gradient(
        inputs="float[N,3,9,12] x, float[N,3,5,6] dy, int64[N] labels",
        outputs="float[N,3,5,6] y, float[N,3,9,12] dx",
        canvas="""n = Shape <start=0, end=1> (labels)
            n0 = Squeeze (n)
            planes = Mul (n0, channels)
            planes1 = Reshape (planes, one)
            canvas_shape = Concat <axis=0> (planes1, plane)
            z = Expand (zero, canvas_shape)""",
        constants={
            "row_shape": "int64[2] row_shape = {-1, 30}",
            "x_shape": "int64[4] x_shape = {-1, 3, 9, 12}",
            "canvas_shape": "int64[1] plane = {108}",
            "channels": "int64 channels = {3}",
            "one": "int64[1] one = {1}",
        },
    ),
}


@pytest.mark.parametrize("source", SPELLINGS.values(), ids=SPELLINGS)
def test_spellings(source: str, written: Written) -> None:
    check_lowered(source, written)


@pytest.mark.parametrize("opset", range(16, 24))
def test_opsets(opset: int, written: Written) -> None:
    check_lowered(gradient().replace('"": 18', f'"": {opset}'), written)


def test_other_readers_keep_what_they_read(written: Written) -> None:
    """The plane-local indices, the rows of updates and the zeros are read elsewhere and stay."""
    lowered = check_lowered(
        gradient(
            outputs="float[2,3,5,6] y, float[2,3,9,12] dx, int64[2,3,5,6] p, float[6,30] sum, float[6,108] z",
            result="dx = Reshape (s, x_shape)\nsum = Add (u, u)",
        ),
        written,
    )
    assert "canvas_shape" in {tensor.name for tensor in lowered.graph.initializer}


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
