# SPDX-License-Identifier: Apache-2.0

"""Forward pools that stay where their gradients are lowered, each with its reason, alone and among others.

Where none moves, the model is what it is without moving pools at all, byte for byte.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from onnx import ModelProto, TensorProto, helper

from poolgrad_lowering import lower
from poolgrad_lowering.compiler.families.gradient import Operand
from poolgrad_lowering.compiler.families.max_pool.forward_pools import choose_forward_pools
from poolgrad_lowering.compiler.families.registry import Choices
from poolgrad_lowering.compiler.families.verdicts import Lowered
from poolgrad_lowering.compiler.lowering.match import match_anchors
from poolgrad_lowering.compiler.rewriting.bodies import FunctionBodies
from poolgrad_lowering.dialect.targets import find_target
from poolgrad_lowering.model.diagnostics.codes import Code, Refusal
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import Value
from tests.patterns.lowering_checks import TARGETS, check_same_results, check_stays, check_well_formed
from tests.pool_graphs import ort_gradient, parse, random_feeds, torch_gradient
from tests.poolgrad_lowering.compiler.rewriting.test_rewrite import SHARED
from tests.texts import Says

OP_3D, OP_2D = "MaxPool3DWithArgmaxV2", "MaxPoolWithArgmaxV3"


# -- alone


def torch_pool() -> ModelProto:
    return torch_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2])


def leaves_the_graph(model: ModelProto) -> None:
    model.graph.output.append(helper.make_tensor_value_info("I", TensorProto.INT64, [2, 3, 2, 2]))


def leaves_plane_local(model: ModelProto) -> None:
    model.graph.output.append(helper.make_tensor_value_info("local", TensorProto.INT64, [2, 3, 2, 2]))


def feeds_a_node(model: ModelProto) -> None:
    model.graph.node.append(helper.make_node("Cast", ["I"], ["other"], to=TensorProto.FLOAT))
    model.graph.output.append(helper.make_tensor_value_info("other", TensorProto.FLOAT, [2, 3, 2, 2]))


def is_captured(model: ModelProto) -> None:
    output = helper.make_tensor_value_info("n", TensorProto.INT64, [2, 3, 2, 2])
    branch = helper.make_graph([helper.make_node("Neg", ["I"], ["n"])], "b", [], [output])
    model.graph.node.append(helper.make_node("If", ["c"], ["o"], then_branch=branch, else_branch=branch))
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))


def is_a_branch_output(model: ModelProto) -> None:
    output = helper.make_tensor_value_info("I", TensorProto.INT64, [2, 3, 2, 2])
    branch = helper.make_graph([], "b", [], [output])
    model.graph.node.append(helper.make_node("If", ["c"], ["o"], then_branch=branch, else_branch=branch))
    model.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))


def is_read_in_training(model: ModelProto) -> None:
    model.training_info.add().algorithm.node.add(op_type="Neg", input=["I"], output=["r"])


@pytest.mark.refusal("forward-readers")
@pytest.mark.parametrize(
    "read",
    [leaves_the_graph, leaves_plane_local, feeds_a_node, is_captured, is_a_branch_output, is_read_in_training],
)
def test_indices_with_another_reader(read: Any) -> None:
    model = torch_pool()
    read(model)
    check_stays(model, Code.FORWARD_READERS)
    assert "I" in [name for node in lower(model).model.graph.node for name in node.output]


@pytest.mark.refusal("forward-windows")
def test_windows_that_the_target_cannot_look_at(says: Says) -> None:
    dilated = torch_gradient([2, 3, 9, 9], kernel_shape=[3, 3], strides=[2, 2], dilations=[2, 2])
    says(check_stays(dilated, Code.FORWARD_WINDOWS))
    check_stays(dilated, Code.FORWARD_WINDOWS, target="atlas-a3")
    assert lower(dilated, target="ascend950").report.anchors[0].forward_op == OP_2D


@pytest.mark.refusal("forward-windows")
def test_windows_that_equal_pads_do_not_give(says: Says) -> None:
    padded = torch_gradient([2, 3, 5, 5], kernel_shape=[3, 3], pads=[2, 1, 2, 1])
    for target in TARGETS:
        says(check_stays(padded, Code.FORWARD_WINDOWS, target=target))


@pytest.mark.refusal("forward-source")
def test_a_pool_that_makes_no_pooled_tensor() -> None:
    model = torch_pool()
    model.graph.node[0].output[0] = ""
    check_stays(model, Code.FORWARD_SOURCE)


@pytest.mark.refusal("forward-source")
@pytest.mark.parametrize("change", [{"pool": None}, {"x": "dY"}])
def test_a_gradient_whose_indices_another_pool_recorded(change: dict[str, Any]) -> None:
    """What a form may say: no one node, or none that reads the tensor that the gradient is of."""
    index = ModelIndex(torch_pool())
    facts, target, taken = Facts(index), find_target("atlas-a2"), index.names()
    [site] = match_anchors(index, facts, Choices(target))
    assert isinstance(site, Lowered)
    changed = {name: Operand(Value(index.scopes[0], held)) if held else None for name, held in change.items()}
    site = dataclasses.replace(site, gradient=dataclasses.replace(site.gradient, **changed))
    [chosen], forwards = choose_forward_pools([site], (), target, FunctionBodies(index), taken)
    assert isinstance(chosen.forward, Refusal)
    assert (chosen.forward.code, chosen.gradient, forwards) == (Code.FORWARD_SOURCE, site.gradient, [])


@pytest.mark.refusal("opset")
def test_an_opset_without_a_body(says: Says) -> None:
    model = ort_gradient([2, 3, 4, 4], opset=9, kernel_shape=[2, 2], strides=[2, 2])
    says(check_stays(model, Code.OPSET))


@pytest.mark.refusal("dialect-conflict")
def test_a_function_of_the_operators_name(says: Says) -> None:
    model = torch_pool()
    node = helper.make_node("Relu", ["a"], ["b"])
    model.functions.append(helper.make_function("npu", OP_3D, ["a"], ["b"], [node], model.opset_import[:1]))
    model.opset_import.add(domain="npu", version=1)
    says(check_stays(model, Code.DIALECT_CONFLICT))


@pytest.mark.refusal("function-dtype")
def test_one_body_serves_one_type_below_opset_15(says: Says) -> None:
    """On Ascend 950 both gradients have operators of their own, and both pools share one."""
    text = """g (float[1,1,4,4] X, float[1,1,2,2] dY, float16[1,1,4] H, float16[1,1,2] dH)
        => (float[1,1,4,4] dX, float16[1,1,4] hX) {
        Y, I = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(X)
        dX = MaxPoolGrad(dY, I)
        G, J = MaxPool<kernel_shape = [2], strides = [2]>(H)
        hX = MaxPoolGrad(dH, J)
    }"""
    model = parse(text, opset=14)
    first, second = lower(model).report.anchors
    assert (first.forward_op, second.code) == (OP_3D, "function-dtype")
    says(second.reason)
    first, second = lower(model, target="ascend950").report.anchors
    assert (first.forward_op, second.forward_op) == (OP_2D, OP_3D)


# -- among others

TWICE = """g (float[2,3,8,8] X, float[2,3,4,4] A, float[2,3,4,4] B) => (float[2,3,8,8] gA, %s gB) {
    Y, I = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(X)
    gA = MaxPoolGrad(A, I)
    %s
}"""


@pytest.mark.refusal("forward-readers")
def test_a_refused_gradient_keeps_its_pool() -> None:
    """Of two gradients of one pool the second one is refused, and goes on reading the Indices."""
    model = parse(TWICE % ("float[2,3,8,8]", "gB = MaxPoolGrad<kernel_shape = [3, 3]>(B, I)"))
    check_stays(model, Code.FORWARD_READERS)
    assert lower(model).report.refused_by_code == {"attribute-mismatch": 1}


def test_a_shared_companion_dies_with_its_last_pool() -> None:
    model = parse(SHARED % (", ".join(["0"] * 216), "add"), opset=18)
    both_moved = lower(model).model
    assert [node.op_type for node in both_moved.graph.node] == [OP_3D, OP_3D, *["MaxPool3DGradWithArgmax"] * 2]
    model.graph.output.append(helper.make_tensor_value_info("IB", TensorProto.INT64, [2, 3, 2, 2]))
    result = lower(model)
    assert [anchor.forward_code for anchor in result.report.anchors] == [None, "forward-readers"]
    outputs = [name for node in result.model.graph.node for name in node.output]
    assert {"I1", "base", "localB"} <= set(outputs)
    assert "localA" not in outputs
    check_same_results(model, result.model, random_feeds(model))
    check_well_formed(model, result.model, "atlas-a2")


FED = """g (float[2,3,6,6] X, float[2,3,3,3] dA, float[2,3,6,6] Z, float[2,3,%s] dB)
    => (float[2,3,6,6] gA, float[2,3,%s] gB) {
    A, IA = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(X)
    gA = MaxPoolGrad(dA, IA)
    given = Cast<to = 1>(IA)
    B, IB = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(%s)
    gB = MaxPoolGrad(%s, IB)
}"""


@pytest.mark.refusal("forward-readers")
@pytest.mark.parametrize(
    "sizes", [("1,1", "3,3", "given", "dB"), ("3,3", "6,6", "Z", "given")], ids=["its_operand", "its_gradient"]
)
def test_indices_from_which_another_site_is_computed(sizes: tuple[str, ...]) -> None:
    """The lowered nodes of B use them, so A's Indices stay."""
    model = parse(FED % sizes)
    result = lower(model)
    assert [anchor.forward_code for anchor in result.report.anchors] == ["forward-readers", None]
    assert [node.op_type for node in result.model.graph.node].count("MaxPool") == 1
    check_same_results(model, result.model, random_feeds(model))
