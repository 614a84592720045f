# SPDX-License-Identifier: Apache-2.0

"""A packed model is read, edited and written with the same result as protobuf's model."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto
from google.protobuf.message import DecodeError
from onnx import ModelProto, NodeProto, helper

from benchmarks.training_graphs import Recipe, build
from poolgrad_lowering import InvalidModelError, lower_file
from poolgrad_lowering.ir import packed_model
from poolgrad_lowering.ir.packed_model import Packed, PackedModel
from tests.packed_lowering import assert_same_packed
from tests.pool_graphs import parse

MODEL = parse(
    "g (float[2] X) => (float[2] Y) <float[2] W = {1.0, 2.0}> { A = l.f(X)  B = Relu(A)  Y = Add(B, W) }",
    imports='"l": 1',
    functions='<domain: "l", opset_import: ["": 16]> f (P) => (Q) { Q = Neg(P) }',
)
MODEL.graph.value_info.append(helper.make_tensor_value_info("A", onnx.TensorProto.FLOAT, [2]))
MODEL.graph.sparse_initializer.add(dims=[2]).values.name = "S"
MODEL.metadata_props.add(key="made by", value="hand")
MODEL.training_info.add().algorithm.node.add(op_type="Neg")


def packed(model: ModelProto = MODEL) -> PackedModel:
    return PackedModel(model.SerializeToString())


def test_what_it_has() -> None:
    model = packed()
    for name in ("ir_version", "opset_import", "functions", "training_info"):
        assert getattr(model, name) == getattr(MODEL, name)
    for name in ("input", "output", "sparse_initializer"):
        assert getattr(model.graph, name) == getattr(MODEL.graph, name)
    for name in ("node", "value_info", "initializer"):
        entries, expected = getattr(model.graph, name), getattr(MODEL.graph, name)
        assert len(entries) == len(expected)
        assert list(entries) == [entries[position] for position in range(len(entries))] == list(expected)
    assert model.HasField("graph")
    assert not PackedModel(ModelProto(ir_version=8).SerializeToString()).HasField("graph")


def test_it_is_written_as_it_was_read() -> None:
    assert packed().SerializeToString() == MODEL.SerializeToString()
    strange = MODEL.SerializeToString() + b"\xfa\x7f\x03abc"  # a field of a later version of the format
    assert PackedModel(strange).SerializeToString() == ModelProto.FromString(strange).SerializeToString() == strange


def test_every_field_of_the_format_is_known() -> None:
    """The packed graph has every field of `GraphProto`, also in a newer onnx."""
    theirs = {field.name for field in onnx.GraphProto.DESCRIPTOR.fields}
    message = packed()._message.graph
    assert {field.name for field in message.DESCRIPTOR.fields} == theirs


def fields_of(message: Descriptor) -> dict[str, tuple[object, ...]]:
    """The number, label, type and type's name of each field."""
    stored = DescriptorProto()
    message.CopyToProto(stored)
    return {field.name: (field.number, field.label, field.type, field.type_name) for field in stored.field}


def test_the_format_with_three_fields_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The format is that of onnx but for the long lists of the main graph, also in a pool that has only onnx's."""
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(onnx.ModelProto.DESCRIPTOR.file.serialized_pb)
    monkeypatch.setattr(descriptor_pool, "Default", lambda: pool)
    model, graph = (fields_of(message.DESCRIPTOR) for message in (onnx.ModelProto, onnx.GraphProto))
    model["graph"] = (*model["graph"][:3], ".poolgrad_lowering.GraphProto")
    for name in ("node", "value_info", "initializer"):
        graph[name] = (*graph[name][:2], FieldDescriptorProto.TYPE_BYTES, "")
    file = packed_model._model_type().DESCRIPTOR.file
    messages = {name: fields_of(message) for name, message in file.message_types_by_name.items()}
    assert messages == {"ModelProto": model, "GraphProto": graph}
    assert (file.name, dict(file.enum_types_by_name)) == ("poolgrad_lowering/packed.proto", {})


def test_edits() -> None:
    model, expected = packed(), ModelProto.FromString(MODEL.SerializeToString())
    nodes: Packed[NodeProto] = model.graph.node
    new = helper.make_node("Abs", ["A"], ["B"])
    assert nodes[1] is nodes[1]
    nodes[1].name = expected.graph.node[1].name = "relu"
    nodes.write_back(1)
    nodes.replace(range(3, 3), [new])
    nodes.replace(range(1), [new])
    expected.graph.node.insert(3, new)
    expected.graph.node[0].CopyFrom(new)
    assert list(nodes) == list(expected.graph.node)
    assert [nodes[position] for position in range(4)] == list(expected.graph.node)
    model.opset_import.add(domain="npu", version=1)
    expected.opset_import.add(domain="npu", version=1)
    model.functions[0].name = expected.functions[0].name = "g"
    assert model.SerializeToString() == expected.SerializeToString()


@pytest.mark.parametrize("added", range(5))
@pytest.mark.parametrize("run", [range(0), range(2), range(4, 7), range(7, 10), range(10, 10), range(10)])
def test_a_run_replaced(run: range, added: int) -> None:
    names = [str(number) for number in range(10)]
    nodes = Packed([NodeProto(name=name).SerializeToString() for name in names], NodeProto)
    assert [nodes[position].name for position in range(10)] == names
    new = [f"new {number}" for number in range(added)]
    nodes.replace(run, [NodeProto(name=name) for name in new])
    names[run.start : run.stop] = new
    assert [nodes[position].name for position in range(len(nodes))] == names


def test_what_is_not_put_back_is_not_changed() -> None:
    model = packed()
    model.graph.node[0].name = "forgotten"
    assert model.SerializeToString() == MODEL.SerializeToString()


def test_what_is_no_model() -> None:
    with pytest.raises(DecodeError):
        PackedModel(b"\x08")
    broken = PackedModel(MODEL.SerializeToString().replace(b"Relu", b"\xff\xff\xff\xff"))
    assert broken.graph.node[1].op_type == b"\xff\xff\xff\xff"  # type: ignore[comparison-overlap]
    nested = PackedModel(ModelProto(graph=onnx.GraphProto(name="g")).SerializeToString())
    nested.graph.node.blobs.append(b"\x0a\x05x")
    with pytest.raises(DecodeError):
        nested.graph.node[0]
    with pytest.raises(DecodeError):
        list(nested.graph.node)


@pytest.mark.parametrize("entries", ["node", "value_info", "initializer"])
def test_a_malformed_packed_entry(entries: str, tmp_path: Path) -> None:
    """A malformed packed entry is reported like a file that is not a model."""
    source, destination = tmp_path / "in.onnx", tmp_path / "out.onnx"
    model = packed(parse("g (float[2] X) => (float[2] Y) { Y = Relu(X) }"))
    getattr(model.graph, entries).blobs.append(b"\x0a\x05x")
    errors = []
    for data in (model.SerializeToString(), b"\x08"):
        source.write_bytes(data)
        with pytest.raises(InvalidModelError) as caught:
            lower_file(source, destination)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
    assert errors[0].startswith(f"'{source}': it does not parse as an ONNX model")
    assert not destination.exists()


@pytest.mark.parametrize("forward", [True, False])
def test_a_graph_of_many_sites(forward: bool) -> None:
    """Each site is a few edits of nodes and value_infos, some in branches and functions."""
    recipe = Recipe(3_000, sites=60, decoys=20, subgraphs=10, functions=10)
    assert_same_packed(build(recipe), target="atlas-a2", forward=forward)
