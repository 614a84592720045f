# SPDX-License-Identifier: Apache-2.0

"""Views, casts and additions of zeros around a scatter: what is taken over with it, and what stays behind it."""

from __future__ import annotations

import onnx
import pytest

from poolgrad_lowering import lower
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.patterns.lookalikes.scatter import gradient
from tests.patterns.lowering_checks import NearMisses, check_refused, near_misses
from tests.texts import Says

ZEROS = {"more": f"float[6,108] more = {{{', '.join(['0'] * 648)}}}"}
HALF = {"inputs": "float16[2,3,9,12] x, float16[2,3,5,6] dy", "outputs": "float16[2,3,5,6] y, float16[2,3,9,12] dx"}


STAY = {
    "multiplied_by_zeros": (ZEROS, "Mul (s, more)"),
    "zeros_subtracted": (ZEROS, "Sub (s, more)"),
    "added_to_themselves": ({}, "Add (s, s)"),
    "a_broadcast_zero_added": ({"more": "float[1,1] more = {0}"}, "Add (s, more)"),
    "a_zero_of_no_known_shape_added": ({"of": "float of = {0}"}, "Add (s, more)"),
}


@pytest.mark.parametrize(("constants", "operation"), STAY.values(), ids=STAY)
def test_what_reads_the_sums_otherwise_stays(constants: dict[str, str], operation: str) -> None:
    """The sums are the result then: the node still reads them."""
    before = "k = Shape (w)\nmore = Expand (of, k)\n" if "of" in constants else ""
    inputs = "float[2,3,9,12] x, float[2,3,5,6] dy"
    text = gradient(
        constants=constants,
        result=f"{before}t = {operation}\ndx = Reshape (t, x_shape)",
        inputs=f"{inputs}, float[] w" if before else inputs,
    )
    result = lower(onnx.parser.parse_model(text), forward=False)
    assert [anchor.status for anchor in result.report.anchors] == ["lowered"]
    [node] = [node for node in result.model.graph.node if "t" in node.output]
    assert "s" in node.input


@pytest.mark.parametrize("shape", ["x_shape", "flat"])
def test_several_views_share_the_sums(shape: str) -> None:
    text = gradient(
        flat=[-1],
        result=f"dx = Reshape (s, x_shape)\nother = Reshape (s, {shape})",
        outputs="float[2,3,5,6] y, float[2,3,9,12] dx, float other",
    ).replace("float other", "float[2,3,9,12] other" if shape == "x_shape" else "float[648] other")
    assert [anchor.status for anchor in lower(onnx.parser.parse_model(text)).report.anchors] == ["lowered"]


def test_the_sums_are_read_in_branches_alone() -> None:
    """As the first node of each, and by no view."""
    branches = ", ".join(
        f"{name} = g{name} () => (float[6,108] {name}_out) {{ {name}_out = Neg (s) }}"
        for name in ("then_branch", "else_branch")
    )
    text = gradient(
        inputs="float[2,3,9,12] x, float[2,3,5,6] dy, bool b",
        outputs="float[2,3,5,6] y, float[6,108] dx",
        result=f"dx = If (b) <{branches}>",
    )
    assert [anchor.status for anchor in lower(onnx.parser.parse_model(text)).report.anchors] == ["lowered"]


@pytest.mark.refusal("dx-shape")
def test_the_sums_are_read_in_one_branch_alone() -> None:
    """Where it reads them, the graph around it has a view of another tensor, of x's shape."""
    text = gradient(
        inputs="float[2,3,9,12] x, float[2,3,5,6] dy, bool b",
        outputs="float[2,3,5,6] y, float[2,3,9,12] dx, float[2,3,9,12] same",
        pool="same = Identity (x)\ny, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)",
        result="""dx = If (b) <
            then_branch = g1 () => (float[2,3,9,12] v) { t = Identity (s) v = Reshape (t, x_shape) },
            else_branch = g2 () => (float[2,3,9,12] w) { w = Identity (x) }
        >""",
    )
    check_refused(text, Code.DX_SHAPE)


@pytest.mark.refusal("dx-shape")
def test_the_sums_are_read_by_a_training_step_alone() -> None:
    """The last node of the graph is a view of another tensor, of x's shape."""
    text = gradient(outputs="float[2,3,5,6] y, float[2,3,9,12] same", result="same = Identity (x)")
    model = onnx.parser.parse_model(text)
    model.training_info.add().algorithm.node.add(op_type="Neg", input=["s"], output=["r"])
    check_refused(model, Code.DX_SHAPE)


def test_x_is_a_view_of_an_unknown_shape() -> None:
    text = gradient(
        inputs="float[] w, float[2,3,5,6] dy",
        pool="x = Reshape (w, x_shape)\ny, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)",
    )
    assert [anchor.status for anchor in lower(onnx.parser.parse_model(text)).report.anchors] == ["lowered"]


@pytest.mark.refusal("dx-shape")
def test_a_view_without_output() -> None:
    model = onnx.parser.parse_model(gradient(outputs="float[2,3,5,6] y"))
    del model.graph.node[-1].output[:]
    check_refused(model, Code.DX_SHAPE)


SYMBOLIC = {
    "inputs": "float[N,C,9,12] x, float[N,C,5,6] dy",
    "outputs": "float[N,C,5,6] y, float[N,C,108] dx",
    "canvas": "f = Reshape (x, planes)\nsizes = Shape (f)\nz = Expand (zero, sizes)",
}


def halves(widen: str, narrow: str, declared: str = "", sums: str = "float") -> str:
    """Of a half type, by nodes before and after the scatter."""
    zero = {"zero": f"{sums} zero = {{0}}"}
    text = gradient(
        **HALF,
        constants=zero | {"declared": declared} if declared else zero,
        updates=f"h = {widen}\nu = Reshape (h, row_shape)",
        result=f"t = {narrow}\ndx = Reshape (t, x_shape)",
    )
    return text.replace('["": 18]', '["": 18, "com.microsoft": 1]')


NEAR_MISSES: NearMisses = {
    (Code.DTYPE_MIX, "widened_by_another_operator"): halves(
        "com.microsoft.Cast <to=1> (dy)", "Cast <to=10> (s)", "float[2,3,5,6] h"
    ),
    (Code.DTYPE_MIX, "narrowed_by_another_operator"): halves(
        "Cast <to=1> (dy)", "com.microsoft.Cast <to=10> (s)", "float16[6,108] t"
    ),
    (Code.DX_SHAPE, "zeros_of_no_known_shape_added_to_a_view_of_none"): gradient(
        more="int64[n] k",
        result="v = Reshape (s, k)\nmore = Expand (zero, k)\nt = Add (v, more)\ndx = Reshape (t, x_shape)",
    ),
    (Code.DX_SHAPE, "rows_that_leave_the_graph"): gradient(
        outputs="float[2,3,5,6] y, float[6,108] s, float[6,108] dx", result="dx = Neg (s)"
    ),
    (Code.DX_SHAPE, "rows_of_several_symbols"): gradient(
        row_shape=[0, 0, 30],
        constants={"canvas_shape": "int64[3] planes = {0, 0, 108}"},
        **SYMBOLIC,
        scatter='s = ScatterElements <axis=2, reduction="add"> (z, r, u)',
        result="dx = Neg (s)",
    ),
    (Code.DX_SHAPE, "x_is_a_view_of_several_symbols"): gradient(
        row_shape=[-1, 30],
        constants={"canvas_shape": "int64[2] planes = {-1, 108}, int64[4] images = {-1, 1, 9, 12}"},
        inputs="float[N,C,108] w, float[B,1,5,6] dy",
        outputs="float[B,1,5,6] y, float[N,C,108] dx",
        pool="x = Reshape (w, images)\ny, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)",
        canvas=SYMBOLIC["canvas"],
        result="same = Shape (w)\ndx = Reshape (s, same)",
    ),
    (Code.DTYPE_MIX, "narrowed_to_another_type"): halves("Cast <to=1> (dy)", "Cast <to=16> (s)").replace(
        "float16[2,3,9,12] dx", "bfloat16[2,3,9,12] dx"
    ),
    (Code.DTYPE_MIX, "widened_twice"): halves("Cast <to=1> (g)", "Cast <to=10> (s)").replace(
        "h = Cast", "g = Cast <to=1> (dy)\nh = Cast"
    ),
    (Code.DTYPE_MIX, "widened_from_double"): halves("Cast <to=1> (dy)", "Cast <to=11> (s)").replace(
        "float16", "double"
    ),
    (Code.DTYPE_MIX, "summed_in_double"): halves("Cast <to=11> (dy)", "Cast <to=10> (s)", sums="double"),
}


@pytest.mark.parametrize(("code", "model"), near_misses(NEAR_MISSES))
def test_near_miss(code: Code, model: str, says: Says) -> None:
    says(check_refused(model, code))
