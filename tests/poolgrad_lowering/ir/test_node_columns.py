# SPDX-License-Identifier: Apache-2.0

"""The columns of packed nodes equal those that protobuf reads node by node."""

from __future__ import annotations

from itertools import chain

import onnx
import pytest
from google.protobuf.message import DecodeError
from onnx import ModelProto, NodeProto, helper

from poolgrad_lowering.ir.attributes import NodeSignature
from poolgrad_lowering.ir.node_columns import NodeColumns, declared_names, node_columns
from poolgrad_lowering.ir.packed_model import Packed, PackedModel

PLAIN = helper.make_node("Relu", ["x"], ["y"], name="relu")
NODES = {
    "plain": PLAIN,
    "empty": NodeProto(),
    "no outputs": helper.make_node("Relu", ["x"], []),
    "absent operands": helper.make_node("Clip", ["x", "", "most"], ["", "y"]),
    "a domain": helper.make_node("f", ["x"], ["y"], domain="l", overload="o", doc_string="what it does"),
    "attributes": helper.make_node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2], auto_pad="VALID"),
    "metadata": NodeProto(op_type="Relu", metadata_props=[onnx.StringStringEntryProto(key="k", value="v")]),
    "devices": NodeProto(op_type="Relu", device_configurations=[onnx.NodeDeviceConfigurationProto()]),
    "many inputs": helper.make_node("Sum", [f"x{number}" for number in range(100)], ["y"], alpha=1.0),
    "a large attribute": helper.make_node("Constant", [], ["c"], value_floats=[0.5] * 40_000),
    "names of all languages": helper.make_node("Σ", ["é", "漢"], ["🙂"], name="ü"),
}


def packed(blobs: list[bytes]) -> Packed[NodeProto]:
    return Packed(blobs, NodeProto)


def unpacked(columns: NodeColumns) -> NodeColumns:
    """The columns without the bytes of attributes, which are known only for packed nodes."""
    return columns._replace(
        with_attributes=[(position, form._replace(attributes=())) for position, form in columns.with_attributes]
    )


@pytest.mark.parametrize("node", NODES.values(), ids=NODES)
def test_a_packed_node_among_others(node: NodeProto) -> None:
    nodes = [PLAIN, node, PLAIN, node, *NODES.values()]
    columns = node_columns(packed([each.SerializeToString() for each in nodes]))
    assert unpacked(columns) == node_columns(nodes)


def test_forms_are_operator_and_attributes() -> None:
    nodes = [PLAIN, NODES["attributes"], NODES["many inputs"]]
    pool = NODES["attributes"]
    expected = NodeSignature("", "MaxPool", tuple(attribute.SerializeToString() for attribute in pool.attribute))
    assert node_columns(packed([node.SerializeToString() for node in nodes])).with_attributes == [
        (1, expected),
        (2, NodeSignature("", "Sum")),  # left to protobuf: its bytes are not at hand
    ]


def test_of_a_field_that_is_there_twice_the_last_counts() -> None:
    twice = PLAIN.SerializeToString() + helper.make_node("Neg", ["z"], ["w"], name="neg").SerializeToString()
    assert node_columns(packed([twice])) == node_columns([NodeProto.FromString(twice)])


WRONG = {
    "no message": b"\x08",
    "an operand beyond its node": PLAIN.SerializeToString() + b"\x0a\x05x",
    "metadata": b"\x4a\x02\x0a\x05",
    "an input of another type": b"\x0d\x00",
}


@pytest.mark.parametrize("blob", WRONG.values(), ids=WRONG)
def test_what_is_no_node(blob: bytes) -> None:
    with pytest.raises(DecodeError):
        NodeProto.FromString(blob)
    with pytest.raises(DecodeError):
        node_columns(packed([PLAIN.SerializeToString(), blob]))


def test_names_of_declarations() -> None:
    declared = [
        helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, "N"], "what it is"),
        onnx.ValueInfoProto(),
        onnx.ValueInfoProto(name="é", metadata_props=[onnx.StringStringEntryProto(key="k", value="v")]),
        helper.make_tensor_value_info("x" * 70_000, onnx.TensorProto.FLOAT, None),
    ]
    blobs = [value.SerializeToString() for value in declared]
    assert declared_names(Packed(blobs, onnx.ValueInfoProto)) == declared_names(declared)
    twice = blobs[0] + onnx.ValueInfoProto(name="again").SerializeToString()
    assert declared_names(Packed([twice], onnx.ValueInfoProto)) == ["again"]


@pytest.mark.parametrize("blob", [b"\x0a\x01x\x12\x02\x0a\x05", b"\x0a\x01x\x22\x01\x0a", b"\x0a", b"\x08\x01\x00"])
def test_what_is_no_declaration(blob: bytes) -> None:
    with pytest.raises(DecodeError):
        onnx.ValueInfoProto.FromString(blob)
    with pytest.raises(DecodeError):
        declared_names(Packed([blob], onnx.ValueInfoProto))


def test_unused_nodes_stay_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the columns does not parse any node."""
    monkeypatch.setattr(Packed, "__getitem__", None)
    monkeypatch.setattr(Packed, "__iter__", None)
    nodes = [helper.make_node("Relu", [f"x{number}"], [f"x{number + 1}"]) for number in range(100)]
    model = ModelProto(graph=onnx.GraphProto(node=nodes))
    columns = node_columns(PackedModel(model.SerializeToString()).graph.node)
    assert columns.output_names == list(chain.from_iterable(node.output for node in nodes))
