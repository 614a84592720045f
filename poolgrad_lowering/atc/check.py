# SPDX-License-Identifier: Apache-2.0

"""Finds what ATC cannot convert in an exported model, node by node, before the user meets ATC's own errors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from onnx import ModelProto, NodeProto, TensorProto, helper

from poolgrad_lowering.atc.graphs import graphs, inputs_to_feed
from poolgrad_lowering.atc.rank import needs_rank_5, rank_of
from poolgrad_lowering.atc.registered import OPSETS, PROTOTYPES, is_registered
from poolgrad_lowering.atc.tidy import is_max_pool
from poolgrad_lowering.atc.types import ValueTypes
from poolgrad_lowering.diagnostics.obstacles import NodeObstacle, Obstacle
from poolgrad_lowering.dialect import DOMAIN, OPS
from poolgrad_lowering.dialect.op import ASCEND_TYPES
from poolgrad_lowering.legality.targets import Target

_MAX_POOL_AXES = 3
"""The spatial axes of ATC's MaxPool, at most. With fewer, the plugin makes a 2-D pool without dilation."""

_LARGEST_WINDOW, _LARGEST_STRIDE = 255, 63
"""Of a 2-D pool on a core of Atlas A2 and A3. The plugin sends a larger one to the CPU of the device."""


def find_obstacles(model: ModelProto, target: Target, types: ValueTypes) -> list[NodeObstacle]:
    """Return the obstacles in an exported model, in the order of its nodes; those of the whole model come first."""
    return [*_of_model(model), *(_of_nodes(model, target, types))]


def _of_model(model: ModelProto) -> Iterator[NodeObstacle]:
    opset = opset_of(model)
    if opset not in OPSETS:
        reason = f"the model imports ONNX's operators in version {opset}"
        yield NodeObstacle("", "", Obstacle.OPSET.value, reason)
    if not inputs_to_feed(model):
        yield NodeObstacle("", "", Obstacle.NO_INPUT.value, "every value of the graph is constant")


def opset_of(model: ModelProto) -> int:
    """Return the imported version of ONNX's own operators, 0 if they are not imported."""
    return next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)


def _of_nodes(model: ModelProto, target: Target, types: ValueTypes) -> Iterator[NodeObstacle]:
    versions = {_domain(entry.domain): entry.version for entry in model.opset_import}
    functions = {(function.domain, function.name) for function in model.functions}
    left_out = any("" in node.input for graph in graphs(model.graph) for node in graph.node)
    for graph in graphs(model.graph):
        for node in graph.node:
            if left_out and "" in node.output:
                reason = f"its output {list(node.output).index('')} has no name"
                yield NodeObstacle(node.name, _operator(node), Obstacle.EMPTY_NAMES.value, reason)
            for code, reason in _of_node(node, versions, functions, target, types):
                yield NodeObstacle(node.name, _operator(node), code.value, reason)


def _of_node(
    node: NodeProto,
    versions: Mapping[str, int],
    functions: set[tuple[str, str]],
    target: Target,
    types: ValueTypes,
) -> Iterator[tuple[Obstacle, str]]:
    domain = _domain(node.domain)
    if domain == DOMAIN and node.op_type in OPS:
        yield from _of_dialect_node(node, target, types)
    elif (domain, node.op_type) in functions:
        yield Obstacle.FUNCTION_CALL, "it calls a function of the model"
    elif (domain or versions[domain] in OPSETS) and not is_registered(domain, node.op_type, versions[domain]):
        key = f"{domain or 'ai.onnx'}::{versions[domain]}::{node.op_type}"
        yield Obstacle.UNREGISTERED_OPERATOR, f"CANN has no ATC plugin for {key}"
    elif is_max_pool(node):
        yield from _of_max_pool(node, target)
    double = [name for name in (*node.input, *node.output) if types.elements.get(name) == TensorProto.DOUBLE]
    if double:
        yield Obstacle.FLOAT64, f"'{double[0]}' is float64"


def _of_dialect_node(node: NodeProto, target: Target, types: ValueTypes) -> Iterator[tuple[Obstacle, str]]:
    if node.op_type not in target.operators:
        yield Obstacle.WRONG_TARGET, f"{target.name} has no {node.op_type}"
        return
    if node.op_type not in PROTOTYPES:
        yield Obstacle.UNREGISTERED_OPERATOR, f"CANN has no prototype of {node.op_type} for graphs"
    if needs_rank_5(node) and rank_of(node, types.ranks) is None:
        yield Obstacle.UNKNOWN_RANK, f"the rank of '{node.input[0]}' is not known"
    if not target.has_2d and _argmax_type(node, types) == TensorProto.INT64:
        yield Obstacle.ARGMAX_TYPE, f"its argmax is int64, and {target.name} takes int32 only"


def _argmax_type(node: NodeProto, types: ValueTypes) -> int | None:
    """Return the element type of a dialect node's argmax: an input of gradients, an output of pools."""
    op = OPS[node.op_type]
    number = _attributes(node).get(op.index_type) if op.index_type else None
    if number is not None:
        return ASCEND_TYPES.get(number)
    return types.elements.get(node.input[-1])


def _of_max_pool(node: NodeProto, target: Target) -> Iterator[tuple[Obstacle, str]]:
    attributes = _attributes(node)
    kernel, strides = list(attributes.get("kernel_shape", [])), list(attributes.get("strides", []))
    if len(node.output) > 1:
        yield Obstacle.KEPT_INDICES, f"its Indices output '{node.output[1]}' is read"
    if len(kernel) > _MAX_POOL_AXES:
        yield Obstacle.POOL_AXES, f"it pools {len(kernel)} axes"
    dilations = attributes.get("dilations", [])
    if len(kernel) < _MAX_POOL_AXES and any(number != 1 for number in dilations):
        yield Obstacle.DROPPED_DILATION, f"its dilations are {list(dilations)}"
    is_large = math.prod(kernel) > _LARGEST_WINDOW or max(strides, default=1) > _LARGEST_STRIDE
    if len(kernel) < _MAX_POOL_AXES and not target.has_2d and is_large and _extends(attributes):
        yield Obstacle.LARGE_WINDOW, f"its kernel is {kernel}, its strides are {strides or 1}"
    if attributes.get("auto_pad") == b"SAME_LOWER":
        yield Obstacle.SAME_LOWER, "its auto_pad is SAME_LOWER"
    if attributes.get("storage_order", 0):
        yield Obstacle.STORAGE_ORDER, "its storage_order is 1"


def _extends(attributes: Mapping[str, Any]) -> bool:
    """Whether a pool has windows that extend beyond its input."""
    is_padded = attributes.get("auto_pad", b"").startswith(b"SAME") or any(attributes.get("pads", ()))
    return is_padded or bool(attributes.get("ceil_mode", 0))


def _attributes(node: NodeProto) -> dict[str, Any]:
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _operator(node: NodeProto) -> str:
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type
