# SPDX-License-Identifier: Apache-2.0

"""For graph mode, values of rank 0 get one axis: names and shapes of inputs and outputs stay, and so do the bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto

from poolgrad_lowering import export_cann, lower, verify
from poolgrad_lowering.ge.scalars import give_scalars_an_axis
from poolgrad_lowering.ge.values import value_types
from poolgrad_lowering.model.io.external_data import ExternalData
from poolgrad_lowering.model.ir.index import ModelIndex
from tests.oracles import assert_same_bits
from tests.pool_graphs import parse, random_feeds
from tests.poolgrad_lowering.ge.test_rewrites import operators, run

MODELS: dict[str, ModelProto] = {
    "an optimizer": parse(
        """g (float[3,2] w, float[3,2] g, float rate, int64 steps) => (float[3,2] new_w, int64 new_steps)
            <int64 one = {1}> {
                step = Mul(rate, g) new_w = Sub(w, step) new_steps = Add(steps, one)
            }"""
    ),
    "a loss that the gradient needs": parse(
        """g (float[4,2] x) => (float loss, float[4,2] dx) {
            q = Mul(x, x) loss = ReduceMean<keepdims = 0>(q) r = Sqrt(loss) dx = Div(x, r)
        }"""
    ),
    "scalars of constants": parse(
        """g (float[3] x) => (float[3] y) {
            a = Constant<value = float {2.0}>() b = Constant<value = float {3.0}>() c = Mul(a, b) d = Cast<to = 1>(c)
            y = Mul(x, d)
        }"""
    ),
    "a view to the shape of a value, as in onnxruntime's gradient of a Squeeze": parse(
        """g (float[3] x, float s) => (float[3] y) {
            v = ReduceMean<keepdims = 1>(x) h = Shape(v) m = Squeeze(v) p = Mul(m, s) r = Reshape(p, h) y = Add(r, x)
        }""",
        opset=18,
    ),
    "views to and from rank 0": parse(
        """g (float[1] x, float s, float[3] z) => (float[1,1] u, float[3] y)
            <int64[2] axes = {0, 1}, int64[1] one = {1}> {
            a = Squeeze(x) d = Mul(a, s) u = Unsqueeze(d, axes) e = Reshape(d, one) y = Add(z, e)
        }"""
    ),
    "the gradient of a weight of rank 0": parse(
        """g (float w, float[3] x) => (float dw, float[3] y) {
            s = ReduceSum<keepdims = 0>(x) n = Shape(w) g = Reshape(s, n) dw = Neg(g) y = Mul(x, w)
        }"""
    ),
    "an index": parse(
        "g (float[4,2] x, int64 i) => (float[2] y, float e) <int64 zero = {0}> { y = Gather(x, i) e = Gather(y, zero) }"
    ),
    "a product of vectors": parse(
        "g (float[3] x, float[3] z) => (float p, float[3] y) { p = MatMul(x, z) y = Mul(x, p) }"
    ),
    "a condition": parse(
        """g (bool flag, float s, float[2] x) => (float[2] y) {
            t = Exp(s) n = Not(flag)
            y = If (n) <then_branch = a () => (float[2] p) { p = Mul(x, t) }, else_branch = b () => (float[2] q) {
                q = Add(x, s) }>
        }"""
    ),
    "a choice": parse(
        """g (float s, float[2,2] x) => (float[2,2] y, float m) <float zero = {0.0}> {
            c = Greater(s, zero) m = Where(c, s, zero) y = Where(c, x, m)
        }"""
    ),
    "an argument of the largest": parse(
        """g (float[5] x) => (int64 i, float[5] y) {
            i = ArgMax<keepdims = 0>(x) f = Cast<to = 1>(i) y = Add(x, f)
        }"""
    ),
    "an expansion": parse(
        "g (float s) => (float[2,3] y) <int64[2] shape = {2, 3}> { t = Neg(s) y = Expand(t, shape) }"
    ),
    "a sum of nothing": parse("g (float s) => (float y) { y = ReduceSum<keepdims = 0>(s) }"),
    "an index with two axes before": parse(
        "g (float[4,2] x, int64[1,1] t) => (float[2] y) <int64[0] h = {}> { i = Reshape(t, h) y = Gather(x, i) }"
    ),
    "a product of vectors with two axes behind it": parse(
        "g (float[3] x) => (float[1,1] y) <int64[2] h = {1, 1}> { p = MatMul(x, x) y = Reshape(p, h) }"
    ),
    "an input that nothing reads": parse("g (float s, float other) => (float y) { y = Neg(s) }"),
}
NODES = {
    "an optimizer": "UnsqueezeScalars Mul Sub Add Reshape",
    "a loss that the gradient needs": "Mul ReduceMean Reshape Reshape Sqrt Div",
    "scalars of constants": "Constant Constant Mul Cast Mul",
    "a view to the shape of a value, as in onnxruntime's gradient of a Squeeze": (
        "ReduceMean Reshape UnsqueezeScalars Mul Reshape Add"
    ),
    "views to and from rank 0": "Reshape UnsqueezeScalars Mul Reshape Reshape Add",
    "the gradient of a weight of rank 0": "ReduceSum Reshape UnsqueezeScalars Reshape Shape Reshape Neg Reshape Mul",
    "an index": "UnsqueezeScalars Reshape Gather Gather",
    "a product of vectors": "MatMul Reshape Reshape Mul",
    "a condition": "UnsqueezeScalars Exp Not Reshape Reshape If",
    "a choice": "UnsqueezeScalars Greater Where Reshape Where",
    "an argument of the largest": "ArgMax Reshape Reshape Cast Add",
    "an expansion": "UnsqueezeScalars Neg Expand",
    "a sum of nothing": "UnsqueezeScalars ReduceSum Reshape",
    "an index with two axes before": "Reshape Reshape Gather",
    "a product of vectors with two axes behind it": "MatMul Reshape Reshape",
    "an input that nothing reads": "UnsqueezeScalars Neg Reshape",
}


LENET = Path(__file__).parents[3] / "models" / "built" / "torch" / "lenet.onnx"


def rank_0(model: ModelProto) -> set[str]:
    """The values of rank 0 that nodes of the main graph pass to each other, by onnx's inference."""
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    types = {value.name: value.type.tensor_type for value in inferred.graph.value_info}
    read = {name for node in inferred.graph.node for name in node.input}
    made = {name for node in inferred.graph.node for name in node.output if node.op_type != "Constant"}
    return {
        name for name in read & made if name in types and types[name].HasField("shape") and not types[name].shape.dim
    }


@pytest.mark.parametrize("name", MODELS)
def test_interface_and_bits_stay(name: str) -> None:
    model = MODELS[name]
    export = export_cann(model)
    assert operators(export.model) == NODES[name].split()
    assert list(export.model.graph.input) == list(model.graph.input)
    assert list(export.model.graph.output) == list(model.graph.output)
    assert export.report.edits.scalars > 0
    feeds = random_feeds(model)
    for found, wanted in zip(run(export.model, feeds), run(model, feeds), strict=True):
        assert_same_bits(found, wanted)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_verify_proves_it(model: ModelProto) -> None:
    verification = verify(model, export_cann(model).model)
    assert (verification.differences, verification.whole_model.status) == ((), "same")


READ_WITHOUT_AXIS = {
    *("an index", "an index with two axes before", "a condition", "a product of vectors"),
    *("a product of vectors with two axes behind it", "the gradient of a weight of rank 0"),
}


@pytest.mark.parametrize("name", sorted(MODELS.keys() - READ_WITHOUT_AXIS))
def test_no_value_of_rank_0_is_left_between_nodes(name: str) -> None:
    assert rank_0(export_cann(MODELS[name]).model) == set()


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_second_export_changes_nothing(model: ModelProto) -> None:
    once = export_cann(model).model
    twice = export_cann(once)
    assert twice.model == once


def test_all_inputs_of_rank_0_get_their_axis_in_one_node() -> None:
    model = MODELS["an optimizer"]
    export = export_cann(model).model
    nodes = [(node.domain, node.op_type, list(node.input)) for node in export.graph.node]
    assert nodes.count(("npu", "UnsqueezeScalars", ["rate", "steps"])) == 1
    assert nodes[0][1] == "UnsqueezeScalars"
    [function] = export.functions
    assert [list(names) for names in (function.input, function.output)] == [["x0", "x1"], ["y0", "y1"]]


TWO_UPDATES = parse(
    """g (float[3] v, float[2] w, float rate, float[3] x, float[2] z) => (float[3] new_v, float[2] new_w) {
        [g] g = Neg(x) [a] a = Mul(g, rate) [c] new_v = Sub(v, a)
        [h] h = Exp(z) [i] i = Neg(h) [b] b = Mul(i, rate) [d] new_w = Sub(w, b)
    }"""
)


def test_inputs_of_rank_0_get_their_axis_behind_what_does_not_need_them() -> None:
    """At nodes of later updates onnxruntime would otherwise run gradients first, and cut what is between in two."""
    export = export_cann(TWO_UPDATES).model
    assert [node.name for node in export.graph.node] == ["g", "h", "i", "UnsqueezeScalars", "a", "c", "b", "d"]
    assert verify(TWO_UPDATES, export).proven


@pytest.mark.parametrize(("one", "other"), [("g", "h"), ("c", "b")])
def test_verify_sees_another_order_of_an_export(one: str, other: str) -> None:
    export = export_cann(TWO_UPDATES).model
    nodes = list(export.graph.node)
    first, second = (next(at for at, node in enumerate(nodes) if node.name == name) for name in (one, other))
    nodes[first], nodes[second] = nodes[second], nodes[first]
    moved = ModelProto()
    moved.CopyFrom(export)
    moved.graph.ClearField("node")
    moved.graph.node.extend(nodes)
    assert any("which it followed" in difference.what for difference in verify(TWO_UPDATES, moved).differences)


def test_the_domain_of_the_dialect_is_imported_once() -> None:
    model = parse("g (float s) => (y) { y = Neg(s) }", imports='"npu": 1')
    assert [entry.domain for entry in export_cann(model).model.opset_import] == ["", "npu"]


def test_a_view_to_an_unknown_rank_reads_the_value_without_the_axis() -> None:
    export = export_cann(parse("g (float s, int64[K] h) => (y) { t = Neg(s) y = Reshape(t, h) }"))
    assert operators(export.model) == ["UnsqueezeScalars", "Neg", "Reshape", "Reshape"]


def test_a_constant_in_another_file_is_reshaped() -> None:
    model = ModelProto()
    model.CopyFrom(MODELS["scalars of constants"])
    types = value_types(model, ModelIndex(model), ExternalData())
    types.constants["a"].data_location = TensorProto.EXTERNAL
    give_scalars_an_axis(model, 16, types)
    assert operators(model) == ["Constant", "Constant", "Reshape", "Mul", "Cast", "Mul"]


def test_an_operator_of_another_domain_is_no_reduction() -> None:
    text = "g (float s, float[2] x) => (y) <float t> { t = acme.ReduceAll(s) y = Mul(x, t) }"
    model = parse(text, imports='"acme": 1')
    [node] = [node for node in export_cann(model).model.graph.node if node.domain == "acme"]
    assert not node.attribute


def test_a_model_without_values_of_rank_0_is_left_alone() -> None:
    model = parse("g (float[2] x) => (float[2] y) { [relu] y = Relu(x) }")
    export = export_cann(model)
    assert export.model == model
    assert export.report.edits.scalars == 0


def corrupted(model: ModelProto) -> list[tuple[str, ModelProto]]:
    """Exports of an optimizer that compute something else."""
    found = []
    for what in ("another input", "another constant", "another output", "another body", "another operator", "no axis"):
        changed = ModelProto()
        changed.CopyFrom(model)
        nodes = {node.op_type: node for node in changed.graph.node}
        if what == "another input":
            nodes["UnsqueezeScalars"].input[0] = "w"
        elif what == "another constant":
            tensor = next(tensor for tensor in changed.graph.initializer if tensor.name == "one")
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.full(list(tensor.dims), 2, np.int64), tensor.name))
        elif what == "another output":
            nodes["Mul"].input[1] = "w"
        elif what == "another body":
            next(node for node in changed.functions[0].node if node.op_type == "Reshape").op_type = "Expand"
        elif what == "another operator":
            nodes["Mul"].op_type = "Div"
        else:
            [tensor] = [
                t for t in changed.graph.initializer if list(t.dims) == [0] and t.data_type == TensorProto.INT64
            ]
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.array([1], np.int64), tensor.name))
        found.append((what, changed))
    return found


@pytest.mark.parametrize(
    ("what", "model"),
    corrupted(export_cann(MODELS["an optimizer"]).model),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_verify_catches_other_computations(what: str, model: ModelProto) -> None:
    assert not verify(MODELS["an optimizer"], model).proven, what


def test_a_training_step_keeps_its_sites_proven() -> None:
    original = onnx.load(LENET)
    export = export_cann(original, target="ascend950").model
    verification = verify(original, export)
    assert verification.proven
    assert len(verification.sites) == 2
    assert len([node for node in export.graph.node if node.domain == "npu"]) == 4


def test_a_lowered_model_and_its_original_have_one_export() -> None:
    original = onnx.load(LENET)
    lowered = lower(original, target="ascend950").model
    assert export_cann(lowered, target="ascend950").model == export_cann(original, target="ascend950").model


def test_a_model_that_imports_none_of_onnx_operators_keeps_them() -> None:
    """A Reshape would be an operator that it does not import."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["acme" : 1]> g (float rate, float[2] w) => (float[2] y) {
            y = acme.Update (rate, w) }"""
    )
    export = export_cann(model)
    assert [node.op_type for node in export.model.graph.node] == ["Update"]
    assert export.report.edits.scalars == 0
