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
    constants = {
        "row_shape": "int64[2] row_shape = {1, 180}",
        "canvas_shape": f"int64[2] canvas_shape = {{{sizes}}}",
    }
    outputs = f"float[2,3,5,6] y, float[{sizes}] dx"
    return {**WHOLE, "constants": constants, "outputs": outputs, "result": "dx = Neg (s)"}


NEAR_MISSES: NearMisses = {
    # the scatter
    "maximum": (Code.REDUCTION, gradient(scatter='s = ScatterElements <axis=1, reduction="max"> (z, r, u)')),
    "no_updates": (Code.ARITY, gradient(scatter='s = ScatterElements <axis=1, reduction="add"> (z, r)')),
    "no_base": (
        Code.ARITY,
        gradient(scatter="s = ScatterElements <axis=1, reduction=\"add\"> ('', r, u)").replace("''", ""),
    ),
    "no_positions": (
        Code.ARITY,
        gradient(scatter="s = ScatterElements <axis=1, reduction=\"add\"> (z, '', u)").replace("''", ""),
    ),
    "dilated_windows_of_the_same_size": (
        Code.POOL_ATTRIBUTES,
        gradient(pool='y, i = MaxPool <kernel_shape=[3,3], strides=[2,2], dilations=[2,2], auto_pad="SAME_UPPER"> (x)'),
    ),
    "whole_tensor_indices_onto_one_of_two_rows": (Code.INDICES_NUMBERING, gradient(**onto_rows("2, 648"))),
    "whole_tensor_indices_onto_a_longer_row": (Code.INDICES_NUMBERING, gradient(**onto_rows("1, 649"))),
    "more_updates_than_indices": (
        Code.GRAD_SHAPE,
        gradient(scatter='s = ScatterElements <axis=1, reduction="add"> (z, r, z)'),
    ),
    "along_the_rows": (
        Code.ROWS_NOT_PLANES,
        gradient(scatter='s = ScatterElements <axis=0, reduction="add"> (z, r, u)'),
    ),
    "rows_hold_several_planes": (
        Code.ROWS_NOT_PLANES,
        gradient(
            constants={
                "row_shape": "int64[2] row_shape = {2, 90}",
                "canvas_shape": "int64[2] canvas_shape = {2, 324}",
            }
        ),
    ),
    "fewer_rows_than_the_base": (
        Code.ROWS_NOT_PLANES,
        gradient(
            outputs="float[2,3,5,6] y, float[7,108] dx",
            result="dx = Identity (s)",
            constants={"canvas_shape": "int64[2] canvas_shape = {7, 108}"},
        ),
    ),
    "rows_in_another_arrangement": (
        Code.ROWS_NOT_PLANES,
        gradient(
            scatter='s = ScatterElements <axis=2, reduction="add"> (z, r, u)',
            constants={
                "row_shape": "int64[3] row_shape = {3, 2, 30}",
                "canvas_shape": "int64[3] canvas_shape = {2, 3, 108}",
            },
        ),
    ),
    "batch_of_another_name": (
        Code.ROWS_NOT_PLANES,
        gradient(
            inputs="float[N,3,9,12] x, float[N,3,5,6] dy, float[M] other",
            outputs="float[N,3,5,6] y, float[N,3,9,12] dx",
            canvas="m = Shape (other)\nplanes = Mul (m, channels)\n"
            "canvas_shape = Concat <axis=0> (planes, plane)\nz = Expand (zero, canvas_shape)",
            constants={
                "row_shape": "int64[2] row_shape = {-1, 30}",
                "canvas_shape": "int64[1] plane = {108}, int64[1] channels = {3}",
                "x_shape": "int64[4] x_shape = {-1, 3, 9, 12}",
            },
        ),
    ),
    "rows_longer_than_a_plane": (
        Code.ROW_LENGTH,
        gradient(
            outputs="float[2,3,5,6] y, float[6,200] dx",
            result="dx = Identity (s)",
            constants={"canvas_shape": "int64[2] canvas_shape = {6, 200}"},
        ),
    ),
    "rows_of_unknown_shape": (
        Code.UNKNOWN_SHAPE,
        gradient(
            inputs="float[2,3,9,12] x, float[2,3,5,6] dy, int64[K] any_shape",
            canvas="z = ConstantOfShape (any_shape)",
        ),
    ),
    # the base
    "onto_ones": (Code.BASE_NOT_ZERO, gradient(constants={"zero": "float zero = {1}"})),
    "onto_ones_stored": (Code.BASE_NOT_ZERO, onto(1.0)),
    "onto_negative_zeros": (Code.BASE_NOT_ZERO, onto(-0.0)),
    "onto_one_negative_zero": (Code.BASE_NOT_ZERO, gradient(canvas="", constants={"zero": ONE_NEGATIVE_ZERO})),
    "onto_an_activation": (Code.BASE_NOT_ZERO, gradient(canvas="z = Reshape (x, canvas_shape)")),
    "onto_zeros_that_a_caller_can_override": (Code.INPUT_DEFAULT, overridable_base()),
    "onto_zeros_in_another_file": (Code.EXTERNAL_DATA, external_base()),
    # the indices
    "indices_from_outside": (
        Code.INDICES_SOURCE,
        gradient(
            inputs="float[2,3,9,12] x, float[2,3,5,6] dy, int64[6,30] labels",
            scatter='s = ScatterElements <axis=1, reduction="add"> (z, labels, u)',
        ),
    ),
    "indices_of_another_operator": (
        Code.UNRELATED_INDICES,
        gradient(
            rows="flat = Reshape (x, canvas_shape)\nr = ArgMin <axis=1> (flat)",
            updates="t = ReduceSum (dy, axes)\nu = Reshape (t, one_per_row)",
            constants={"row_shape": "int64[2] one_per_row = {6, 1}"},
        ),
    ),
    "indices_shifted": (
        Code.PLANE_BASE,
        gradient(plane_local="q = Sub (i, d)\np = Sub (q, one)", constants={"one": "int64 one = {1}"}),
    ),
    "indices_transposed": (
        Code.INDICES_ALTERED,
        gradient(rows="t = Transpose <perm=[1,0,2,3]> (p)\nr = Reshape (t, row_shape)"),
    ),
    "whole_tensor_indices_cut_to_int32": (
        Code.INDICES_ALTERED,
        gradient(**WHOLE | {"plane_local": "c = Cast <to=6> (i)", "rows": "r = Reshape (c, row_shape)"}),
    ),
    "plane_indices_cut_to_int8": (
        Code.INDICES_ALTERED,
        gradient(rows="c = Cast <to=3> (p)\nw = Cast <to=7> (c)\nr = Reshape (w, row_shape)"),
    ),
    "whole_tensor_indices_on_planes": (Code.INDICES_NUMBERING, gradient(**WHOLE)),
    # what makes them plane-local
    "first_index_of_the_second_column": (
        Code.PLANE_BASE,
        gradient(constants={"starts": "int64[2] starts = {0, 1}", "ends": "int64[2] ends = {1, 2}"}),
    ),
    "first_index_of_every_row": (
        Code.PLANE_BASE,
        gradient(
            pool="y, i = MaxPool <kernel_shape=[1,3], strides=[1,2], pads=[0,1,0,1]> (x)",
            inputs="float[2,3,9,12] x, float[2,3,9,6] dy",
            outputs="float[2,3,9,6] y, float[2,3,9,12] dx",
            constants={
                "starts": "int64[1] starts = {0}",
                "ends": "int64[1] ends = {1}",
                "axes": "int64[1] axes = {3}",
                "row_shape": "int64[2] row_shape = {6, 54}",
            },
        ),
    ),
    "first_index_broadcast_over_other_planes": (
        Code.PLANE_BASE,
        gradient(
            inputs="float[1,6,9,12] x, float[36,30] dy",
            outputs="float[1,6,5,6] y, float[36,108] dx",
            plane_local="q = Reshape (i, planes_first)\np = Sub (q, d)",
            updates="u = Identity (dy)",
            result="dx = Identity (s)",
            constants={
                "row_shape": "int64[2] row_shape = {36, 30}",
                "canvas_shape": "int64[2] canvas_shape = {36, 108}",
                "x_shape": "int64[4] planes_first = {6, 1, 5, 6}",
            },
        ),
    ),
    "companion_skips_elements": (
        Code.PLANE_BASE,
        gradient(companion="y1, i1 = MaxPool <kernel_shape=[2,2], strides=[1,1]> (x)"),
    ),
    "companion_of_another_shape": (
        Code.PLANE_BASE,
        gradient(
            inputs="float[2,3,9,12] x, float[2,3,9,13] x2, float[2,3,5,6] dy",
            companion="y1, i1 = MaxPool <kernel_shape=[1,1], strides=[1,1]> (x2)",
        ),
    ),
    "remainder_by_another_size": (
        Code.PLANE_BASE,
        gradient(companion="", first="", plane_local="p = Mod (i, width)", constants={"w": "int64 width = {12}"}),
    ),
    "remainder_of_a_remainder": (
        Code.PLANE_BASE,
        gradient(
            companion="",
            first="",
            plane_local="q = Mod (i, plane)\np = Mod (q, plane)",
            constants={"plane": "int64 plane = {108}"},
        ),
    ),
    # the forward pool
    "column_major": (
        Code.STORAGE_ORDER,
        gradient(pool="y, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1], storage_order=1> (x)"),
    ),
    "double": (
        Code.DTYPE,
        gradient(
            inputs="double[2,3,9,12] x, double[2,3,5,6] dy",
            outputs="double[2,3,5,6] y, double[2,3,9,12] dx",
            constants={"zero": "double zero = {0}"},
        ),
    ),
    # the operands
    "zeros_of_another_type": (  # the model does not load; a converter to float16 leaves such zeros
        Code.DTYPE_MIX,
        gradient(
            inputs="float16[2,3,9,12] x, float16[2,3,5,6] dy",
            outputs="float16[2,3,5,6] y, float16[2,3,9,12] dx",
            canvas="z = ConstantOfShape (canvas_shape)",
        ),
    ),
    "summed_in_double": (
        Code.DTYPE_MIX,
        gradient(
            updates="v = Reshape (dy, row_shape)\nu = Cast <to=11> (v)",
            result="w = Reshape (s, x_shape)\ndx = Cast <to=1> (w)",
            constants={"zero": "double zero = {0}"},
        ),
    ),
    "half_sums_not_cast_back": (
        Code.DTYPE_MIX,
        gradient(
            inputs="float16[2,3,9,12] x, float16[2,3,5,6] dy",
            outputs="float16[2,3,5,6] y, float[2,3,9,12] dx",
            updates="v = Reshape (dy, row_shape)\nu = Cast <to=1> (v)",
            result="w = Reshape (s, x_shape)\ndx = Neg (w)",
        ),
    ),
    "half_sums_with_another_reader": (
        Code.OTHER_CONSUMER,
        gradient(
            inputs="float16[2,3,9,12] x, float16[2,3,5,6] dy",
            outputs="float16[2,3,5,6] y, float16[2,3,9,12] dx, float[6,108] total",
            updates="v = Reshape (dy, row_shape)\nu = Cast <to=1> (v)",
            result="w = Reshape (s, x_shape)\ndx = Cast <to=10> (w)\ntotal = Identity (s)",
        ),
    ),
    "half_sums_that_are_an_output": (
        Code.OTHER_CONSUMER,
        gradient(
            inputs="float16[2,3,9,12] x, float16[2,3,5,6] dy",
            outputs="float16[2,3,5,6] y, float16[2,3,9,12] dx, float[6,108] s",
            updates="v = Reshape (dy, row_shape)\nu = Cast <to=1> (v)",
            result="w = Reshape (s, x_shape)\ndx = Cast <to=10> (w)",
        ),
    ),
    "result_of_another_shape": (
        Code.DX_SHAPE,
        gradient(
            outputs="float[2,3,5,6] y, float[2,3,12,9] dx",
            constants={"x_shape": "int64[4] x_shape = {2, 3, 12, 9}"},
        ),
    ),
}


@pytest.mark.parametrize(("code", "model"), near_misses(NEAR_MISSES))
def test_near_miss(code: Code, model: str | ModelProto, says: Says) -> None:
    says(check_refused(model, code))
