# SPDX-License-Identifier: Apache-2.0

"""Runs ONNX's shape inference on a copy of the model without weights, as the last source of types."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable

import onnx

from poolgrad_lowering.io.external_data import ExternalData, UnreadableError
from poolgrad_lowering.ir.index import ModelIndex
from poolgrad_lowering.ir.model import Model
from poolgrad_lowering.ir.scopes import Value

logger = logging.getLogger(__name__)

_GRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
_KEPT_ELEMENTS = 1 << 10  # shapes and axes have fewer elements, weights have more
_SHAPE_TYPES = (onnx.TensorProto.INT64, onnx.TensorProto.INT32)
"""External tensors of other types, mostly biases, are not read."""


def inferred_types(index: ModelIndex, external: ExternalData | None = None) -> dict[Value, onnx.TypeProto]:
    """The types that `onnx.shape_inference` infers for the values of the main graph.

    Returns nothing if inference fails: unknown facts are always safe. Integers are not propagated (`data_prop`), which
    would store a dimension for each element of an integer vector of any length; the rules of this package evaluate the
    integers that shapes depend on.
    """
    model = _without_weights(index.model, external or ExternalData())
    try:
        inferred = onnx.shape_inference.infer_shapes(model)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError, MemoryError) as error:
        logger.info("shape inference failed, undeclared shapes stay unknown: %s", error)
        return {}
    main = index.scopes[0]
    return {Value(main, value.name): value.type for value in inferred.graph.value_info}


def _without_weights(model: Model, external: ExternalData) -> onnx.ModelProto:
    graph = onnx.GraphProto()
    graph.node.extend(model.graph.node)
    _hide_slice_bounds(graph.node)
    graph.input.extend(model.graph.input)
    graph.output.extend(model.graph.output)
    graph.value_info.extend(model.graph.value_info)
    overridable = {value.name for value in model.graph.input}  # inference treats every initializer as a constant
    for tensor in model.graph.initializer:
        if tensor.name in overridable:
            continue
        graph.initializer.append(_as_inference_needs(tensor, external))
    copied = onnx.ModelProto(
        ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions, graph=graph
    )
    for function in copied.functions:
        _hide_slice_bounds(function.node)
    return copied


def _as_inference_needs(tensor: onnx.TensorProto, external: ExternalData) -> onnx.TensorProto:
    """The tensor with its value if shapes may depend on it, else without."""
    without_value = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    if math.prod(tensor.dims) > _KEPT_ELEMENTS:
        return without_value
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return tensor
    try:
        return external.inlined(tensor) if tensor.data_type in _SHAPE_TYPES else without_value
    except UnreadableError:
        return without_value


def _hide_slice_bounds(nodes: Iterable[onnx.NodeProto]) -> None:
    """Remove the bounds of each Slice, so that inference propagates only type and rank; the rules derive more.

    With known bounds, inference of a Slice ends the process if a window larger than its input made a size negative.
    """
    for node in nodes:
        if node.op_type == "Slice":
            node.input[1:] = [""] * (len(node.input) - 1)
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs) if attribute.type in _GRAPHS else ():
                _hide_slice_bounds(graph.node)
