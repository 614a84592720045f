# SPDX-License-Identifier: Apache-2.0

"""PyTorch's form, text in and text out: every spelling of it, and what it becomes."""

from __future__ import annotations

import pytest

from tests.graphs import Written
from tests.patterns.lookalikes.scatter import gradient
from tests.patterns.lowering_checks import check_lowered

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
    "reshape": gradient(long=[648], canvas="w = Expand (zero, long)\nz = Reshape (w, canvas_shape)"),
    # views
    "allowzero": gradient(result="dx = Reshape <allowzero=1> (s, x_shape)"),
    "free_size": gradient(row_shape=[-1, 30]),
    "copied_sizes": gradient(planes=[0, 0, -1], rows="r3 = Reshape (p, planes)\nr = Reshape (r3, row_shape)"),
    "flatten": gradient(rows="rn = Flatten <axis=2> (p)\nr = Identity (rn)", updates="u = Flatten <axis=-2> (dy)"),
    "three_axes": gradient(
        row_shape=[2, 3, 30],
        canvas_shape=[2, 3, 108],
        scatter='s = ScatterElements <axis=2, reduction="add"> (z, r, u)',
    ),
    "three_axes_from_the_end": gradient(
        row_shape=[2, 3, 30],
        canvas_shape=[2, 3, 108],
        scatter='s = ScatterElements <axis=-1, reduction="add"> (z, r, u)',
    ),
    "result_in_two_steps": gradient(rows=[54, 12], result="v = Reshape (s, rows)\ndx = Reshape (v, x_shape)"),
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
        as_rows=[54, 12],
        inputs="float[54,12] x_rows, float[2,3,5,6] dy",
        outputs="float[2,3,5,6] y, float[54,12] dx",
        pool="x = Reshape (x_rows, x_shape)\ny, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)",
        result="dx = Reshape (s, as_rows)",
    ),
    # plane-local indices
    "remainder": gradient(**REMAINDER, constants={"plane": "int64 plane = {108}"}),
    "remainder_of_a_vector": gradient(plane=[108], **REMAINDER),
    "remainder_of_rows": gradient(
        companion="",
        first="",
        plane_local="",
        rows="q = Reshape (i, row_shape)\nr = Mod (q, plane)",
        constants={"plane": "int64 plane = {108}"},
    ),
    "whole_tensor": gradient(
        row_shape=[-1], canvas_shape=[648], **WHOLE, scatter='s = ScatterElements <axis=0, reduction="add"> (z, r, u)'
    ),
    "whole_tensor_as_one_row": gradient(row_shape=[1, 180], canvas_shape=[1, 648], **WHOLE),
    # With one plane the whole tensor's numbering is the plane's.
    "one_plane": gradient(
        x="1,1,9,12", y="1,1,5,6", row_shape=[1, 30], canvas_shape=[1, 108], x_shape=[1, 1, 9, 12], **WHOLE
    ),
    "int32_before_the_rows": gradient(rows="c = Cast <to=6> (p)\nr = Reshape (c, row_shape)"),
    "int32_after_the_rows": gradient(rows="q = Reshape (p, row_shape)\nr = Cast <to=6> (q)"),
    "companion_with_explicit_defaults": gradient(
        companion="y1, i1 = MaxPool <kernel_shape=[1,1], dilations=[2,2], ceil_mode=1> (x)"
    ),
    "batch_size_from_another_input": gradient(
        x="N,3,9,12",
        y="N,3,5,6",
        more="int64[N] labels",
        row_shape=[-1, 30],
        x_shape=[-1, 3, 9, 12],
        one=[1],
        constants={"canvas_shape": "int64[1] plane = {108}", "channels": "int64 channels = {3}"},
        canvas="""n = Shape <start=0, end=1> (labels)
            n0 = Squeeze (n)
            planes = Mul (n0, channels)
            planes1 = Reshape (planes, one)
            canvas_shape = Concat <axis=0> (planes1, plane)
            z = Expand (zero, canvas_shape)""",
    ),
}


@pytest.mark.parametrize("source", SPELLINGS.values(), ids=SPELLINGS)
def test_spellings(source: str, written: Written) -> None:
    check_lowered(source, written)


@pytest.mark.parametrize("opset", range(16, 24))
def test_opsets(opset: int, written: Written) -> None:
    check_lowered(gradient().replace('"": 18', f'"": {opset}'), written)
