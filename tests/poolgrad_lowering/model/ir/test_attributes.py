# SPDX-License-Identifier: Apache-2.0

"""Attributes have ONNX's defaults, and an attribute of another type is not used."""

from __future__ import annotations

import onnx
import pytest
from onnx import AttributeProto, ModelProto

from poolgrad_lowering.model.ir.attributes import UNREADABLE, attribute, integer, integers, text
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import Node
from tests.pool_graphs import parse


def first_node(model: ModelProto, scope: int = 0) -> Node:
    return ModelIndex(model).scopes[scope].node(0)


@pytest.mark.parametrize("kind", sorted(AttributeProto.AttributeType.values()))
def test_every_type_is_read_or_unreadable(kind: AttributeProto.AttributeType) -> None:
    model = parse("g (float[1,1,4] X) => (Y) { Y = MaxPool<strides = [2]>(X) }")
    model.graph.node[0].attribute[0].type = kind
    node = first_node(model)
    stored = attribute(node, "strides")
    assert stored is UNREADABLE or isinstance(stored, (int, float, str, list, onnx.TensorProto))
    assert integer(node, "strides") == (0 if kind == AttributeProto.INT else None)
    assert text(node, "strides") == ("" if kind == AttributeProto.STRING else None)
    expected = {AttributeProto.INTS: [2], AttributeProto.FLOATS: []}
    assert integers(node, "strides") == expected.get(kind)


def test_callers_attribute_is_unreadable() -> None:
    model = parse(
        "g (float[1,1,4] X) => (Y) { Y = l.f<s = [2]>(X) }",
        imports='"l": 1',
        functions='<domain: "l", opset_import: ["": 16]> f <s>(X) => (Y) { Y = MaxPool<strides: ints = @s>(X) }',
    )
    node = first_node(model, scope=1)
    assert attribute(node, "strides") is UNREADABLE
    assert integers(node, "strides") is None
    assert not node.is_a("MaxPool")
