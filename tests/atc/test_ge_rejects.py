# SPDX-License-Identifier: Apache-2.0

"""Wrong models, each with the code that ATC ends with and what the message says."""

from __future__ import annotations

import re
from collections.abc import Callable

import onnx
import pytest
from onnx import ModelProto

from tests.atc import hand_made
from tests.harness.ge.checking import convert
from tests.harness.ge.driver import AnyPlugin, Plugin
from tests.harness.ge.faults import GeError
from tests.harness.ge.kernels import check_windows
from tests.harness.ge.parser import parse
from tests.harness.ge.prototypes import Release, Soc
from tests.harness.ge.python_plugin import OtherFormat, PythonPlugin

A2, NEW = hand_made.A2, hand_made.NEW
AVERAGE, AVERAGE_2D = hand_made.AVERAGE, hand_made.AVERAGE_2D
Change = tuple[str, str]

POOL_NODE = A2[A2.index("y, argmax =") : A2.index("  [site]")]
SITE_NODE = A2[A2.index("dx =") : A2.index("}")]
STANDARD = "y, i = MaxPool <kernel_shape=[1,3,3], strides=[1,2,2], pads=[0,1,1,0,1,1]> (r)\n argmax = Cast <to=6> (i)\n"
IF = "r = If (c) <then_branch = t () => (a) {a = Optional (x)}, else_branch = e () => (b) {b = Relu (x)}>"
SITE_WINDOW = 'ceil_mode=0, data_format="NCDHW"> (r'

# Found by the front end: the code, the message, the text and what is replaced in it.
IN_PARSER: dict[str, tuple[str, str, str, list[Change]]] = {
    "MaxPool with Indices": ("E11010", "output of Indices is not support", A2, [(POOL_NODE, STANDARD)]),
    "storage_order 1": (
        "E11010", "storage_order is 1", A2,
        [(POOL_NODE, 'y = MaxPool <kernel_shape=[3], storage_order=1> (r) argmax = Cast <to=6> (r)')]),
    "MaxPool over four axes": (
        "E11010", "1, 2 or 3 axes", A2,
        [(POOL_NODE, "y = MaxPool <kernel_shape=[1,1,1,1]> (r) argmax = Cast <to=6> (r)")]),
    "opset 21": ("E13010", "ai.onnx::21::Relu, the type of relu", A2, [('"": 16', '"": 21')]),
    "opset 19": ("E13010", "ai.onnx::19::Relu", A2, [('"": 16', '"": 19')]),
    "opset 7": ("E13010", "ai.onnx::7::Relu", A2, [('"": 16', '"": 7')]),
    "two nodes of one name": ("E13009", "called relu", A2, [("[pool]", "[relu]")]),
    "a node with the name of an input": ("E13009", "called dy", A2, [("[pool]", "[dy]")]),
    "a node with the name of a node without one": (
        "E13009", "called Relu_0", A2, [("[relu] ", ""), ("pool", "Relu_0")]),
    "a domain that is not imported": ("E19999", "domain npu", A2, [(', "npu": 1', "")]),
    "no import of ONNX's operators": ("E19999", "domain ai.onnx", A2, [('"": 16, ', "")]),
    "version 2 of the dialect": ("E13010", "npu::2::MaxPool3DWithArgmaxV2", A2, [('"npu": 1', '"npu": 2')]),
    "an operator that nobody registers": (
        "E13010", "npu::1::MaxPoolWithArgmaxV1", NEW, [("MaxPoolWithArgmaxV3", "MaxPoolWithArgmaxV1")]),
    "onnxruntime's operators": (
        "E13010", "com.microsoft::1::QuickGelu", A2,
        [('"npu": 1', '"npu": 1, "com.microsoft": 1'), ("Relu", "com.microsoft.QuickGelu")]),
    "an operator that nobody registers, in a subgraph": (
        "E13010", "ai.onnx::16::Optional", A2, [("r = Relu (x)", IF)]),
    "no graph output": ("E16001", "no output", A2, [("(float[2,3,1,4,5] y, float[2,3,1,7,9] dx)", "()")]),
    "no graph input": (
        "E16001", "no input", A2,
        [("(float[2,3,1,7,9] x, float[2,3,1,4,5] dy)", "()"), ("r = Relu (x)", "r = Constant <value_float = 1.0> ()")]),
    "an output that nothing makes": (
        "E19999", "makes the output z", A2, [("float[2,3,1,7,9] dx)", "float[2,3,1,7,9] z)")]),
    "an attribute that the operator lacks": ("E11010", "site", A2, [(SITE_WINDOW, "axis=1, " + SITE_WINDOW)]),
    "an attribute that is missing": ("E11010", "pool", A2, [("ksize=[1,3,3], ", "")]),
    "a text as a number": ("E11010", "pool", A2, [("ceil_mode=0", 'ceil_mode="0"')]),
    "floats as a list": ("E11010", "pool", A2, [("ksize=[1,3,3]", "ksize=[1.0,3.0,3.0]")]),
    "a number as a text": ("E11010", "pool", A2, [('data_format="NCDHW"', "data_format=1")]),
    "a ceil_mode of 2": ("E11010", "pool", A2, [("ceil_mode=0", "ceil_mode=2")]),
    "a list of two": ("E11010", "pool", A2, [("ksize=[1,3,3]", "ksize=[3,3]")]),
    "a list of four": ("E11010", "pool", A2, [("pads=[0,1,1]", "pads=[0,0,1,1]")]),
    "four inputs of three": ("E19999", "has no input 3", A2, [("(r, dy, argmax)", "(r, dy, argmax, r)")]),
    "the second output of one": (
        "E19999", "has no output 1", A2,
        [("dx =", "dx, second ="), ("(r, dy, argmax)\n", "(r, dy, argmax)\n [more] n = Neg (second)\n")]),
}  # fmt: skip

# Found by the operator library, shape inference or tiling of a SoC, unless the plugin finds it before them.
IN_GRAPH: dict[str, tuple[str, str, Soc, str, list[Change]]] = {
    "two inputs of three": ("EZ9999", "argmax is missing", "ascend910b", A2, [("(r, dy, argmax)", "(r, dy)")]),
    "rank 4": ("EZ9999", r"ranks \[4\]", "ascend910b", A2, [("3,1,7,9", "3,7,9"), ("3,1,4,5", "3,4,5")]),
    "rank 3": ("EZ9999", r"ranks \[3\]", "ascend910_93", A2, [("2,3,1,7,9", "3,7,9"), ("2,3,1,4,5", "3,4,5")]),
    "rank 4 of a pool": ("EZ9999", r"ranks \[4\]", "ascend950", A2, [("3,1,7,9", "3,7,9"), ("3,1,4,5", "3,4,5")]),
    "rank 5 of a V3": ("EZ9999", r"ranks \[5\]", "ascend950", NEW, [("3,7,9", "3,1,7,9"), ("3,4,5", "3,1,4,5")]),
    "V3 on A2": ("EZ3003", "ascend910b has no", "ascend910b", NEW, []),
    "V3 on A3": ("EZ3003", "ascend910_93 has no", "ascend910_93", NEW, []),
    "a pool with int64 argmax": ("EZ3003", "argmax of type int64", "ascend910b", A2, [("dtype=3", "dtype=9")]),
    "a gradient with int64 argmax": (
        "EZ3003", "site .*argmax of type int64", "ascend910b", A2,
        [("[site]", "[cast] wide = Cast <to=7> (argmax)\n  [site]"), ("dy, argmax)", "dy, wide)")]),
    "argmax of another type than dtype says": (
        "EZ9999", "dtype says int32", "ascend950", NEW,
        [('data_format="NCHW", dtype=9> (r, dy', 'data_format="NCHW", dtype=3> (r, dy')]),
    "float64": ("EZ3003", "values of types", "ascend910b", A2, [("float", "double")]),
    "grad of another type than x": (
        "EZ3003", "'float32', 'float16'", "ascend950", A2, [("float[2,3,1,4,5] dy", "float16[2,3,1,4,5] dy")]),
    "pads of more than half a window": (
        "EZ9999", "more than half", "ascend910b", A2, [("pads=[0,1,1]", "pads=[0,2,2]")]),
    "negative pads": ("EZ9999", "out of range", "ascend950", A2, [("pads=[0,1,1]", "pads=[0,-1,1]")]),
    "a stride of 0": ("EZ9999", "out of range", "ascend910b", A2, [("strides=[1,2,2]", "strides=[1,0,2]")]),
    "a dilated pool": ("EZ9999", "dilation", "ascend910b", A2, [("dilation=[1,1,1]", "dilation=[1,2,2]")]),
    "a grad that is too small": ("EZ9999", "grad of", "ascend910b", A2, [("4,5] dy", "4,4] dy")]),
    "an empty x": ("EZ9999", "empty", "ascend910b", A2, [("[2,3,1,", "[0,3,1,")]),
    "sizes that are an input": (
        "EZ9999", "'sizes' is not constant", "ascend910b", AVERAGE,
        [("1,4,5] dy)", "1,4,5] dy, int32[5] sizes)"), ("<int32[5] sizes = {2,3,1,7,9}>", "")]),
    "sizes that are computed": (
        "EZ9999", "is not constant", "ascend950", AVERAGE_2D,
        [("[neg]", "[more] computed = Abs (sizes)\n  [neg]"), ("(sizes, g)", "(computed, g)")]),
    "sizes of int64": ("EZ9999", "numbers of type int64", "ascend910b", AVERAGE, [("int32[5]", "int64[5]")]),
    "sizes of rank 4 on A2": (
        "EZ9999", "has 4 numbers", "ascend910b", AVERAGE,
        [("int32[5] sizes = {2,3,1,7,9}", "int32[4] sizes = {2,3,7,9}")]),
    "an average's gradient of rank 4": ("EZ9999", "rank 4", "ascend910b", AVERAGE, [("3,1,4,5", "3,4,5")]),
    "a V2 average's gradient of rank 3": (
        "EZ9999", "at rank 4 only", "ascend950", AVERAGE_2D, [("[2,3,4,5]", "[3,4,5]")]),
    "V2 averages on A2": ("EZ3003", "has no AvgPoolV2Grad", "ascend910b", AVERAGE_2D, []),
    "an average's gradient that is too small": (
        "EZ9999", "a gradient of", "ascend910b", AVERAGE, [("4,5] dy", "4,4] dy")]),
    "an average's pads of more than half": (
        "EZ9999", "more than half", "ascend910b", AVERAGE, [("0,0,1,1,1,1", "0,0,2,2,1,1")]),
    "ksize of the channels": (
        "EZ9999", "of batch or channels", "ascend950", AVERAGE_2D, [("ksize=[1,1,3,3]", "ksize=[1,3,3,3]")]),
    "an average in float64": ("EZ3003", "values of types", "ascend950", AVERAGE, [("float[", "double[")]),
    "an empty output_size": ("EZ9999", "output_size", "ascend950", hand_made.ADAPTIVE, [("[1,4,5]", "[1,4,0]")]),
}  # fmt: skip


def check(code: str, message: str, refused: Callable[[], object], *, earlier: bool = False) -> None:
    """Assert that a call is refused with this code and message, or, if it may be `earlier`, by the plugin."""
    with pytest.raises(GeError) as error:
        refused()
    fault = error.value.faults[0]
    if earlier and fault.code == "E11010":
        message = "poolgrad: node '"
    else:
        assert fault.code == code, str(fault)
    assert re.search(message, fault.message), str(fault)


@pytest.mark.parametrize("name", IN_PARSER)
def test_the_parser_refuses(plugin: AnyPlugin, name: str) -> None:
    code, message, text, changes = IN_PARSER[name]
    check(code, re.escape(message), lambda: parse(hand_made.parsed(text, *changes), plugin))


@pytest.mark.parametrize("name", IN_GRAPH)
def test_the_graph_is_refused(plugin: AnyPlugin, name: str) -> None:
    code, message, soc, text, changes = IN_GRAPH[name]
    model = hand_made.parsed(text, *changes)
    own = isinstance(plugin, Plugin)
    check(code, message, lambda: convert(model, hand_made.feeds_of(model), plugin, soc), earlier=own)


def test_the_last_axis_for_channels_is_refused_by_plugin_or_tiling(plugin: AnyPlugin) -> None:
    model = hand_made.parsed(A2, ("NCDHW", "NDHWC"))
    with pytest.raises(GeError, match=r"E11010: .*pool|EZ9999: .*data_format NDHWC"):
        convert(model, hand_made.feeds_of(model), plugin, "ascend910b")


@pytest.mark.parametrize(
    ("number", "soc", "text", "code"),
    [
        (2, "ascend910b", A2, "EZ3003"),
        (0, "ascend910b", A2, "EZ9999"),
        (0, "ascend950", A2, "EZ9999"),
        (27, "ascend910_93", A2, "EZ3003"),
        (30, "ascend950", NEW, "EZ9999"),
    ],
)
def test_formats_that_a_plugin_must_not_leave(number: int, soc: Soc, text: str, code: str) -> None:
    model = hand_made.parsed(text)
    plugin = OtherFormat(PythonPlugin(), number)
    check(code, "format", lambda: convert(model, hand_made.feeds_of(model), plugin, soc))


@pytest.mark.parametrize("soc", ["ascend910b", "ascend910_93"])
def test_adaptive_averages_of_other_products(plugin: AnyPlugin, soc: Soc) -> None:
    """Their tiling takes a gradient of (D, H, W, N·C)."""
    model = hand_made.parsed(hand_made.ADAPTIVE_AVERAGE)
    feeds = hand_made.feeds_of(model)
    check("EZ9999", "N·C", lambda: convert(model, feeds, plugin, soc, "9.1.0"))
    model = hand_made.parsed(hand_made.ADAPTIVE_AVERAGE_2D)
    check("EZ3003", "has no", lambda: convert(model, feeds, plugin, soc, "9.1.0"))


@pytest.mark.parametrize("text", [hand_made.ADAPTIVE_AVERAGE, hand_made.ADAPTIVE_AVERAGE_2D])
def test_adaptive_averages_need_9_1_0(plugin: AnyPlugin, text: str) -> None:
    check("E10501", "9.0.0", lambda: parse(hand_made.parsed(text), plugin, "9.0.0"))


@pytest.mark.parametrize("release", ["8.5.0"])
def test_three_dimensional_operators_need_9_0_0(plugin: AnyPlugin, release: Release) -> None:
    check("E10501", "8.5.0", lambda: parse(hand_made.parsed(A2), plugin, release))


def test_a_model_without_a_graph(plugin: AnyPlugin) -> None:
    check("E16004", "no graph", lambda: parse(ModelProto(), plugin))


def test_a_node_with_the_name_of_an_initializers_node(plugin: AnyPlugin) -> None:
    model = hand_made.parsed(A2, ("[relu] r = Relu (x)", "[b_Initializer_1] r = Add (x, b)"))
    for name in ("b", "a"):
        model.graph.initializer.append(onnx.helper.make_tensor(name, 1, [1], [0.0]))
    check("E13009", "called b_Initializer_1", lambda: parse(model, plugin))


def test_every_unregistered_node_is_named_at_once(plugin: AnyPlugin) -> None:
    model = hand_made.parsed(A2, ('"": 16', '"": 21'), ("r = Relu (x)", "s = Neg (x) r = Relu (s)"))
    with pytest.raises(GeError) as error:
        parse(model, plugin)
    assert [fault.code for fault in error.value.faults] == ["E13010", "E13010"]


def test_an_operator_without_a_prototype(plugin: AnyPlugin) -> None:
    """The shipped plugin says so itself; a plugin that only registers the operator leaves it to GE."""
    model = hand_made.parsed(A2, (SITE_NODE, "dx = npu.AdaptiveMaxPool3DGrad (r, dy, argmax)"))
    with pytest.raises(GeError, match=r"E10501: .* has no prototype in CANN 9.0.0|E11010: .*export-atc"):
        parse(model, plugin)


def test_a_plane_of_more_elements_than_an_int32_counts() -> None:
    pool = next(each for each in parse(hand_made.parsed(A2), PythonPlugin()).operators if each.node.name == "pool")
    check_windows(pool, [1, 2**15, 2**16 - 1], "ascend910b")
    check_windows(pool, [1, 2**15, 2**16], "ascend950")
    check("EZ9999", "too large", lambda: check_windows(pool, [1, 2**15, 2**16], "ascend910b"))
