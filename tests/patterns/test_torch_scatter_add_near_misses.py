# SPDX-License-Identifier: Apache-2.0

"""PyTorch's form with one thing changed: now another computation, or one that cannot be proven."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto

from poolgrad_lowering.model.diagnostics.codes import Code
from tests.patterns.lookalikes.scatter import gradient
from tests.patterns.lowering_checks import NearMisses, check_refused, near_misses
from tests.texts import Says

WHOLE: dict[str, Any] = {"companion": "", "first": "", "plane_local": "", "rows": "r = Reshape (i, row_shape)"}
ONE_NEGATIVE_ZERO = f"float[6,108] z = {{{', '.join(['0'] * 647)}, -0.0}}"


def onto(value: float) -> ModelProto:
    """The base is a tensor of one value, stored as bytes."""
    model = onnx.parser.parse_model(gradient(canvas="", constants={"zero": "float unused = {0}"}))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.full((6, 108), value, np.float32), "z"))
    return model


def overridable_base() -> ModelProto:
    """The zeros are an initializer that is an input too: a caller may give others."""
    model = onto(0.0)
    model.graph.input.append(onnx.helper.make_tensor_value_info("z", TensorProto.FLOAT, [6, 108]))
    return model


def external_base() -> ModelProto:
    """The zeros are in another file, and the model's folder is not known."""
    model = onto(0.0)
    tensor = model.graph.initializer[-1]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="absent.bin")
    return model


def onto_rows(sizes: str) -> dict[str, Any]:
    """All elements by their whole-tensor Indices, onto rows of these sizes, which are read as they are."""
    constants = {"row_shape": "int64[2] row_shape = {1, 180}", "canvas_shape": f"int64[2] canvas_shape = {{{sizes}}}"}
    outputs = f"float[2,3,5,6] y, float[{sizes}] dx"
    return {**WHOLE, "constants": constants, "outputs": outputs, "result": "dx = Neg (s)"}


NEAR_MISSES: NearMisses = {
    # the scatter
    (Code.POOL_ATTRIBUTES, "dilated_windows_of_the_same_size"): gradient(
        pool='y, i = MaxPool <kernel_shape=[3,3], strides=[2,2], dilations=[2,2], auto_pad="SAME_UPPER"> (x)'
    ),
    (Code.INDICES_NUMBERING, "whole_tensor_indices_onto_one_of_two_rows"): gradient(**onto_rows("2, 648")),
    (Code.INDICES_NUMBERING, "whole_tensor_indices_onto_a_longer_row"): gradient(**onto_rows("1, 649")),
    (Code.GRAD_SHAPE, "more_updates_than_indices"): gradient(
        scatter='s = ScatterElements <axis=1, reduction="add"> (z, r, z)'
    ),
    (Code.ROWS_NOT_PLANES, "along_the_rows"): gradient(
        scatter='s = ScatterElements <axis=0, reduction="add"> (z, r, u)'
    ),
    (Code.ROWS_NOT_PLANES, "fewer_rows_than_the_base"): gradient(
        canvas_shape=[7, 108], outputs="float[2,3,5,6] y, float[7,108] dx", result="dx = Identity (s)"
    ),
    (Code.ROWS_NOT_PLANES, "rows_in_another_arrangement"): gradient(
        row_shape=[3, 2, 30],
        canvas_shape=[2, 3, 108],
        scatter='s = ScatterElements <axis=2, reduction="add"> (z, r, u)',
    ),
    (Code.ROWS_NOT_PLANES, "batch_of_another_name"): gradient(
        x="N,3,9,12",
        y="N,3,5,6",
        more="float[M] other",
        row_shape=[-1, 30],
        x_shape=[-1, 3, 9, 12],
        constants={"canvas_shape": "int64[1] plane = {108}, int64[1] channels = {3}"},
        canvas="m = Shape (other)\nplanes = Mul (m, channels)\n"
        "canvas_shape = Concat <axis=0> (planes, plane)\nz = Expand (zero, canvas_shape)",
    ),
    (Code.UNKNOWN_SHAPE, "rows_of_unknown_shape"): gradient(
        more="int64[K] any_shape", canvas="z = ConstantOfShape (any_shape)"
    ),
    # the base
    (Code.BASE_NOT_ZERO, "onto_ones_stored"): onto(1.0),
    (Code.BASE_NOT_ZERO, "onto_negative_zeros"): onto(-0.0),
    (Code.BASE_NOT_ZERO, "onto_one_negative_zero"): gradient(canvas="", constants={"zero": ONE_NEGATIVE_ZERO}),
    (Code.INPUT_DEFAULT, "onto_zeros_that_a_caller_can_override"): overridable_base(),
    (Code.EXTERNAL_DATA, "onto_zeros_in_another_file"): external_base(),
    # the indices
    (Code.INDICES_SOURCE, "indices_from_outside"): gradient(
        more="int64[6,30] labels", scatter='s = ScatterElements <axis=1, reduction="add"> (z, labels, u)'
    ),
    (Code.UNRELATED_INDICES, "indices_of_another_operator"): gradient(
        rows="flat = Reshape (x, canvas_shape)\nr = ArgMin <axis=1> (flat)",
        updates="t = ReduceSum (dy, axes)\nu = Reshape (t, one_per_row)",
        constants={"row_shape": "int64[2] one_per_row = {6, 1}"},
    ),
    (Code.INDICES_SOURCE, "two_axes_of_an_index_of_more_axes"): gradient(
        more="int64[2,6,30] labels", rows="zeroth = Constant <value = int64 {0}> ()\nr = Gather (labels, zeroth)"
    ),
    (Code.UNRELATED_INDICES, "rows_of_an_index_of_two_axes"): gradient(
        more="int64[2,180] labels",
        rows="zeroth = Constant <value = int64 {0}> ()\nf = Gather (labels, zeroth)\nr = Reshape (f, row_shape)",
    ),
    (Code.UNRELATED_INDICES, "one_index_for_all_planes"): gradient(
        more="int64[1,30] labels", rows="r = Expand (labels, row_shape)"
    ),
    (Code.INDICES_SOURCE, "one_plane_expanded_to_itself"): gradient(
        more="int64[6,30] labels", rows="r = Expand (labels, row_shape)"
    ),
    (Code.INDICES_ALTERED, "indices_transposed"): gradient(
        rows="t = Transpose <perm=[1,0,2,3]> (p)\nr = Reshape (t, row_shape)"
    ),
    (Code.INDICES_ALTERED, "whole_tensor_indices_cut_to_int32"): gradient(
        **WHOLE | {"plane_local": "c = Cast <to=6> (i)", "rows": "r = Reshape (c, row_shape)"}
    ),
    (Code.INDICES_ALTERED, "plane_indices_cut_to_int8"): gradient(
        rows="c = Cast <to=3> (p)\nw = Cast <to=7> (c)\nr = Reshape (w, row_shape)"
    ),
    (Code.INDICES_NUMBERING, "whole_tensor_indices_on_planes"): gradient(**WHOLE),
    # what makes them plane-local
    (Code.PLANE_BASE, "first_index_of_every_row"): gradient(
        y="2,3,9,6",
        starts=[0],
        ends=[1],
        axes=[3],
        row_shape=[6, 54],
        pool="y, i = MaxPool <kernel_shape=[1,3], strides=[1,2], pads=[0,1,0,1]> (x)",
    ),
    (Code.PLANE_BASE, "first_index_broadcast_over_other_planes"): gradient(
        row_shape=[36, 30],
        canvas_shape=[36, 108],
        constants={"x_shape": "int64[4] planes_first = {6, 1, 5, 6}"},
        inputs="float[1,6,9,12] x, float[36,30] dy",
        outputs="float[1,6,5,6] y, float[36,108] dx",
        plane_local="q = Reshape (i, planes_first)\np = Sub (q, d)",
        updates="u = Identity (dy)",
        result="dx = Identity (s)",
    ),
    (Code.PLANE_BASE, "companion_skips_elements"): gradient(
        companion="y1, i1 = MaxPool <kernel_shape=[2,2], strides=[1,1]> (x)"
    ),
    (Code.PLANE_BASE, "companion_of_another_shape"): gradient(
        inputs="float[2,3,9,12] x, float[2,3,9,13] x2, float[2,3,5,6] dy",
        companion="y1, i1 = MaxPool <kernel_shape=[1,1], strides=[1,1]> (x2)",
    ),
    (Code.PLANE_BASE, "remainder_by_another_size"): gradient(
        companion="", first="", plane_local="p = Mod (i, width)", constants={"w": "int64 width = {12}"}
    ),
    (Code.PLANE_BASE, "remainder_of_a_remainder"): gradient(
        companion="",
        first="",
        plane_local="q = Mod (i, plane)\np = Mod (q, plane)",
        constants={"plane": "int64 plane = {108}"},
    ),
    # the forward pool
    # the operands
    (Code.DTYPE_MIX, "zeros_of_another_type"): gradient(element="float16", canvas="z = ConstantOfShape (canvas_shape)"),
    (Code.DTYPE_MIX, "summed_in_double"): gradient(
        updates="v = Reshape (dy, row_shape)\nu = Cast <to=11> (v)",
        result="w = Reshape (s, x_shape)\ndx = Cast <to=1> (w)",
        constants={"zero": "double zero = {0}"},
    ),
    (Code.DTYPE_MIX, "half_sums_not_cast_back"): gradient(
        inputs="float16[2,3,9,12] x, float16[2,3,5,6] dy",
        outputs="float16[2,3,5,6] y, float[2,3,9,12] dx",
        updates="v = Reshape (dy, row_shape)\nu = Cast <to=1> (v)",
        result="w = Reshape (s, x_shape)\ndx = Neg (w)",
    ),
    (Code.OTHER_CONSUMER, "half_sums_with_another_reader"): gradient(
        inputs="float16[2,3,9,12] x, float16[2,3,5,6] dy",
        outputs="float16[2,3,5,6] y, float16[2,3,9,12] dx, float[6,108] total",
        updates="v = Reshape (dy, row_shape)\nu = Cast <to=1> (v)",
        result="w = Reshape (s, x_shape)\ndx = Cast <to=10> (w)\ntotal = Identity (s)",
    ),
    (Code.OTHER_CONSUMER, "half_sums_that_are_an_output"): gradient(
        inputs="float16[2,3,9,12] x, float16[2,3,5,6] dy",
        outputs="float16[2,3,5,6] y, float16[2,3,9,12] dx, float[6,108] s",
        updates="v = Reshape (dy, row_shape)\nu = Cast <to=1> (v)",
        result="w = Reshape (s, x_shape)\ndx = Cast <to=10> (w)",
    ),
}


@pytest.mark.parametrize(("code", "model"), near_misses(NEAR_MISSES))
def test_near_miss(code: Code, model: str | ModelProto, says: Says) -> None:
    says(check_refused(model, code))
