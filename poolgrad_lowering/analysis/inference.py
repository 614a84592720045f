# SPDX-License-Identifier: Apache-2.0

"""Runs ONNX's shape inference on a copy of the model without weights, for types that no rule of this package gives."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

import onnx

from poolgrad_lowering.analysis.hiding import Hiding, hide_shapes
from poolgrad_lowering.analysis.outlining import Outliner
from poolgrad_lowering.diagnostics.onnx_errors import ONNX_ERRORS
from poolgrad_lowering.io.external_data import ExternalData, UnreadableError
from poolgrad_lowering.ir.dims import Dim
from poolgrad_lowering.ir.index import ModelIndex
from poolgrad_lowering.ir.model import serialised, with_nodes
from poolgrad_lowering.ir.scopes import LOCAL, canonical_domain

logger = logging.getLogger(__name__)

_KEPT_ELEMENTS = 1 << 10  # shapes and axes have fewer elements, weights have more
_MADE_UP = "unk__"
_MOST_FUNCTIONS = 1 << 11
"""Inference takes time in proportion to the functions for each call of one, and takes no more than 10,000. The results
of calls beyond this number have no inferred types."""
_ONNX_DOMAINS = (onnx.defs.ONNX_DOMAIN, onnx.defs.ONNX_ML_DOMAIN, onnx.defs.AI_ONNX_PREVIEW_TRAINING_DOMAIN)
"""Those of ONNX itself: the process may have registered operators of others."""
_SHAPE_TYPES = (onnx.TensorProto.INT64, onnx.TensorProto.INT32)
"""External tensors of other types, mostly biases, are not read."""


def inferred_types(index: ModelIndex, external: ExternalData | None = None) -> dict[str, onnx.TypeProto]:
    """The types that `onnx.shape_inference` infers for the values of the main graph, by their names.

    A declared shape is only used for inputs of the main graph, and for results of operators that ONNX does not define:
    runtimes check the former, and the graph does not compute the latter. All others are left out of the copy.

    Returns nothing if inference fails, or if the model defines an operator of ONNX anew, which inference would take for
    ONNX's own: unknown facts are always safe. Integers are not propagated (`data_prop`), which would store a dimension
    for each element of an integer vector of any length; the rules of this package evaluate the integers that shapes
    depend on.
    """
    functions = ((canonical_domain(function.domain), function.name) for function in index.model.functions)
    if any(domain in _ONNX_DOMAINS and onnx.defs.has(name, domain) for domain, name in functions):
        return {}
    model = _without_weights(index, external or ExternalData())
    try:
        inferred = onnx.shape_inference.infer_shapes(model)
    except ONNX_ERRORS as error:
        logger.info("shape inference failed, undeclared shapes stay unknown: %s", error)
        return {}
    return {value.name: value.type for value in (*inferred.graph.value_info[:], *inferred.graph.output)}


def is_unnamed(dim: Dim) -> bool:
    """Whether a size contains a symbol that inference made up for an unknown size."""
    return any(symbol.startswith(_MADE_UP) for symbol in dim.symbols)


def _without_weights(index: ModelIndex, external: ExternalData) -> bytes:
    model, graph = index.model, onnx.GraphProto()
    graph.input.extend(model.graph.input)
    graph.output.extend(model.graph.output)
    believed = _results_of_unknown_operators(index)
    for value in graph.output:
        if value.name not in believed:
            hide_shapes(value.type)
    for value in graph.input:
        if not value.type.HasField("tensor_type"):  # runtimes do not check the tensors in a sequence
            hide_shapes(value.type)
    declared = index.scopes[0].value_infos
    graph.value_info.extend(model.graph.value_info[declared[name]] for name in declared.keys() & believed)
    overridable = {value.name for value in model.graph.input}  # inference treats every initializer as a constant
    for tensor in model.graph.initializer:
        if tensor.name in overridable:
            continue
        graph.initializer.append(_as_inference_needs(tensor, external))
    copied = onnx.ModelProto(
        ir_version=model.ir_version,
        opset_import=model.opset_import,
        functions=model.functions[:_MOST_FUNCTIONS],
        graph=graph,
    )
    hiding, outliner = Hiding(copied.functions), Outliner(copied, most=_MOST_FUNCTIONS)
    for function in copied.functions[:]:
        hiding.hide(function.node)
        del function.value_info[:]
        for node in function.node:
            outliner.outline(node, function.opset_import)
    nodes = _nodes_without_claims(index, hiding, outliner, copied.opset_import)
    return with_nodes(copied, nodes)


def _nodes_without_claims(
    index: ModelIndex, hiding: Hiding, outliner: Outliner, opsets: Sequence[onnx.OperatorSetIdProto]
) -> list[bytes]:
    """The main graph's nodes, serialised, those with subgraphs outlined.

    Only those with something to hide or subgraphs are parsed, if the model's are bytes.
    """
    main = index.scopes[0]
    nodes = serialised(main.proto.node)
    hidden = [position for op, found in main.by_op.items() if hiding.concerns(op) for position in found]
    holders = [scope.holder for scope in index.scopes if scope.parent is main]
    for position in {*hidden, *holders}:
        node = onnx.NodeProto.FromString(nodes[position])
        hiding.hide([node])
        outliner.outline(node, opsets)
        nodes[position] = node.SerializeToString()
    return nodes


def _results_of_unknown_operators(index: ModelIndex) -> set[str]:
    """The names of the main graph's values whose types neither ONNX nor a function of the model determines."""
    main = index.scopes[0]
    functions = {(canonical_domain(function.domain), function.name) for function in index.model.functions}
    positions = [
        position
        for op, found in main.by_op.items()
        if op[0] != LOCAL and op not in functions and not onnx.defs.has(op[1], op[0])
        for position in found
    ]
    return {name for position in positions for name in main.proto.node[position].output}


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
