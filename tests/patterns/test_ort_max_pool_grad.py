# SPDX-License-Identifier: Apache-2.0

"""onnxruntime training's form: every spelling that is lowered, and to what; near misses and their reasons."""

from __future__ import annotations

import onnx
import pytest
from onnx import ModelProto

from poolgrad_lowering.model.diagnostics.codes import Code
from tests.graphs import Written
from tests.heads import head
from tests.patterns.lookalikes.maxpoolgrad import gradient
from tests.patterns.lowering_checks import NearMisses, check_lowered, check_refused, near_misses
from tests.texts import Says


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
    "a_canvas_where_bounds_are_inputs": over(
        "float[2,3,9,12] float[2,3,4,7]",
        "float[2,3,4,7] float[2,3,9,12]",
        pool="kernel_shape=[3,3], strides=[3,2], pads=[2,2,2,2]",
        attributes="<kernel_shape=[3,3], strides=[3,2], pads=[2,2,2,2]>",
    ),
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


def left_out_indices() -> ModelProto:
    """An input with the empty name is none."""
    model = onnx.parser.parse_model(gradient())
    next(node for node in model.graph.node if node.op_type == "MaxPoolGrad").input[1] = ""
    return model


def without_kernel() -> ModelProto:
    """Valid to the parser, not to the operator."""
    return onnx.parser.parse_model(gradient(pool="strides=[2,2]", attributes=""))


def in_functions(nodes: str) -> str:
    """Return a graph of these nodes, of which one calls a function."""
    return f"""<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
    g (float[2,3,9,12] x, float[2,3,8,11] dy) => (float[2,3,8,11] y, float[2,3,9,12] dx) {{ {nodes} }}
    <domain: "own", opset_import: ["" : 17]> Pool (x) => (y, i) {{ y, i = MaxPool <kernel_shape=[2,2]> (x) }}
    <domain: "own", opset_import: ["" : 17]> Back (dy, i) => (dx) {{ dx = MaxPoolGrad (dy, i) }}"""


NEAR_MISSES: NearMisses = {
    # the node
    (Code.ARITY, "indices_left_out"): left_out_indices(),
    (Code.ARITY, "two_inputs_too_many"): gradient(indices="i, x, y"),
    (Code.ATTRIBUTE_MISMATCH, "other_pads"): gradient(attributes="<kernel_shape=[3,3], strides=[2,2], pads=[0,1,0,1]>"),
    (Code.ATTRIBUTE_MISMATCH, "other_automatic_pads"): gradient(attributes='<auto_pad="SAME_UPPER">'),
    (Code.ATTRIBUTE_MISMATCH, "other_order_of_the_indices"): gradient(attributes="<storage_order=1>"),
    # the indices
    (Code.INDICES_SOURCE, "indices_given_to_a_function"): in_functions(
        "y, i = MaxPool <kernel_shape=[2,2]> (x)\ndx = own.Back (dy, i)"
    ),
    (Code.INDICES_SOURCE, "indices_of_a_function"): in_functions("y, i = own.Pool (x)\ndx = MaxPoolGrad (dy, i)"),
    (Code.INDICES_ALTERED, "indices_of_two_pools"): gradient(
        inputs="float[2,3,9,12] x, float[2,3,9,12] x2, float[2,3,5,6] dy",
        between="y2, j = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x2)\nm = Max (i, j)",
        indices="m",
    ),
    (Code.INDICES_NUMBERING, "indices_of_a_plane"): gradient(
        between="plane = Constant <value = int64 {108}> ()\nj = Mod (i, plane)", indices="j"
    ),
    (Code.PLANE_BASE, "indices_with_a_table_of_other_integers"): gradient(
        between="""plane = Constant <value = int64 {108}> ()
                j = Mod (i, plane)
                k = Cast <to=6> (j)
                bases = Constant <value = int32[2,3,1,1] {0, 108, 216, 324, 432, 540}> ()
                m = Add (k, bases)""",
        indices="m",
    ),
    (Code.PLANE_BASE, "indices_with_a_table_for_planes_of_any_size"): gradient(
        inputs="float[2,3,H,12] x, float[2,3,P,6] dy",
        between="""all, every = MaxPool <kernel_shape=[1,1]> (x)
                starts = Constant <value = int64[2] {0, 0}> ()
                ends = Constant <value = int64[2] {1, 1}> ()
                axes = Constant <value = int64[2] {2, 3}> ()
                first = Slice (every, starts, ends, axes)
                j = Sub (i, first)
                bases = Constant <value = int64[2,3,1,1] {0, 108, 216, 324, 432, 540}> ()
                k = Add (j, bases)""",
        indices="k",
    ),
    # the forward pool
    (Code.POOL_ATTRIBUTES, "no_kernel_shape"): without_kernel(),
    (Code.POOL_ATTRIBUTES, "kernel_of_another_rank"): gradient(pool="kernel_shape=[3,3,3]", attributes=""),
    (Code.POOL_ATTRIBUTES, "no_spatial_axes"): gradient(pool="kernel_shape: ints = []", attributes=""),
    (Code.SHADOWED_NAME, "x_means_something_else_in_the_branch"): head(17)
    + """
        g (bool wanted, float[2,3,9,12] x, float[2,3,5,6] dy) => (float[2,3,9,12] dx) {
            y, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)
            dx = If (wanted) <
                then_branch = backward () => (float[2,3,9,12] inner_dx) <float x = {1.0}> {
                    scaled = Mul (dy, x)
                    inner_dx = MaxPoolGrad (scaled, i)
                },
                else_branch = nothing () => (float[2,3,9,12] none) { none = Identity (x) }>
        }""",
    # the operands
    (Code.GRAD_SHAPE, "indices_as_rows"): gradient(
        inputs="float[2,3,9,12] x, float[6,30] dy",
        between="rows = Constant <value = int64[2] {6, 30}> ()\nr = Reshape (i, rows)",
        indices="r",
    ),
}


@pytest.mark.parametrize(("code", "model"), near_misses(NEAR_MISSES))
def test_near_miss(code: Code, model: str | ModelProto, says: Says) -> None:
    says(check_refused(model, code))


def test_another_domain_is_no_anchor() -> None:
    """`MaxPoolGrad` of somebody else's domain is not looked at."""
    from poolgrad_lowering import inspect

    text = gradient(attributes="").replace("dx = MaxPoolGrad", "dx = ai.onnx.converters.MaxPoolGrad")
    model = onnx.parser.parse_model(text)
    model.opset_import.add(domain="ai.onnx.converters", version=1)
    assert inspect(model).anchors == ()
