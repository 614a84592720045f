# SPDX-License-Identifier: Apache-2.0

"""Models whose tensors are in external files, such files, and what is said and read of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from poolgrad_lowering import Limits, inspect
from poolgrad_lowering.model.io.external_data import ExternalData
from poolgrad_lowering.model.ir.external import ModelFolder
from poolgrad_lowering.report.report import AnchorReport
from tests.pool_graphs import torch_gradient

DATA = "m.onnx.data"


def external(
    name: str, dims: list[int], location: str = DATA, *, kind: int = TensorProto.FLOAT, **extent: int
) -> TensorProto:
    """A tensor whose data is at a location; `extent` is its offset and length, where they are written."""
    tensor = TensorProto(name=name, data_type=kind, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **extent}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


SIZE = 6 * 16 * 4
"""Bytes of the zeros onto which the small models scatter."""
ZEROS = external("zeros", [6, 16])


def onto_zeros(zeros: TensorProto) -> ModelProto:
    """PyTorch's form over x of shape [2, 3, 4, 4], onto a tensor `zeros` of shape [6, 16] that the model stores."""
    model = torch_gradient([2, 3, 4, 4], kernel_shape=[2, 2], strides=[2, 2])
    zeros.name = "zeros"
    [expand] = [node for node in model.graph.node if node.op_type == "Expand"]
    model.graph.node.remove(expand)
    for name in ("zero", "canvas"):
        [unused] = [tensor for tensor in model.graph.initializer if tensor.name == name]
        model.graph.initializer.remove(unused)
    model.graph.initializer.append(zeros)
    return model


def saved(folder: Path, model: ModelProto, data: bytes | None = None, location: str = DATA) -> Path:
    """Write a model into a folder, and an external file beside it where there is data; return the model's path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    if data is not None:
        (folder / location).parent.mkdir(parents=True, exist_ok=True)
        (folder / location).write_bytes(data)
    return path


def move_out(model: ModelProto, folder: Path, location: str = DATA) -> ModelProto:
    """Move the data of every tensor of a model into one external file, those of subgraphs and functions as well."""
    data = b""
    for tensor in tensors(model):
        raw = numpy_helper.to_array(tensor).tobytes()
        moved = external(
            tensor.name, list(tensor.dims), location, kind=tensor.data_type, offset=len(data), length=len(raw)
        )
        tensor.CopyFrom(moved)
        data += raw
    folder.mkdir(parents=True, exist_ok=True)
    (folder / location).write_bytes(data)
    return model


def anchor(model: ModelProto, base_dir: Path | None, **options: object) -> AnchorReport:
    """The report of a model's only anchor."""
    [found] = inspect(model, base_dir=base_dir, **options).anchors  # type: ignore[arg-type]
    return found


def reader(folder: Path, **limits: int) -> ExternalData:
    """What reads the external data of models in a folder."""
    return ExternalData(ModelFolder(folder), Limits(**limits))


def tensors(model: ModelProto) -> Iterator[TensorProto]:
    """The initializers and the tensors of attributes of a model, in all graphs and functions."""
    yield from graph_tensors(model.graph)
    for function in model.functions:
        yield from node_tensors(function.node)


def graph_tensors(graph: GraphProto) -> Iterator[TensorProto]:
    """As `tensors`, of one graph."""
    yield from graph.initializer
    yield from node_tensors(graph.node)


def node_tensors(nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    """As `tensors`, of some nodes."""
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            for graph in (attribute.g, *attribute.graphs):
                yield from graph_tensors(graph)
