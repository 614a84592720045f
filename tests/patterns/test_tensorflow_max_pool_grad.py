# SPDX-License-Identifier: Apache-2.0

"""TensorFlow's MaxPoolGrad and MaxPool3DGrad as tf2onnx leaves them, text in and text out; near misses and reasons."""

from __future__ import annotations

import onnx
import pytest

from poolgrad_lowering import lower, verify
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.graphs import Written
from tests.heads import edges
from tests.patterns.lowering_checks import NearMisses, check_lowered, check_refused, near_misses
from tests.texts import Says

POOL = "<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>"
SAME = 'ksize=[1,3,3,1], strides=[1,2,2,1], padding="SAME"'


def gradient(
    *,
    attributes: str = SAME,
    pool: str = f"m = MaxPool {POOL} (t)",
    before: str = "t = Transpose <perm=[0,3,1,2]> (x)",
    after: str = "y = Transpose <perm=[0,2,3,1]> (m)",
    gradient: str = "dx = MaxPoolGrad <{}> (x, y, dy)",
    x: str = "2,9,11,3",
    y: str = "2,5,6,3",
    imports: str = '"" : 17',
    **ends: str,
) -> str:
    """Return the text of the form over a 3×3 window with stride 2, some of its parts replaced."""
    inputs, outputs = edges(x, y, **ends)
    return f"""<ir_version: 8, opset_import: [{imports}]> g ({inputs}) => ({outputs}) {{
        {before}
        {pool}
        {after}
        {gradient.format(attributes)}
    }}"""


def with_an_absent_output() -> onnx.ModelProto:
    model = onnx.parser.parse_model(gradient())
    model.graph.node[1].output.append("")
    return model


VARIANTS: dict[str, str | onnx.ModelProto] = {
    "the_pool_gets_its_indices": gradient(),
    "indices_are_there": gradient(pool=f"m, i = MaxPool {POOL} (t)"),
    "an_absent_output": with_an_absent_output(),
    "auto_pad": gradient(pool='m = MaxPool <kernel_shape=[3,3], strides=[2,2], auto_pad="SAME_UPPER"> (t)'),
    "layout_written_out": gradient(attributes=f'{SAME}, data_format="NHWC", explicit_paddings : ints = []'),
    "explicit_paddings": gradient(
        attributes='ksize=[1,3,3,1], strides=[1,2,2,1], padding="EXPLICIT", explicit_paddings=[0,0,1,1,1,1,0,0]'
    ),
    "valid": gradient(
        y="2,4,5,3",
        attributes='ksize=[1,3,2,1], strides=[1,2,2,1], padding="VALID"',
        pool="m = MaxPool <kernel_shape=[3,2], strides=[2,2]> (t)",
    ),
    "padded_before_but_not_after": gradient(
        y="2,4,6,3",
        attributes=SAME.replace('"SAME"', '"EXPLICIT", explicit_paddings=[0,0,1,0,2,0,0,0]'),
        pool="m = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,2,0,0]> (t)",
    ),
    "window_of_one_element": gradient(
        y="2,9,6,3",
        attributes='ksize=[1,1,3,1], strides=[1,1,2,1], padding="SAME"',
        pool="m = MaxPool <kernel_shape=[1,3], strides=[1,2], pads=[0,1,0,1]> (t)",
    ),
    "x_was_channels_first": gradient(
        before="t = Relu (x0)\nx = Transpose <perm=[0,2,3,1]> (t)", inputs="float[2,3,9,11] x0, float[2,5,6,3] dy"
    ),
    "there_and_back": gradient(
        before="r = Relu (x0)\nx = Transpose <perm=[0,2,3,1]> (r)\nt = Transpose <perm=[0,3,1,2]> (x)",
        inputs="float[2,3,9,11] x0, float[2,5,6,3] dy",
    ),
    "converters_own_domain": gradient(
        gradient="dx = ai.onnx.converters.tensorflow.MaxPoolGrad <{}> (x, y, dy)",
        imports='"" : 17, "ai.onnx.converters.tensorflow" : 1',
    ),
    "channels_first": gradient(
        x="2,3,9,11",
        y="2,3,5,6",
        attributes='ksize=[1,1,3,3], strides=[1,1,2,2], padding="SAME", data_format="NCHW"',
        before="",
        pool=f"y = MaxPool {POOL} (x)",
        after="",
    ),
    "three_axes": gradient(
        x="2,5,4,3,2",
        y="2,3,2,2,2",
        attributes='ksize=[1,2,2,2,1], strides=[1,2,2,2,1], padding="SAME", data_format="NDHWC", TInput=1',
        before="t = Transpose <perm=[0,4,1,2,3]> (x)",
        pool="m = MaxPool <kernel_shape=[2,2,2], strides=[2,2,2], pads=[0,0,0,1,0,1]> (t)",
        after="y = Transpose <perm=[0,2,3,4,1]> (m)",
        gradient="dx = MaxPool3DGrad <{}> (x, y, dy)",
    ),
    "symbolic_batch": gradient(x="N,9,11,3", y="N,5,6,3"),
}


@pytest.mark.parametrize("source", VARIANTS.values(), ids=VARIANTS)
def test_variants(source: str | onnx.ModelProto, written: Written) -> None:
    check_lowered(source, written)


WINDOWS = """k = Constant <value = int64[4] {1,3,3,1}> ()
    s = Constant <value_ints = [1,2,2,1]> ()
    s32 = Cast <to=6> (s)"""
SECOND = 'dx = MaxPoolGradV2 <padding="SAME"> (x, y, dy, k, s32)'


def second(windows: str = WINDOWS, **changes: str) -> str:
    """The text of the form with MaxPoolGradV2, whose windows are inputs."""
    constants = windows.replace("{", "{{").replace("}", "}}")
    return gradient(gradient=f"{constants}\n{SECOND}", **changes)


def test_windows_as_inputs(written: Written) -> None:
    check_lowered(second(), written)
    model = onnx.parser.parse_model(second())
    assert verify(model, lower(model).model).proven


WINDOWS_NOT_KNOWN = {
    "an_input": second(WINDOWS.partition("\n")[2], more="int64[4] k"),
    "of_the_size_of_a_batch": second(WINDOWS.replace("{1,3,3,1}", "{2,3,3,1}")),
    "two_numbers": second(WINDOWS.replace("int64[4] {1,3,3,1}", "int64[2] {3,3}")),
    "no_numbers": second("k = Shape (x)\ns32 = Shape (k)"),
}


@pytest.mark.parametrize("source", WINDOWS_NOT_KNOWN.values(), ids=WINDOWS_NOT_KNOWN)
@pytest.mark.refusal(Code.POOL_ATTRIBUTES.value)
def test_windows_as_inputs_that_are_not_known(source: str) -> None:
    check_refused(source, Code.POOL_ATTRIBUTES)


def test_other_windows_as_inputs() -> None:
    source = second(WINDOWS.replace("{1,3,3,1}", "{1,3,4,1}"))
    check_refused(source, Code.ATTRIBUTE_MISMATCH)


def left_out_gradient() -> onnx.ModelProto:
    """An input with the empty name is none."""
    model = onnx.parser.parse_model(gradient())
    model.graph.node[-1].input[2] = ""
    return model


NEAR_MISSES: NearMisses = {
    (Code.NO_FORWARD_POOL, "y_is_an_input"): gradient(
        before="",
        pool="",
        after="",
        inputs="float[2,9,11,3] x, float[2,5,6,3] y, float[2,5,6,3] dy",
        outputs="float[2,9,11,3] dx",
    ),
    (Code.NO_FORWARD_POOL, "y_is_the_indices"): gradient(pool=f"n, i = MaxPool {POOL} (t)\nm = Cast <to=1> (i)"),
    (Code.NO_FORWARD_POOL, "y_is_the_indices_as_they_are"): gradient(
        pool=f"n, m = MaxPool {POOL} (t)", outputs="int64[2,5,6,3] y, float[2,9,11,3] dx"
    ),
    (Code.NO_FORWARD_POOL, "y_is_transposed_otherwise"): gradient(
        before="t = Transpose <perm=[0,3,2,1]> (x)", after="y = Transpose <perm=[0,3,2,1]> (m)"
    ),
    (Code.NO_FORWARD_POOL, "pool_over_another_tensor"): gradient(
        before="r = Relu (x)\nt = Transpose <perm=[0,3,1,2]> (r)"
    ),
    (Code.NO_FORWARD_POOL, "pool_over_x_transposed_otherwise"): gradient(
        x="2,9,9,3", y="2,5,5,3", before="t = Transpose <perm=[0,3,2,1]> (x)"
    ),
    (Code.OPSET, "pool_before_there_were_indices"): gradient(imports='"" : 7'),
    (Code.OPSET, "pool_since_there_are_indices"): gradient(imports='"" : 8'),
    (Code.ATTRIBUTE_MISMATCH, "other_kernel"): gradient(attributes=SAME.replace("[1,3,3,1]", "[1,3,4,1]")),
    (Code.ATTRIBUTE_MISMATCH, "other_explicit_paddings"): gradient(
        attributes=SAME.replace('"SAME"', '"EXPLICIT", explicit_paddings=[0,0,1,1,2,0,0,0]')
    ),
    (Code.ATTRIBUTE_MISMATCH, "dilated_pool"): gradient(
        pool="m = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1], dilations=[1,2]> (t)"
    ),
    (Code.ATTRIBUTE_MISMATCH, "pads_of_a_symbolic_size"): gradient(x="2,H,11,3", y="2,h,6,3"),
    (Code.AUTO_PAD_SYMBOLIC, "pads_unknown_to_both"): gradient(
        x="2,H,W,3", y="2,OH,OW,3", pool='m = MaxPool <kernel_shape=[3,3], strides=[2,2], auto_pad="SAME_UPPER"> (t)'
    ),
    (Code.ATTRIBUTE_MISMATCH, "padded_at_the_other_end"): gradient(
        x="2,H,W,3", y="2,OH,OW,3", pool='m = MaxPool <kernel_shape=[3,3], strides=[2,2], auto_pad="SAME_LOWER"> (t)'
    ),
    (Code.ATTRIBUTE_MISMATCH, "rounded_up"): gradient(
        attributes=SAME.replace("SAME", "VALID"),
        pool="m = MaxPool <kernel_shape=[3,3], strides=[2,2], ceil_mode=1> (t)",
    ),
    (Code.ATTRIBUTE_MISMATCH, "three_axes_of_two"): gradient(
        x="2,3,9,11",
        y="2,3,5,6",
        attributes='ksize=[1,1,3,3,3], strides=[1,1,2,2,2], padding="SAME", data_format="NCDHW"',
        before="",
        pool=f"y = MaxPool {POOL} (x)",
        after="",
    ),
    (Code.NO_FORWARD_POOL, "another_tensor_channels_first"): gradient(
        x="2,3,9,11",
        y="2,3,5,6",
        attributes='ksize=[1,1,3,3], strides=[1,1,2,2], padding="SAME", data_format="NCHW"',
        before="t = Relu (x)",
        pool=f"y = MaxPool {POOL} (t)",
        after="",
    ),
    (Code.POOL_ATTRIBUTES, "pools_over_channels"): gradient(attributes=SAME.replace("[1,3,3,1]", "[1,3,3,2]")),
    (Code.ARITY, "no_gradient"): left_out_gradient(),
}


@pytest.mark.parametrize(("code", "model"), near_misses(NEAR_MISSES))
def test_near_miss(code: Code, model: str | onnx.ModelProto, says: Says) -> None:
    says(check_refused(model, code))


@pytest.mark.refusal("arity")
def test_no_output(says: Says) -> None:
    model = onnx.parser.parse_model(gradient(outputs="float[2,5,6,3] y"))
    del model.graph.node[-1].output[:]
    says(check_refused(model, Code.ARITY))


EXPLICIT = SAME.replace("SAME", "EXPLICIT")
MALFORMED = {
    "unknown_layout": f'{SAME}, data_format="NCHW_VECT_C"',
    "unknown_layout_of_channels_first": 'ksize=[1,1,3,3], strides=[1,1,2,2], padding="SAME", data_format="NCHW_VECT_C"',
    "layout_is_a_number": f"{SAME}, data_format=1",
    "no_padding": "ksize=[1,3,3,1], strides=[1,2,2,1]",
    "unknown_padding": SAME.replace("SAME", "FULL"),
    "no_kernel": 'strides=[1,2,2,1], padding="SAME"',
    "no_strides": 'ksize=[1,3,3,1], padding="SAME"',
    "no_spatial_axis": 'ksize=[1,1], strides=[1,1], padding="SAME"',
    "one_spatial_axis": 'ksize=[1,3,1], strides=[1,2,1], padding="SAME"',
    "too_few_strides": SAME.replace("[1,2,2,1]", "[1,2,1]"),
    "strides_over_the_batch": SAME.replace("[1,2,2,1]", "[2,2,2,1]"),
    "strides_over_the_channels": SAME.replace("[1,2,2,1]", "[1,2,2,2]"),
    "kernel_of_zero": SAME.replace("[1,3,3,1]", "[1,3,0,1]"),
    "explicit_without_paddings": EXPLICIT,
    "too_few_paddings": f"{EXPLICIT}, explicit_paddings=[0,0,1,1,0,0]",
    "padding_before_the_batch": f"{EXPLICIT}, explicit_paddings=[1,0,1,1,1,1,0,0]",
    "padding_after_the_channels": f"{EXPLICIT}, explicit_paddings=[0,0,1,1,1,1,0,1]",
    "less_than_no_padding_before": f"{EXPLICIT}, explicit_paddings=[0,0,1,1,-1,1,0,0]",
    "less_than_no_padding_after": f"{EXPLICIT}, explicit_paddings=[0,0,1,-1,1,1,0,0]",
}


@pytest.mark.refusal("pool-attributes")
@pytest.mark.parametrize("attributes", MALFORMED.values(), ids=MALFORMED)
def test_malformed_attributes(attributes: str) -> None:
    check_refused(gradient(attributes=attributes), Code.POOL_ATTRIBUTES)
