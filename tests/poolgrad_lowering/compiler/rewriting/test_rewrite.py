# SPDX-License-Identifier: Apache-2.0

"""Only the sites change: everything around them keeps its bytes and its order, and what only they used is gone.

The forward pools stay here, but for the last section; `test_forward_lowering` is about those that move.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import onnx
import pytest
from google.protobuf.message import Message
from onnx import ModelProto, NodeProto, TensorProto, helper

from poolgrad_lowering import lower
from poolgrad_lowering.dialect import DOMAIN, VERSION, registered_schemas
from tests.oracles import assert_same_bits, run_ort
from tests.pool_graphs import ort_gradient, parse, random_feeds, torch_gradient

OP, POOL = "MaxPool3DGradWithArgmax", "MaxPool3DWithArgmaxV2"
UNKNOWN_FIELD = b"\xfa\x7f\x03abc"  # field 2047, three bytes


def lowered(model: ModelProto, *codes: str | None, forward: bool = False) -> ModelProto:
    """The lowered model, whose anchors end with these codes (None: lowered); one None if none are given."""
    before = model.SerializeToString()
    result = lower(model, forward=forward)
    assert [anchor.code for anchor in result.report.anchors] == list(codes or (None,)), result.report.anchors
    assert model.SerializeToString() == before
    return result.model


def check(model: ModelProto) -> None:
    with registered_schemas():
        onnx.checker.check_model(model, full_check=True)
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)


def serialized(messages: Iterable[Message]) -> list[bytes]:
    return [message.SerializeToString() for message in messages]


def names(messages: Iterable[Any]) -> list[str]:
    return [message.name for message in messages]


def kept_nodes(before: ModelProto, after: ModelProto) -> tuple[list[bytes], list[bytes]]:
    """The nodes of the first model that the second one still makes values with, and the second's old nodes."""
    old, new = serialized(before.graph.node), serialized(after.graph.node)
    return [node for node in old if node in new], [node for node in new if node in old]


def torch_pool(**changes: Any) -> ModelProto:
    return torch_gradient([2, 3, 4, 4], **{"kernel_shape": [2, 2], "strides": [2, 2], **changes})


def ort_pool(**options: Any) -> ModelProto:
    return ort_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2], **options)


# -- what stays


def decorated() -> ModelProto:
    """A model with something in every field that a rewrite could lose."""
    model = torch_pool()
    model.producer_name = "p"
    model.metadata_props.add(key="k", value="v")
    model.opset_import.add(domain="other", version=3)
    model.functions.append(helper.make_function("other", "f", ["a"], ["a"], [], [helper.make_opsetid("", 18)]))
    model.training_info.add().update_binding.add(key="counter", value="counter_next")
    graph = model.graph
    graph.doc_string = "d"
    graph.node.insert(0, helper.make_node("Neg", ["X"], ["N"], name="first", doc_string="d"))
    graph.node.insert(5, helper.make_node("Thing", ["N"], ["T"], domain="other", name="unknown", a=[1.5], b="s"))
    graph.node.append(helper.make_node("Relu", ["T"], ["last"]))
    graph.node[0].metadata_props.add(key="k", value="v")
    graph.metadata_props.add(key="g", value="h")
    graph.initializer.insert(0, helper.make_tensor("counter", TensorProto.FLOAT, [1], [1.0]))
    graph.initializer.append(helper.make_tensor("unused", TensorProto.FLOAT, [1], [1.0]))
    indices = helper.make_tensor("", TensorProto.INT64, [1], [3])
    graph.sparse_initializer.append(
        helper.make_sparse_tensor(helper.make_tensor("sparse", TensorProto.FLOAT, [1], [1.0]), indices, [4])
    )
    graph.quantization_annotation.add(tensor_name="X").quant_parameter_tensor_names.add(key="SCALE", value="unused")
    for name in ("N", "T", "Y", "local", "sums", "dX", "nothing"):
        kind = TensorProto.INT64 if name == "local" else TensorProto.FLOAT
        graph.value_info.append(helper.make_tensor_value_info(name, kind, None))
    data = bytearray(model.SerializeToString()) + UNKNOWN_FIELD
    graph.node[0].MergeFromString(UNKNOWN_FIELD)
    graph.MergeFromString(UNKNOWN_FIELD)
    model.MergeFromString(UNKNOWN_FIELD)
    assert len(model.SerializeToString()) > len(data)
    return model


def test_everything_else_keeps_its_bytes_and_order() -> None:
    before = decorated()
    after = lowered(before)
    old, new = kept_nodes(before, after)
    assert old == new
    assert [node.output[0] for node in map(NodeProto.FromString, old)] == ["N", "Y", "Y1", "base", "local", "T", "last"]
    dead = {"zero", "canvas", "rows", "whole"}
    assert names(after.graph.initializer) == [name for name in names(before.graph.initializer) if name not in dead]
    assert names(after.graph.value_info) == ["N", "T", "Y", "local", "dX", "nothing"]
    assert serialized(after.functions)[: len(before.functions)] == serialized(before.functions)
    for field in ("input", "output", "sparse_initializer", "quantization_annotation", "metadata_props"):
        assert serialized(getattr(after.graph, field)) == serialized(getattr(before.graph, field))
    for field in ("training_info", "metadata_props"):
        assert serialized(getattr(after, field)) == serialized(getattr(before, field))
    assert (after.producer_name, after.graph.doc_string) == ("p", "d")
    assert after.SerializeToString().count(UNKNOWN_FIELD) == 3


# -- what goes


def test_an_initializer_that_a_training_step_sets_is_no_constant() -> None:
    model = torch_pool()
    model.training_info.add().update_binding.add(key="zero", value="zero_next")
    lowered(model, "base-not-zero")


def test_an_initializer_that_a_training_step_reads_stays() -> None:
    model = torch_pool()
    model.training_info.add().algorithm.node.add(op_type="Relu", input=["zero"], output=["r"])
    assert "zero" in names(lowered(model).graph.initializer)


SHARED = """g (float[2,3,6,6] X, float[2,3,3,3] dA, float[2,3,2,2] dB) => (float[2,3,6,6] gA, float[2,3,6,6] gB) <
    float[6,36] zeros = {%s}, int64[2] rowsA = {6, 9}, int64[2] rowsB = {6, 4}, int64[4] whole = {2, 3, 6, 6},
    int64[2] starts = {0, 0}, int64[2] ends = {1, 1}, int64[2] axes = {2, 3}
> {
    A, IA = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(X)
    B, IB = MaxPool<kernel_shape = [3, 3], strides = [3, 3]>(X)
    one, I1 = MaxPool<kernel_shape = [1, 1]>(X)
    base = Slice(I1, starts, ends, axes)
    localA = Sub(IA, base)
    localB = Sub(IB, base)
    indexA = Reshape(localA, rowsA)
    indexB = Reshape(localB, rowsB)
    updatesA = Reshape(dA, rowsA)
    updatesB = Reshape(dB, rowsB)
    sumsA = ScatterElements<axis = 1, reduction = "%s">(zeros, indexA, updatesA)
    sumsB = ScatterElements<axis = 1, reduction = "add">(zeros, indexB, updatesB)
    gA = Reshape(sumsA, whole)
    gB = Reshape(sumsB, whole)
}"""


def test_a_result_that_another_site_reads_past() -> None:
    """The second gradient is taken in front of the views that the first result goes through."""
    model = parse(
        """g (float[1,2,12] X, float[1,2,1,3] dY) => (float[1,2,12] dX) <
            float zero = {0.0}, int64[4] four = {1, 2, 1, 6}, int64[3] three = {1, 2, 3}, int64[3] base2 = {1, 2, 6},
            int64[1] six = {6}, int64[1] twelve = {12}, int64[2] rows = {2, 6}, int64[2] base1 = {2, 12},
            int64[3] whole = {1, 2, 12}
        > {
            Y1, I1 = MaxPool<kernel_shape = [2], strides = [2]>(X)
            V = Reshape(Y1, four)
            X2 = Relu(V)
            Y2, I2 = MaxPool<kernel_shape = [1, 2], strides = [1, 2]>(X2)
            L2 = Mod(I2, six)
            R2 = Reshape(L2, three)
            U2 = Reshape(dY, three)
            Z2 = Expand(zero, base2)
            S2 = ScatterElements<axis = 2, reduction = "add">(Z2, R2, U2)
            dX2 = Reshape(S2, four)
            U1 = Reshape(dX2, rows)
            L1 = Mod(I1, twelve)
            R1 = Reshape(L1, rows)
            Z1 = Expand(zero, base1)
            S1 = ScatterElements<axis = 1, reduction = "add">(Z1, R1, U1)
            dX = Reshape(S1, whole)
        }""",
        opset=18,
    )
    after = lowered(model, None, None)
    check(after)
    feeds = random_feeds(model)
    assert_same_bits(run_ort(after, feeds)["dX"], run_ort(model, feeds)["dX"])


# -- scopes

IN_BRANCH = """g (float[2,3,8,8] X, float[2,3,4,4] dY, bool c) => (float[2,3,8,8] dX) {
    Y, I = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(X)
    dX = If(c) <
        then_branch = yes () => (float[2,3,8,8] T) { T = MaxPoolGrad(dY, I) },
        else_branch = no () => (float[2,3,8,8] E) { E = Identity(X) }
    >
}"""


@pytest.mark.refusal("shadowed-name")
def test_a_name_that_is_hidden_where_the_node_would_stand() -> None:
    """`X` in the branch is another value than the pooled one: runtimes take initializers that hide outer values."""
    model = parse(IN_BRANCH.replace("(float[2,3,8,8] T) {", "(float[2,3,8,8] T) <float X = {1.0}> {"))
    assert lowered(model, "shadowed-name").SerializeToString() == model.SerializeToString()


# -- imports and bodies


def test_another_version_of_the_dialect_is_a_conflict() -> None:
    model = ort_pool()
    model.opset_import.add(domain=DOMAIN, version=2)
    model.graph.node.append(helper.make_node("Later", [model.graph.output[0].name], ["later"], domain=DOMAIN))
    lowered(model, "dialect-conflict")


def test_a_function_of_a_dialect_operators_name_is_a_conflict() -> None:
    model = ort_pool()
    model.opset_import.add(domain=DOMAIN, version=VERSION)
    own = helper.make_function(
        DOMAIN, OP, ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], model.opset_import[:1]
    )
    model.functions.append(own)
    lowered(model, "dialect-conflict")
    model.functions[0].name = "MaxPoolGradWithArgmaxV3"  # of another operator than the one that is needed
    check(lowered(model))
