# SPDX-License-Identifier: Apache-2.0

"""What CANN's plugins for ONNX's operators refuse and change: each rule with a model and with a near miss."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from models import catalogue
from tests.atc import hand_made
from tests.harness.ge.checking import convert
from tests.harness.ge.execution import execute, run_plainly
from tests.harness.ge.faults import GeError
from tests.harness.ge.parser import parse
from tests.harness.ge.plugin_rules import Context, Library
from tests.harness.ge.plugin_table import NEWEST, OLDEST, PLUGINS
from tests.harness.ge.prototypes import SOCS, Soc
from tests.harness.ge.python_plugin import PythonPlugin
from tests.harness.ge.standard import is_computed_as_said, registered
from tests.heads import head
from tests.oracles import assert_same_bits

Array = npt.NDArray[Any]

IMAGE = "float[2,4,7,7] x"
WEIGHT = "float[2,4,7,7] x, float[4,4,3,3] w"
VOLUME = "float[1,2,5,6,7] x"
PAD = "int64[4] p, float v, int64[2] a"

# The code, the message, the opset, the inputs, a node that is refused, and one that is taken.
REFUSED: dict[str, tuple[str, str, int, str, str, str]] = {
    "ConvTranspose without kernel_shape": (
        "E11010", "attr kernel_shape must have value", 17, WEIGHT, "y = ConvTranspose <strides=[2,2]> (x, w)",
        "y = ConvTranspose <kernel_shape=[3,3]> (x, w)"),
    "Conv without attributes": (
        "E11010", "at least one", 17, WEIGHT, "y = Conv (x, w)", "y = Conv <pads=[0,0,0,0]> (x, w)"),
    "Conv without attributes but group": (
        "E11010", "at least one", 17, WEIGHT, "y = Conv <group=1> (x, w)",
        "y = Conv <group=1, strides=[1,1]> (x, w)"),
    "Conv over three axes with SAME": (
        "E11010", "auto_pad", 17, "float[1,1,5,5,5] x, float[1,1,3,3,3] w",
        'y = Conv <kernel_shape=[3,3,3], auto_pad="SAME_UPPER"> (x, w)',
        'y = Conv <kernel_shape=[3,3,3], auto_pad="VALID"> (x, w)'),
    "MaxPool with Indices": (
        "E11010", "The output of Indices is not support", 17, IMAGE, "y, i = MaxPool <kernel_shape=[2,2]> (x)",
        "y = MaxPool <kernel_shape=[2,2]> (x)"),
    "MaxPool over four axes": (
        "E11010", "1, 2 or 3 axes", 17, "float[1,1,3,3,3,3] x", "y = MaxPool <kernel_shape=[2,2,2,2]> (x)",
        "y = Relu (x)"),
    "Clip without bounds": ("E11010", "'min' or 'max'", 17, f"{IMAGE}, float m", "y = Clip (x)", "y = Clip (x, m)"),
    "Clip with an empty bound": (
        "E11010", "'min' or 'max'", 17, f"{IMAGE}, float m", "y = Clip (x, , )", "y = Clip (x, , m)"),
    "ArgMax of the last index": (
        "E11010", "select_last_index", 17, IMAGE, "i = ArgMax <select_last_index=1> (x) y = Cast <to=1> (i)",
        "i = ArgMax <select_last_index=0> (x) y = Cast <to=1> (i)"),
    "Pad with axes": (
        "E19999", "has no input 3", 18, f"float[3,3] x, {PAD}", "y = Pad (x, p, v, a)", "y = Pad (x, p, v)"),
    "Pad with axes and without a value": (
        "E19999", "has no input 3", 18, f"float[3,3] x, {PAD}", "y = Pad (x, p, , a)", "y = Pad (x, p)"),
    "Transpose without perm": (
        "E11010", "perm must have value", 17, IMAGE, "y = Transpose (x)", "y = Transpose <perm=[3,2,1,0]> (x)"),
    "Split into an odd number": (
        "E11010", "2 outputs", 18, IMAGE, "y, z = Split <num_outputs=3> (x)", "y, z = Split <num_outputs=2> (x)"),
    "GatherND by batches": (
        "E11010", "batch_dims=0", 17, "float[2,3] x, int64[2,1] i", "y = GatherND <batch_dims=1> (x, i)",
        "y = GatherND <batch_dims=0> (x, i)"),
    "Selu with another alpha": ("E11010", "alpha and gamma", 17, IMAGE, "y = Selu <alpha=1.5> (x)", "y = Selu (x)"),
    "RandomUniformLike of an integer type": (
        "E11010", "dtype 6", 17, IMAGE, "r = RandomUniformLike <dtype=6> (x) y = Cast <to=1> (r)",
        "y = RandomUniformLike <dtype=1> (x)"),
    "Einsum without equation": (
        "E11010", "equation must have value", 17, "float[2,3] x", "y = Einsum (x)",
        'y = Einsum <equation="ij->ji"> (x)'),
    "AveragePool over four axes": (
        "E11010", "1, 2 or 3 axes", 17, "float[1,1,3,3,3,3] x", "y = AveragePool <kernel_shape=[2,2,2,2]> (x)",
        "y = AveragePool <kernel_shape=[2,2,2]> (x)"),
    "Pad without pads": ("E11010", "pads must have value", 10, IMAGE, "y = Pad (x)", "y = Pad <pads=[0,0,1,1]> (x)"),
    "Concat without axis": (
        "E11010", "axis must have value", 17, IMAGE, "y = Concat (x, x)", "y = Concat <axis=0> (x, x)"),
    "Slice without ends": (
        "E11010", "ends and starts", 9, IMAGE, "y = Slice <starts=[1]> (x)", "y = Slice <starts=[1], ends=[2]> (x)"),
    "Unsqueeze without axes": (
        "E11010", "axes must have value", 12, IMAGE, "y = Unsqueeze (x)", "y = Unsqueeze <axes=[0]> (x)"),
    "Cast without to": ("E11010", "to must have value", 17, IMAGE, "y = Cast (x)", "y = Cast <to=1> (x)"),
    "Resize without scales": (
        "E11010", "less than 3", 11, f"{IMAGE}, float[8] r, float[4] s", "y = Resize (x, r)", "y = Resize (x, r, s)"),
    "TopK without k": ("E11010", "k must have value", 9, IMAGE, "y, i = TopK (x)", "y, i = TopK <k=2> (x)"),
    "ArgMin of the last index": (
        "E11010", "select_last_index", 17, IMAGE, "y = ArgMin <select_last_index=1> (x)", "y = ArgMin (x)"),
    "RandomNormalLike of an integer type": (
        "E11010", "dtype 7", 17, IMAGE, "y = RandomNormalLike <dtype=7> (x)", "y = RandomNormalLike <dtype=10> (x)"),
    "ReduceLogSum of opset 13": ("E10501", "ReduceLogSum", 13, IMAGE, "y = ReduceLogSum (x)", ""),
    "Dropout": ("E10501", "ai.onnx::17::Dropout", 17, IMAGE, "y = Dropout (x)", "y = Identity (x)"),
    "an input that is no tensor": (
        "E19999", "input s: data type 0", 17, f"{IMAGE}, seq(float[N]) s", "y = Relu (x)", ""),
    "an element type without a number in GE": (
        "E19999", "input z: data type 18", 17, f"{IMAGE}, float8e4m3fnuz[2] z", "y = Relu (x)", ""),
}  # fmt: skip

# The opset, the inputs, a node that GE changes, a node that computes what GE computes, and a node that it keeps.
CHANGED: dict[str, tuple[int, str, str, str, str]] = {
    "Shape loses start and end": (17, IMAGE, "y = Shape <start=1, end=3> (x)", "y = Shape (x)", "y = Shape (x)"),
    "Gemm without C loses alpha": (
        17, "float[2,3] x, float[3,4] b, float[4] c", "y = Gemm <alpha=0.5> (x, b)", "y = Gemm (x, b)",
        "y = Gemm <alpha=0.5, beta=2.0> (x, b, c)"),
    "GlobalMaxPool over three axes keeps the middle one": (
        17, f"{VOLUME}, {IMAGE.replace('x', 'z')}", "y = GlobalMaxPool (x)", "y = ReduceMax <axes=[2,4]> (x)",
        "y = GlobalMaxPool (z)"),
    "GlobalMaxPool of opset 18": (
        18, f"{VOLUME}, {IMAGE.replace('x', 'z')}", "y = GlobalMaxPool (x)",
        "a = Constant <value_ints=[2,4]> () y = ReduceMax (x, a)", "y = GlobalMaxPool (z)"),
    "AveragePool takes SAME_LOWER for SAME_UPPER": (
        17, IMAGE, 'y = AveragePool <kernel_shape=[2,2], auto_pad="SAME_LOWER"> (x)',
        'y = AveragePool <kernel_shape=[2,2], auto_pad="SAME_UPPER"> (x)',
        'y = AveragePool <kernel_shape=[2,2], auto_pad="VALID"> (x)'),
    "AveragePool over three axes loses auto_pad": (
        17, VOLUME, 'y = AveragePool <kernel_shape=[2,2,2], auto_pad="SAME_UPPER"> (x)',
        "y = AveragePool <kernel_shape=[2,2,2]> (x)",
        "y = AveragePool <kernel_shape=[2,2,2], pads=[1,0,0,0,1,0]> (x)"),
    "LogSoftmax is over the last axis by default": (
        11, "float[2,3,4] x", "y = LogSoftmax (x)", "y = LogSoftmax <axis=2> (x)", "y = LogSoftmax <axis=2> (x)"),
    "LogSoftmax is over one axis": (
        11, "float[2,3,4] x", "y = LogSoftmax <axis=1> (x)",
        "t = Transpose <perm=[0,2,1]> (x) l = LogSoftmax <axis=2> (t) y = Transpose <perm=[0,2,1]> (l)",
        "y = LogSoftmax <axis=2> (x)"),
    "Mod truncates": (
        17, "int32[6] x, int32[6] b", "y = Mod (x, b)", "y = Mod <fmod=1> (x, b)", "y = Mod <fmod=1> (x, b)"),
    "ScatterND loses its reduction": (
        17, "float[4] x, int64[3,1] i, float[3] u, int64[3] k", 'y = ScatterND <reduction="add"> (x, i, u)',
        "y = ScatterND (x, i, u)", 'y = ScatterElements <reduction="add"> (x, k, u)'),
    "a nearest Resize rounds halves up": (
        17,
        "float[1,1,2,4] x, float[4] s",
        'y = Resize <mode="nearest", coordinate_transformation_mode="half_pixel", nearest_mode="floor"> (x, , s)',
        'y = Resize <mode="nearest", coordinate_transformation_mode="half_pixel", nearest_mode="round_prefer_ceil"> (x, , s)',  # noqa: E501
        'y = Resize <mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"> (x, , s)',
    ),
    "SoftmaxCrossEntropyLoss ignores class 0": (
        17, "float[3,4] x, int64[3] k", "y = SoftmaxCrossEntropyLoss (x, k)",
        "y = SoftmaxCrossEntropyLoss <ignore_index=0> (x, k)",
        "y = SoftmaxCrossEntropyLoss <ignore_index=-1> (x, k)"),
    "IsInf finds both signs": (
        17, IMAGE, "z = Sub (x, x) i = Reciprocal (z) y = IsInf <detect_positive=0> (i)",
        "z = Sub (x, x) i = Reciprocal (z) y = IsInf (i)", "z = Sub (x, x) i = Reciprocal (z) y = IsInf (i)"),
}  # fmt: skip


def model_of(opset: int, inputs: str, nodes: str, *outputs: str) -> ModelProto:
    """A model with these outputs, y if none is named, without declared types."""
    named = ", ".join(f"float {name}" for name in outputs or ("y",))
    text = f"{head(opset)} g ({inputs}) => ({named}) {{ {nodes} }}"
    model = onnx.parser.parse_model(text)
    for output in model.graph.output:
        output.ClearField("type")
    return model


SPECIAL_FEEDS: dict[str, Any] = {
    "i": np.array([[0], [0], [2]], np.int64),
    "s": np.array([1, 1, 1.5, 1.5], np.float32),
    "p": np.array([1, 1, 0, 0], np.int64),
    "x": np.array([-7, 7, -1, 9, -4, 0], np.int32),
    "b": np.array([2, -3, 5, -2, 3, 4], np.int32),
}


def feeds_of(model: ModelProto) -> dict[str, Array]:
    """Feeds without ties, and `SPECIAL_FEEDS` for inputs of their names, types and shapes."""
    feeds = hand_made.feeds_of(model)
    fitting = {
        name: value
        for name, value in SPECIAL_FEEDS.items()
        if name in feeds and (feeds[name].dtype, feeds[name].shape) == (value.dtype, value.shape)
    }
    return {**feeds, **fitting}


def run(model: ModelProto, soc: Soc = "ascend910b", first: Library = "ops-math") -> Array:
    return execute(parse(model, PythonPlugin(), first=first), feeds_of(model), soc)["y"]


@pytest.mark.parametrize("name", REFUSED)
def test_a_node_that_is_refused_and_one_that_is_taken(name: str) -> None:
    code, message, opset, inputs, refused, taken = REFUSED[name]
    with pytest.raises(GeError) as error:
        parse(model_of(opset, inputs, refused), PythonPlugin())
    assert error.value.faults[0].code == code
    assert re.search(re.escape(message), str(error.value))
    if taken:
        parse(model_of(opset, inputs, taken), PythonPlugin())


@pytest.mark.parametrize("name", CHANGED)
def test_a_node_computes_what_ge_computes_of_it(name: str) -> None:
    opset, inputs, said, taken, kept = CHANGED[name]
    model, feeds = model_of(opset, inputs, said), feeds_of(model_of(opset, inputs, said))
    found = run(model)
    assert_same_bits(found, run_plainly(model_of(opset, inputs, taken), feeds)["y"])
    if said != taken:
        assert not _same(found, run_plainly(model, feeds)["y"])
    kept_model = model_of(opset, inputs, kept)
    assert_same_bits(run(kept_model), run_plainly(kept_model, feeds)["y"])


SEQUENCES = "SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SplitToSequence"


@pytest.mark.parametrize(
    "operator", f"CastLike ConcatFromSequence Det Dropout HardSwish ReduceLogSum {SEQUENCES}".split()
)
def test_operators_of_ge_without_an_open_prototype(operator: str) -> None:
    model = model_of(NEWEST, IMAGE, f"y = {operator} (x)")
    with pytest.raises(GeError, match=f"E10501: .*{operator} has no open prototype"):
        parse(model, PythonPlugin())


def test_the_older_plugin_of_reduce_log_sum_makes_another_operator() -> None:
    parse(model_of(12, IMAGE, "y = ReduceLogSum (x)"), PythonPlugin())


def _same(one: Array, other: Array) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes()


@pytest.mark.parametrize("training", [True, False])
def test_batch_normalization_in_training_returns_the_statistics_of_the_batch(training: bool) -> None:
    """Without momentum: the mean and the unbiased variance."""
    inputs = "float[4,3,5,5] x, float[3] s, float[3] o, float[3] m, float[3] v"
    attributes = "training_mode=1, momentum=0.9, epsilon=0.001" if training else "epsilon=0.001"
    outputs = ("y", "mean", "variance") if training else ("y",)
    node = f"{', '.join(outputs)} = BatchNormalization <{attributes}> (x, s, o, m, v)"
    model = model_of(15, inputs, node, *outputs)
    generator = np.random.default_rng(3)
    feeds = {
        value.name: generator.random([dim.dim_value for dim in value.type.tensor_type.shape.dim], np.float32)
        for value in model.graph.input
    }
    found, said = convert(model, feeds, PythonPlugin(), "ascend950"), run_plainly(model, feeds)
    assert_same_bits(found["y"], said["y"])
    if training:
        # Sums of 100 numbers in float32, in another order than numpy's.
        np.testing.assert_allclose(found["mean"], feeds["x"].mean((0, 2, 3)), rtol=1e-5)
        np.testing.assert_allclose(found["variance"], feeds["x"].var((0, 2, 3), ddof=1), rtol=1e-5)
        assert np.abs(found["mean"] - said["mean"]).min() > 0.01


def test_five_outputs_of_an_old_batch_normalization_are_the_given_statistics() -> None:
    inputs = "float[4,3,5,5] x, float[3] s, float[3] o, float[3] m, float[3] v"
    node = "y, mean, variance, saved, square = BatchNormalization (x, s, o, m, v)"
    model = model_of(13, inputs, node, "y", "mean", "variance")
    feeds = hand_made.feeds_of(model)
    feeds["v"] = np.abs(feeds["v"]) + 1
    found = convert(model, feeds, PythonPlugin(), "ascend910b")
    assert_same_bits(found["mean"], feeds["m"])
    assert_same_bits(found["variance"], feeds["v"])
    inference = model_of(13, inputs, "y = BatchNormalization (x, s, o, m, v)")
    assert_same_bits(found["y"], run_plainly(inference, feeds)["y"])


@pytest.mark.parametrize("attribute", ["value_ints=[2,3]", "value_int=2", "value_float=2.0", "value_floats=[2.0]"])
def test_a_constant_without_value_is_a_scalar_of_float32(attribute: str) -> None:
    """Fill refuses it as a shape, as GE's shape inference does."""
    said = model_of(17, IMAGE, f"s = Constant <{attribute}> () y = ConstantOfShape (s)")
    with pytest.raises(GeError, match="EZ9999"):
        convert(said, feeds_of(said), PythonPlugin(), "ascend910b")
    read = model_of(17, IMAGE, f"y = Constant <{attribute}> ()")
    assert (run(read).shape, run(read).dtype) == ((), np.float32)


def test_a_constant_with_value_is_kept() -> None:
    model = model_of(17, IMAGE, "s = Constant <value = int64[2] {2, 3}> () y = ConstantOfShape (s)")
    assert run(model).shape == (2, 3)


def test_the_library_that_is_loaded_first_decides_what_scatter_nd_does() -> None:
    inputs, node = "float[4] x, int64[3,1] i, float[3] u", "y = ScatterND <reduction={!r}> (x, i, u)"
    text = {name: node.format(name).replace("'", '"') for name in ("add", "mul", "max")}
    for name in ("add", "max"):
        model = model_of(18, inputs, text[name])
        feeds = feeds_of(model)
        assert_same_bits(run(model, first="ops-nn"), run_plainly(model, feeds)["y"])
        assert_same_bits(
            run(model, first="ops-math"), run_plainly(model_of(18, inputs, "y = ScatterND (x, i, u)"), feeds)["y"]
        )
    multiplied = model_of(18, inputs, text["mul"])
    parse(multiplied, PythonPlugin(), first="ops-math")
    with pytest.raises(GeError, match=r"E11010: .*reduction mul is not supported"):
        parse(multiplied, PythonPlugin(), first="ops-nn")


@pytest.mark.parametrize("soc", SOCS)
def test_arg_min_is_int32_but_on_ascend950(soc: Soc) -> None:
    assert run(model_of(17, IMAGE, "y = ArgMin (x)"), soc).dtype == (np.int64 if soc == "ascend950" else np.int32)


@pytest.mark.parametrize(("opset", "node"), [(9, "v, y = TopK <k=2> (x)"), (17, "v, y = TopK (x, n)")])
def test_indices_of_top_k_are_int32(opset: int, node: str) -> None:
    model = model_of(opset, IMAGE if opset < 10 else f"{IMAGE}, int64[1] n", node)
    feeds = {**feeds_of(model), **({} if opset < 10 else {"n": np.array([2], np.int64)})}
    found = execute(parse(model, PythonPlugin()), feeds, "ascend950")["y"]
    assert_same_bits(found, run_plainly(model, feeds)["y"].astype(np.int32))


@pytest.mark.parametrize("opset", [8, 9, 10])
def test_a_clip_of_old_opsets_is_computed_in_float32(opset: int) -> None:
    model = model_of(opset, IMAGE.replace("float", "float16"), "y = Clip <max=3.0> (x)")
    found = run(model)
    assert found.dtype == np.float32
    assert found.max() == 3


@pytest.mark.parametrize("opset", [OLDEST, 9, 10, NEWEST])
def test_float64_is_taken_in_every_opset(opset: int) -> None:
    model = model_of(opset, IMAGE.replace("float", "double"), "y = Relu (x)")
    assert run(model).dtype == np.float64


def test_constants_of_types_that_ge_does_not_read() -> None:
    model = model_of(17, IMAGE, "y = Relu (x)")
    for taken in (TensorProto.BFLOAT16, TensorProto.INT4, TensorProto.FLOAT8E5M2):
        empty = helper.make_tensor("w", taken, [0], [])
        model.graph.initializer.append(empty)
        parse(model, PythonPlugin())
        model.graph.initializer.pop()
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT8E5M2, [1], b"\0", raw=True))
    with pytest.raises(GeError, match="E19999: constant w: data type 19"):
        parse(model, PythonPlugin())


def test_an_input_without_a_type() -> None:
    model = model_of(17, f"{IMAGE}, float[2] z", "y = Relu (x)")
    parse(model, PythonPlugin())
    model.graph.input[1].ClearField("type")
    with pytest.raises(GeError, match="E19999: input z: data type 0"):
        parse(model, PythonPlugin())
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(2, np.float32), "z"))
    parse(model, PythonPlugin())


# -- branches

BRANCHES = (
    head(16, "npu")
    + """
step (bool c, float[2,3,1,7,9] x) => (float[2,3,1,4,5] y) {
  r = Relu (x)
  y = If (c) <
    then_branch = t () => (float[2,3,1,4,5] p) { p, a = npu.MaxPool3DWithArgmaxV2 <ksize=[1,3,3], strides=[1,2,2],
      pads=[0,1,1], dilation=[1,1,1], ceil_mode=0, data_format="NCDHW", dtype=3> (r) },
    else_branch = e () => (float[2,3,1,4,5] q) { q, b = npu.MaxPool3DWithArgmaxV2 <ksize=[1,3,3], strides=[1,2,2],
      pads=[0,1,1], dilation=[1,1,1], ceil_mode=0, data_format="NCDHW", dtype=3> (x) }>
}
"""
)


@pytest.mark.parametrize("condition", [True, False])
def test_the_dialect_in_branches(condition: bool) -> None:
    model = onnx.parser.parse_model(BRANCHES)
    feeds = {"c": np.array(condition), "x": hand_made.feeds_of(hand_made.parsed(hand_made.A2))["x"] - 20}
    pooled = hand_made.parsed(hand_made.A2, ("r = Relu (x)", "r = Relu (x)" if condition else "r = Identity (x)"))
    expected = convert(pooled, {**hand_made.feeds_of(pooled), "x": feeds["x"]}, PythonPlugin(), "ascend910b")["y"]
    assert_same_bits(convert(model, feeds, PythonPlugin(), "ascend910b")["y"], expected)


def test_the_names_of_branches() -> None:
    model = onnx.parser.parse_model(BRANCHES)
    graph = parse(model, PythonPlugin())
    [branching] = [operator for operator in graph.operators if operator.branches]
    assert {name: branch.operators[0].node.name for name, branch in branching.branches.items()} == {
        "then_branch": "MaxPool3DWithArgmaxV2_2",
        "else_branch": "MaxPool3DWithArgmaxV2_3",
    }
    captured = [value.name for value in branching.branches["then_branch"].model.graph.input]
    assert captured == ["r", "x"]
    model.graph.node[1].attribute[0].g.node[0].name = "r"
    with pytest.raises(GeError, match="E13009: two nodes are called r"):
        parse(model, PythonPlugin())


def test_refusals_in_branches() -> None:
    text = (
        head(16)
        + """ g (bool c, float[2,2] x) => (float y) {
      y = If (c) <then_branch = t () => (p) {p = Transpose <perm=[1,0]> (x)}, else_branch = e () => (q) {q = Neg (x)}>
    }"""
    )
    parse(onnx.parser.parse_model(text), PythonPlugin())
    with pytest.raises(GeError, match=r"E11010: .*perm must have value"):
        parse(onnx.parser.parse_model(text.replace(" <perm=[1,0]>", "")), PythonPlugin())


# -- the table


def test_every_operator_of_the_built_models_that_is_registered_has_a_row() -> None:
    known = {name.partition("::")[2] for name in registered() if name.startswith("ai.onnx::")}
    used = {node.op_type for entry in catalogue.entries() for node in _nodes(onnx.load(entry.file)) if not node.domain}
    assert (used & known) - PLUGINS.keys() == set()


def _nodes(model: ModelProto) -> list[onnx.NodeProto]:
    return [*model.graph.node, *(node for function in model.functions for node in function.node)]


def test_every_row_is_registered_and_has_a_source() -> None:
    for name, plugin in PLUGINS.items():
        assert name == "Constant" or f"ai.onnx::{name}" in registered(), name
        assert re.match(r"(ops-nn|ops-math|ge):[\w/]+\.(cpp|cc)", plugin.source), name


def test_attributes_that_a_row_reads_are_attributes_of_the_operator() -> None:
    """And `sorted`, `k` of other versions; nothing is misspelt."""
    for name, plugin in PLUGINS.items():
        if onnx.defs.has(name):
            versions = [
                schema
                for schema in onnx.defs.get_all_schemas_with_history()
                if schema.name == name and not schema.domain
            ]
            assert plugin.reads <= {attribute for schema in versions for attribute in schema.attributes}, name


def test_nodes_are_computed_as_they_say_if_no_rule_says_otherwise() -> None:
    context = Context(17)
    assert is_computed_as_said(helper.make_node("Relu", ["x"], ["y"]), context)
    assert not is_computed_as_said(helper.make_node("Shape", ["x"], ["y"], start=0), context)
