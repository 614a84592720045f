# SPDX-License-Identifier: Apache-2.0

"""Graph mode refuses what CANN does not document: each rule with a model that it refuses, and one that it takes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from poolgrad_lowering import export_cann
from tests.cann_ep.test_graph_engine import SAME, model_of, outcome
from tests.harness.cann.graph_engine import SOC_VERSION, GraphEngine
from tests.harness.ge.faults import GeError
from tests.harness.sessions.mixed_sessions import Array, image, on_device
from tests.heads import head

pytestmark = pytest.mark.cann_ep

A2, NEW = "Ascend910B1", "Ascend950PR_9599"
WIDE, CUBE = "float[1,1,8,700] x", "float[1,1,600,8,600] x"
ROW = np.zeros((1, 1, 1, 300), np.float32)
CONV_3D = "Conv <kernel_shape=[3,3,3]{}> (x, w)"
VOLUME, FILTER = "float[1,2,5,6,7] x, float[3,2,3,3,3] w", "float[2,3,3,3,3] w, float[1,2,5,6,7] x"

# The SoC, the inputs, the code and the message, a node that is refused, and one that is taken.
RULES: dict[str, tuple[str, str, str, str, str]] = {
    "negative pads": (
        A2, "float[4,4] x", "EZ9999: negative pads [-1, 0, 0, 1]", "Pad (x, cut)", "Pad (x, grow)"),
    "negative pads of an old opset": (
        A2, "float[4,4] x", "EZ9999: negative pads [0, 0, -1, 0]", "Pad <pads=[0,0,-1,0]> (x)",
        "Pad <pads=[0,0,1,0]> (x)"),
    "kernel": (
        NEW, WIDE, "EZ9999: kernel [1, 256], Conv2D documents 255 at most", "Conv <kernel_shape=[1,256]> (x, w256)",
        "Conv <kernel_shape=[1,255]> (x, w255)"),
    "kernel of the weight's shape": (
        NEW, WIDE, "EZ9999: kernel [1, 300], Conv2D documents 255", "Conv <pads=[0,0,0,0]> (x, w300)",
        "Conv <pads=[0,0,0,0]> (x, w255)"),
    "kernel of one axis": (
        A2, "float[1,1,700] x", "EZ9999: kernel [300]", "Conv <kernel_shape=[300]> (x, v300)",
        "Conv <kernel_shape=[200]> (x, v200)"),
    "strides": (
        NEW, WIDE, "EZ9999: strides [1, 64], Conv2D documents 63",
        "Conv <kernel_shape=[1,255], strides=[1,64]> (x, w255)",
        "Conv <kernel_shape=[1,255], strides=[1,63]> (x, w255)"),
    "pads": (
        NEW, WIDE, "EZ9999: pads [0, 256, 0, 0], Conv2D documents 255",
        "Conv <kernel_shape=[1,255], pads=[0,256,0,0]> (x, w255)",
        "Conv <kernel_shape=[1,255], pads=[0,255,0,0]> (x, w255)"),
    "dilations": (
        NEW, WIDE, "EZ9999: dilations [1, 256], Conv2D documents 255",
        "Conv <kernel_shape=[1,2], dilations=[1,256]> (x, w2)", "Conv <kernel_shape=[1,2], dilations=[1,255]> (x, w2)"),
    "kernel of ConvTranspose": (
        A2, WIDE, "EZ9999: kernel [1, 256], Conv2DTranspose documents 255",
        "ConvTranspose <kernel_shape=[1,256]> (x, w256)", "ConvTranspose <kernel_shape=[1,255]> (x, w255)"),
    "kernel of three axes": (
        A2, CUBE, "EZ9999: kernel [1, 1, 512], Conv3D documents 511",
        "Conv <kernel_shape=[1,1,512], strides=[1,1,1]> (x, c512)",
        "Conv <kernel_shape=[1,1,511], strides=[1,1,1]> (x, c511)"),
    "kernel of three axes on Ascend 950": (
        NEW, CUBE, "EZ9999: kernel [1, 1, 511], Conv3D documents 255",
        "Conv <kernel_shape=[1,1,511], strides=[1,1,1]> (x, c511)",
        "Conv <kernel_shape=[511,1,1], strides=[1,1,1]> (x, d511)"),
    "dilations of ConvTranspose over three axes": (
        A2, FILTER, "EZ9999: dilations or output_padding, which Conv3DTranspose does not have",
        "ConvTranspose <kernel_shape=[3,3,3], dilations=[2,1,1]> (x, w)",
        "ConvTranspose <kernel_shape=[3,3,3], dilations=[1,1,1]> (x, w)"),
    "output_padding of ConvTranspose over three axes": (
        A2, FILTER, "EZ9999: dilations or output_padding",
        "ConvTranspose <kernel_shape=[3,3,3], strides=[2,2,2], output_padding=[1,0,0]> (x, w)",
        "ConvTranspose <kernel_shape=[3,3,3], strides=[2,2,2]> (x, w)"),
    "window of an average": (
        NEW, WIDE, "EZ9999: a window of 256 elements, AvgPoolV2 documents 255",
        "AveragePool <kernel_shape=[2,128]> (x)", "AveragePool <kernel_shape=[2,127]> (x)"),
    "window of an average over three axes": (
        A2, CUBE, "EZ9999: a window of 256 elements, AvgPool3D documents 255",
        "AveragePool <kernel_shape=[32,2,4]> (x)", "AveragePool <kernel_shape=[31,2,4]> (x)"),
    "window of a maximum over three axes": (
        A2, CUBE, "EZ9999: a window of 256 elements, MaxPool3D documents 255",
        "MaxPool <kernel_shape=[32,2,4]> (x)", "MaxPool <kernel_shape=[31,2,4]> (x)"),
    "stride of a maximum over three axes": (
        A2, CUBE, "EZ9999: strides [64, 1, 1], MaxPool3D documents 63",
        "MaxPool <kernel_shape=[2,2,2], strides=[64,1,1]> (x)", "MaxPool <kernel_shape=[2,2,2], strides=[63,1,1]> (x)"),
    "layout of a convolution over three axes": (
        NEW, VOLUME, "EZ9999: none of ['strides', 'dilations', 'pads'], so its data_format is NCHW",
        CONV_3D.format(""), CONV_3D.format(", strides=[1,1,1]")),
    "nine axes": (
        NEW, "float[1,1,1,1,1,1,1,2,3] x", "EZ9999: 'x' has 9 axes, 8 at most",
        "Transpose <perm=[1,0,2,3,4,5,6,7,8]> (x)", "Exp (x)"),
    "nine axes of a result": (
        NEW, "float[2,3] x", "EZ9999: 'y' has 9 axes, 8 at most", "Expand (x, nine)", "Expand (x, eight)"),
    "seven axes of a product": (
        NEW, "float[1,1,1,1,1,2,2] x, float[1,1,1,1,2,2] z", "EZ9999: 'x' has 7 axes, 6 at most", "MatMul (x, x)",
        "MatMul (z, z)"),
    "float64 of a product": (
        NEW, "double[2,2] x, float[2,2] z", "EZ3003: no kernel for 'x' of type double", "MatMul (x, x)",
        "MatMul (z, z)"),
    "float64 of a convolution": (
        A2, "double[1,1,5,5] x, double[1,1,3,3] w, float[1,1,5,5] z, float[1,1,3,3] v",
        "EZ3003: no kernel for 'x' of type double", "Conv <kernel_shape=[3,3]> (x, w)",
        "Conv <kernel_shape=[3,3]> (z, v)"),
    "float64 of an Expand": (
        NEW, "double[2,3] x", "EZ3003: no kernel for 'x' of type double", "Expand (x, eight)", "Tile (x, twice)"),
    "bfloat16 of a global average": (
        NEW, "bfloat16[1,2,3,4] x, float16[1,2,3,4] z", "EZ3003: no kernel for 'x' of type bfloat16",
        "GlobalAveragePool (x)", "GlobalAveragePool (z)"),
    "bfloat16 of a maximum over three axes": (
        A2, "bfloat16[1,2,5,6,7] x, bfloat16[1,2,6,7] z", "EZ3003: no kernel for 'x' of type bfloat16",
        "MaxPool <kernel_shape=[2,2,2]> (x)", "MaxPool <kernel_shape=[2,2]> (z)"),
    "bfloat16 of a Sum": (
        NEW, "bfloat16[2] x", "EZ3003: no kernel for 'x' of type bfloat16", "Sum (x, x)", "Add (x, x)"),
    "bfloat16 of a linear Resize": (
        NEW, "bfloat16[1,1,2,2] x", "EZ3003: no kernel for 'x' of type bfloat16",
        'Resize <mode="linear"> (x, , double)', 'Resize <mode="nearest"> (x, , double)'),
    "statistics of float16": (
        NEW, "float16[1,2,3,4] x, float16[2] h, float[2] s", "EZ3003: no kernel for 'h' of type float16",
        "BatchNormalization (x, s, s, h, s)", "BatchNormalization (x, s, s, s, s)"),
}  # fmt: skip

CONSTANTS: dict[str, Array] = {
    "cut": np.array([-1, 0, 0, 1]),
    "grow": np.array([1, 0, 0, 1]),
    "nine": np.array([1] * 7 + [2, 3]),
    "eight": np.array([1] * 6 + [2, 3]),
    "twice": np.array([2, 2]),
    "double": np.array([1, 1, 2, 2], np.float32),
    **{f"w{size}": np.zeros((1, 1, 1, size), np.float32) for size in (2, 255, 256, 300)},
    **{f"v{size}": np.zeros((1, 1, size), np.float32) for size in (200, 300)},
    **{f"c{size}": np.zeros((1, 1, 1, 1, size), np.float32) for size in (511, 512)},
    "d511": np.zeros((1, 1, 511, 1, 1), np.float32),
}


def model_of_node(inputs: str, node: str) -> onnx.ModelProto:
    """The model of a node, with those of the inputs that it reads."""
    opset = 10 if "pads=[0,0" in node and "Pad <" in node else 18
    model = onnx.parser.parse_model(f"{head(opset)} model ({inputs}) => (float y) {{ [a_node] y = {node} }}")
    model.graph.output[0].ClearField("type")
    read = model.graph.node[0].input
    for value in [value for value in model.graph.input if value.name not in read]:
        model.graph.input.remove(value)
    model.graph.initializer.extend(numpy_helper.from_array(CONSTANTS[name], name) for name in read if name in CONSTANTS)
    return model


def refusal(soc: str, model: onnx.ModelProto) -> str:
    """Why an engine for the SoC builds no model; empty if it builds one."""
    engine = GraphEngine()
    engine.initialize({SOC_VERSION: soc, "ge.exec.precision_mode": "must_keep_origin_dtype"})
    number = engine.parse(model.SerializeToString())
    try:
        engine.build(number, {})
    except GeError as error:
        assert engine.refusals()
        return str(error).replace("a_node ", "").replace(f"({model.graph.node[0].op_type}): ", "")
    return ""


@pytest.mark.parametrize("name", RULES)
def test_a_build_is_refused_or_not(name: str) -> None:
    soc, inputs, message, refused, taken = RULES[name]
    found = refusal(soc, model_of_node(inputs, refused))
    assert found.startswith(message), found
    assert refusal(soc, model_of_node(inputs, taken)) == ""


@pytest.mark.parametrize("name", RULES)
def test_what_is_refused_is_named_or_written_otherwise(name: str) -> None:
    """By the export that `create_session` makes."""
    soc, inputs, _, refused, _ = RULES[name]
    export = export_cann(model_of_node(inputs, refused), target=soc)
    assert export.report.obstacles or refusal(soc, export.model) == ""


@pytest.mark.parametrize(
    "name", ["negative pads", "window of an average over three axes", "bfloat16 of a maximum over three axes"]
)
def test_ascend_950_takes_what_atlas_a2_does_not(name: str) -> None:
    _, inputs, _, refused, _ = RULES[name]
    assert refusal(NEW, model_of_node(inputs, refused)) == ""


def check_negative_pads() -> str:
    model = model_of("float[4,4] x", "y = Pad (x, cut)", cut=CONSTANTS["cut"])
    return outcome(model, {"x": image(4, 4)})


@pytest.mark.parametrize(("soc", "expected"), [(A2, "negative pads [-1, 0, 0, 1]"), (NEW, SAME)])
def test_a_session(soc: str, expected: str) -> None:
    assert expected in on_device(check_negative_pads, ACLNN_HOST_SOC=soc)


def test_no_input_shape_leaves_the_declared_shapes() -> None:
    """GE parses an input_shape only if it is not empty; a model without inputs is refused by the parser."""
    model = onnx.parser.parse_model(f"{head(18)} model (float[2,3] x) => (float[2,3] y) {{ y = Relu (x) }}")
    engine = GraphEngine()
    number = engine.parse(model.SerializeToString())
    engine.build(number, {"input_shape": ""})
    assert engine.sub_models[0].builds == [{"input_shape": ""}]
    del model.graph.input[:]
    model.graph.initializer.append(numpy_helper.from_array(image(2, 3), "x"))
    with pytest.raises(GeError, match="E16001"):
        engine.parse(model.SerializeToString())
