# SPDX-License-Identifier: Apache-2.0

"""Element types and ranks of a model's values by name, as the model declares them or onnx infers them."""

from __future__ import annotations

from dataclasses import dataclass

from onnx import ModelProto, TypeProto

from poolgrad_lowering.analysis.inference import inferred_types
from poolgrad_lowering.atc.graphs import graphs
from poolgrad_lowering.dialect.schemas import registered_schemas
from poolgrad_lowering.io.external_data import ExternalData
from poolgrad_lowering.ir.index import ModelIndex


@dataclass(frozen=True)
class ValueTypes:
    """Element types (`TensorProto.DataType`) and ranks of the values whose type or rank is known."""

    elements: dict[str, int]
    ranks: dict[str, int]


def value_types(model: ModelProto, index: ModelIndex, external: ExternalData) -> ValueTypes:
    """Return what is known of the values of the main graph and its subgraphs. `index` is the model's index.

    Declared types take precedence. A wrong declaration leads to an error of the runtime, not to other results.
    """
    found = ValueTypes({}, {})
    for graph in graphs(model.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            _learn(found, value.name, value.type)
        for tensor in graph.initializer:
            found.elements.setdefault(tensor.name, tensor.data_type)
            found.ranks.setdefault(tensor.name, len(tensor.dims))
    with registered_schemas():
        inferred = inferred_types(index, external)
    for name, inferred_type in inferred.items():
        _learn(found, name, inferred_type)
    return found


def _learn(found: ValueTypes, name: str, known: TypeProto) -> None:
    tensor = known.tensor_type
    if tensor.elem_type:
        found.elements.setdefault(name, tensor.elem_type)
    if tensor.HasField("shape"):
        found.ranks.setdefault(name, len(tensor.shape.dim))
