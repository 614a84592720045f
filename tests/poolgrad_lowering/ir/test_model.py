# SPDX-License-Identifier: Apache-2.0

"""Both kinds of model are edited with the same result."""

from __future__ import annotations

import onnx
import pytest
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto

from poolgrad_lowering.ir.model import Model, edit_external, read_model, replace_run, serialised, with_nodes
from poolgrad_lowering.ir.packed_model import PackedModel


def both(model: ModelProto) -> list[Model]:
    """A model of each kind."""
    data = model.SerializeToString()
    return [ModelProto.FromString(data), read_model(data)]


def nodes(*names: str) -> list[NodeProto]:
    return [NodeProto(name=name) for name in names]


@pytest.mark.parametrize("new", [(), ("x",), ("x", "y", "z")])
@pytest.mark.parametrize("run", [range(0), range(1, 3), range(4, 4), range(4)])
def test_a_run_of_nodes(run: range, new: tuple[str, ...]) -> None:
    names = list("abcd")
    models = both(ModelProto(graph=onnx.GraphProto(node=nodes(*names))))
    names[run.start : run.stop] = new
    for model in models:
        replace_run(model.graph.node, run, nodes(*new))
        assert serialised(model.graph.node) == [node.SerializeToString() for node in nodes(*names)]
    assert models[0].SerializeToString() == models[1].SerializeToString()


def test_bytes_stay_as_they_were_read() -> None:
    """A field that is there twice stays twice in the bytes of a node that nothing edits."""
    twice = b"".join(node.SerializeToString() for node in nodes("a", "b"))
    packed = PackedModel(with_nodes(ModelProto(), [twice]))
    assert serialised(packed.graph.node) == [twice]


def test_nodes_added() -> None:
    model = ModelProto(ir_version=8, graph=onnx.GraphProto(name="g", node=nodes("a")))
    added = with_nodes(model, [node.SerializeToString() for node in nodes("b", "c")])
    model.graph.node.extend(nodes("b", "c"))
    assert ModelProto.FromString(added) == model


def external(name: str) -> TensorProto:
    tensor = TensorProto(name=name, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="before")
    return tensor


def with_tensors() -> ModelProto:
    """A model with external tensors in every place, in one node two, and tensors that are not external."""
    model = ModelProto()
    graph = model.graph
    graph.initializer.extend([external("stored"), TensorProto(name="location"), external("kept, stored")])
    values = graph.node.add(name="two").attribute.add(name="values", type=AttributeProto.TENSORS)
    values.tensors.extend([external("kept, first"), external("second"), TensorProto(name="location")])
    graph.node.add(name="location")
    branch = graph.node.add(name="branch").attribute.add(name="body", type=AttributeProto.GRAPH).g
    branch.initializer.append(external("in a branch"))
    graph.sparse_initializer.add(values=external("sparse"))
    model.functions.add().node.add().attribute.add(name="value").t.CopyFrom(external("in a function"))
    model.training_info.add().algorithm.initializer.append(external("in training"))
    return model


def test_external_tensors_are_edited_everywhere() -> None:
    models = both(with_tensors())
    for model in models:
        seen = []

        def change(tensor: TensorProto) -> bool:
            seen.append(tensor.name)  # noqa: B023 - called within the same round
            if tensor.name.startswith("kept"):
                return False
            tensor.external_data[0].value = "after"
            return True

        first = model.graph.node[0].SerializeToString()
        edit_external(model, change)
        assert sorted(seen) == [
            "in a branch",
            "in a function",
            "in training",
            "kept, first",
            "kept, stored",
            "second",
            "sparse",
            "stored",
        ]
        assert model.graph.node[0].SerializeToString() != first
    assert models[0].SerializeToString() == models[1].SerializeToString()
    assert models[0].SerializeToString().count(b"after") == 6


def test_what_is_not_changed_is_not_stored() -> None:
    def change(tensor: TensorProto) -> bool:
        tensor.name = "forgotten"
        return False

    data = ModelProto(graph=onnx.GraphProto(initializer=[external("stored")])).SerializeToString()
    model = PackedModel(data)
    edit_external(model, change)
    assert model.SerializeToString() == data
