# SPDX-License-Identifier: Apache-2.0

"""Element types and shapes of a unit's values, as the model declares and onnx infers them.

A dimension is a number, a symbol's name, or None if it is not known.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import onnx
from google.protobuf.message import EncodeError
from onnx import GraphProto, ModelProto, ValueInfoProto

from poolgrad_lowering.verification.dropped import rounds_up, without_claims, without_dropped_windows
from poolgrad_lowering.verification.flat import MAIN, main_unit

logger = logging.getLogger(__name__)

Dim = int | str | None


@dataclass(frozen=True)
class TensorType:
    """The type of a tensor: `element` is a `TensorProto.DataType`; `dims` is None if the rank is not known."""

    element: int
    dims: tuple[Dim, ...] | None


def tensor_types(model: ModelProto) -> dict[str, TensorType]:
    """Return the types of the values of the main graph and its subgraphs, by their names in `main_unit`.

    Declared types take precedence; inference adds sizes that are not declared.
    """
    known: dict[str, TensorType] = {}
    for source in _sources(model):
        unit = main_unit(source)
        for path, scope in unit.scopes.items():
            prefix = "" if path == MAIN else f"{path}: "
            if isinstance(scope, GraphProto):
                for value in (*scope.input, *scope.output, *scope.value_info):
                    _learn(known, prefix + value.name, value)
        for name, tensor in unit.constants.items():
            known.setdefault(name, TensorType(tensor.data_type, tuple(tensor.dims)))
    return known


def _sources(model: ModelProto) -> tuple[ModelProto, ModelProto]:
    """Return the model and what onnx infers of it, both without the windows that runtimes drop."""
    inferred = _inferred(model)
    rounding = [position for position, node in enumerate(model.graph.node) if rounds_up(node)]
    changed = False
    for position in rounding:
        node = model.graph.node[position]
        values = (*inferred.graph.input, *inferred.graph.value_info)
        x = next((value.type.tensor_type.shape.dim for value in values if value.name == node.input[0]), ())
        other = without_dropped_windows(node, [_dim(dim) for dim in x][2:])
        if other is not None:
            model = model if changed else without_claims(model)
            changed = True
            model.graph.node[position].CopyFrom(other)
            inferred = _inferred(model)
    return model, inferred


def value_info(name: str, found: TensorType | None) -> ValueInfoProto:
    """Return the declaration of a value for a model, without a type if none is known."""
    if found is None:
        return ValueInfoProto(name=name)
    return onnx.helper.make_tensor_value_info(name, found.element, found.dims)


def _learn(known: dict[str, TensorType], name: str, value: ValueInfoProto) -> None:
    tensor = value.type.tensor_type
    if not tensor.elem_type:
        return
    dims: tuple[Dim, ...] | None = None
    if tensor.HasField("shape"):
        dims = tuple(_dim(dim) for dim in tensor.shape.dim)
    before = known.get(name)
    if before is not None and before.dims is not None:
        if dims is None or len(dims) != len(before.dims):
            return
        dims = tuple(_better(one, other) for one, other in zip(before.dims, dims, strict=True))
    known[name] = TensorType(before.element if before else tensor.elem_type, dims)


def _better(declared: Dim, inferred: Dim) -> Dim:
    return inferred if declared is None or (isinstance(inferred, int) and not isinstance(declared, int)) else declared


def _dim(dim: onnx.TensorShapeProto.Dimension) -> Dim:
    if dim.HasField("dim_value"):
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    return dim.dim_param if dim.dim_param and isinstance(dim.dim_param, str) else None


def _inferred(model: ModelProto) -> ModelProto:
    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError, EncodeError) as error:
        logger.info("onnx cannot infer shapes: %s", error)
        return model
