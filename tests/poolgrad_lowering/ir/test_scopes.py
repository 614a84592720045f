# SPDX-License-Identifier: Apache-2.0

"""What a node is: its operator, unless the caller of its function decides what it does."""

from __future__ import annotations

import onnx
import pytest
from onnx import AttributeProto, ModelProto, TensorProto, helper

from poolgrad_lowering import lower
from poolgrad_lowering.ir.index import ModelIndex
from tests.pool_graphs import torch_gradient

DOMAIN = "local"


def in_a_function(name: str, attribute: str, *, given: bool) -> ModelProto:
    """PyTorch's gradient in a function; with `given`, its caller gives an attribute of one node the same value."""
    model = torch_gradient([2, 3, 8, 8], kernel_shape=[2, 2], strides=[2, 2])
    inputs, outputs = [value.name for value in model.graph.input], [value.name for value in model.graph.output]
    constants = [helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in model.graph.initializer]
    function = helper.make_function(
        DOMAIN,
        "Gradient",
        inputs,
        outputs,
        [*constants, *model.graph.node],
        model.opset_import,
        ["given"] if given else [],
    )
    call = helper.make_node("Gradient", inputs, outputs, domain=DOMAIN)
    if given:
        [node] = [node for node in function.node if node.op_type == name]
        [stored] = [held for held in node.attribute if held.name == attribute]
        value = helper.get_attribute_value(stored)
        stored.CopyFrom(AttributeProto(name=attribute, ref_attr_name="given", type=stored.type))
        call.attribute.append(helper.make_attribute("given", value))
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.append(call)
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    model.ir_version = 10
    return model


@pytest.mark.parametrize(("name", "attribute"), [("ScatterElements", "axis"), ("ScatterElements", "reduction")])
def test_what_the_caller_decides_is_not_known(name: str, attribute: str) -> None:
    """The same numbers would be read as the default, or as 0."""
    assert [anchor.status for anchor in lower(in_a_function(name, attribute, given=False)).report.anchors] == [
        "lowered"
    ]
    model = in_a_function(name, attribute, given=True)
    onnx.checker.check_model(model)
    assert not lower(model).report.lowered
    [scope] = [scope for scope in ModelIndex(model).scopes if scope.path.startswith("function")]
    [node] = [scope.node(position) for position in scope.by_op["", name]]
    assert not node.is_a(name)


@pytest.mark.parametrize("referred", [True, False])
def test_an_operator_whose_attribute_is_the_callers(referred: bool) -> None:
    attribute = AttributeProto(name="axis", type=AttributeProto.INT)
    attribute.ref_attr_name = "given" if referred else ""
    node = helper.make_node("Concat", ["a", "a"], ["b"])
    node.attribute.append(attribute)
    function = helper.make_function(DOMAIN, "F", ["a"], ["b"], [node], [helper.make_opsetid("", 18)], ["given"])
    call = helper.make_node("F", ["x"], ["y"], domain=DOMAIN, given=1)
    graph = helper.make_graph(
        [call],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=imports, functions=[function])
    [scope] = [scope for scope in ModelIndex(model).scopes if scope.path.startswith("function")]
    assert scope.node(0).is_a("Concat") is not referred
