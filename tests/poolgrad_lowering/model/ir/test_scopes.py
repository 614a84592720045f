# SPDX-License-Identifier: Apache-2.0

"""What scopes, values and nodes say of a model."""

from __future__ import annotations

from itertools import islice

import onnx
import pytest
from onnx import AttributeProto, ModelProto, helper

from poolgrad_lowering import lower
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import Scope, Value
from tests.pool_graphs import parse, torch_gradient

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


NESTED = """g (float[2] X, bool c) => (float[2] Y) <float[2] W = {1.0, 2.0}> {
    A = Relu(X)
    Y = If(c) <
        then_branch = yes () => (float[2] T, float[2] W) <float[2] V = {1.0, 2.0}> {
            B = Add(A, V)
            C = Add(A, W)
            T = If(c) <then_branch = two () => (float[2] D) { D = Sum(B, V, X, nobody) },
                       else_branch = three () => (float[2] A) { }>
        },
        else_branch = no () => (float[2] E, float[2] A) { E = Neg(A) }
    >
}"""
IN_BRANCH = "main/Y.then_branch"


def scopes_of(model: ModelProto) -> dict[str, Scope]:
    return {scope.path: scope for scope in ModelIndex(model).scopes}


def resolved(scope: Scope, name: str) -> Value:
    value = scope.resolve(name)
    assert value is not None
    return value


def test_text_of_a_value() -> None:
    assert repr(resolved(scopes_of(parse(NESTED))[IN_BRANCH], "A")) == "Value('main', 'A')"


def test_ancestors_are_each_reached_once() -> None:
    nodes = "A = Add(X, D)  B = Neg(A)  C = Neg(A)  D = Clip(B, , C)  Y = Add(D, A)"
    scope = scopes_of(parse(f"g (float[2] X) => (float[2] Y) {{ {nodes} }}"))["main"]
    for name, count, expected in (("Y", 3, "YDABCX"), ("Y", 1, "YDBAX"), ("X", 3, "X")):
        found = islice(resolved(scope, name).ancestors(lambda node: node.inputs[:count]), 20)  # noqa: B023
        assert "".join(value.name for value in found) == expected
