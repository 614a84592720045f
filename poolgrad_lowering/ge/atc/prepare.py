# SPDX-License-Identifier: Apache-2.0

"""Edits a lowered model so that CANN's ONNX parser takes it, and finds the obstacles that are left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import onnx.inliner
from onnx import ModelProto, NodeProto, TensorProto, helper

from poolgrad_lowering.dialect import DOMAIN, OPS
from poolgrad_lowering.dialect.op import ASCEND_TYPES, TYPES, VALUE, Part
from poolgrad_lowering.dialect.targets import Target
from poolgrad_lowering.ge import obstacles, tidy
from poolgrad_lowering.ge.atc.rank import needs_rank_5, raise_ranks, rank_of, shape_operands, store_sizes
from poolgrad_lowering.ge.registered import PROTOTYPES, takes_layout
from poolgrad_lowering.ge.rewrites import write_for_ge
from poolgrad_lowering.ge.values import ValueTypes, attributes_of, operands_of, value_types
from poolgrad_lowering.model.diagnostics.errors import InvalidModelError, UsageError
from poolgrad_lowering.model.diagnostics.faults import Fault
from poolgrad_lowering.model.diagnostics.obstacles import NodeObstacle, Obstacle
from poolgrad_lowering.model.diagnostics.onnx_errors import ONNX_ERRORS
from poolgrad_lowering.model.facts.type_rules import FLOAT_TYPES
from poolgrad_lowering.model.gate.gate import Gate
from poolgrad_lowering.model.io.external_data import ExternalData
from poolgrad_lowering.model.ir.graphs import graphs, inputs_to_feed, opset_of, remove_entries
from poolgrad_lowering.model.ir.order import sort_nodes
from poolgrad_lowering.model.ir.tensors import type_name


class Edits(NamedTuple):
    """What the export changed after the lowering.

    `raised` nodes were brought to rank 5, `expanded` operators replaced by standard nodes, `rewritten` nodes written as
    GE reads them, `indices_dropped` Indices outputs taken off, `renamed` nodes given another name. `inputs` are the
    initializers that became graph inputs.
    """

    raised: int
    rewritten: int
    expanded: tuple[str, ...]
    indices_dropped: int
    renamed: int
    inputs: tuple[str, ...]


def prepare_for_atc(
    model: ModelProto, target: Target, weights_as_inputs: Sequence[str], gate: Gate
) -> tuple[Edits, tuple[NodeObstacle, ...]]:
    """Edit a lowered model for ATC; return the edits and the obstacles that are left.

    Raises `InvalidModelError` and `UsageError`.
    """
    expanded = expand_operators(model)
    types = value_types(model, gate.index(model), ExternalData(gate.folder, gate.limits))
    inputs = make_inputs(model, weights_as_inputs)
    raised, rewritten, dropped = _convert(model, types)
    tidy.drop_stale_value_infos(model)
    tidy.declare_results(model, types)
    if expanded:
        tidy.drop_unused_import(model)
    renamed = tidy.name_nodes(model)
    edits = Edits(raised, rewritten, tuple(expanded), dropped, renamed, tuple(inputs))
    return edits, tuple(_find_obstacles(model, target, types))


def remaining_obstacles(model: ModelProto, target: Target, types: ValueTypes) -> list[NodeObstacle]:
    """Return the obstacles that `prepare_for_atc` would leave, for a model after `expand_operators`.

    Makes only the edits on which obstacles depend. `types` learns the new values.
    """
    _convert(model, types)
    return _find_obstacles(model, target, types)


def _convert(model: ModelProto, types: ValueTypes) -> tuple[int, int, int]:
    """Write nodes as ATC takes them; return the numbers of raised, rewritten and dropped ones."""
    sort_nodes(model)
    sizes = shape_operands(model)
    rewritten = write_for_ge(model, opset_of(model), types) + store_sizes(model, types)
    dropped = tidy.drop_unread_indices(model)
    raised = raise_ranks(model, opset_of(model), types)
    tidy.drop_unread(model, sizes - shape_operands(model))
    return raised, rewritten, dropped


def _find_obstacles(model: ModelProto, target: Target, types: ValueTypes) -> list[NodeObstacle]:
    """Return the obstacles in an exported model, in the order of its nodes; those of the whole model come first."""
    use = obstacles.Use(is_cut=False, core_window=target.core_window)
    nodes = [node for graph in graphs(model.graph) for node in graph.node]
    own = [node for node in nodes if node.domain == DOMAIN and node.op_type in OPS]
    of_dialect = (obstacles.obstacle(node, *each) for node in own for each in _of_node(node, target, types))
    found = [*obstacles.find_obstacles(model, types, use), *of_dialect]
    order = {node.name: number for number, node in enumerate(nodes)}
    return sorted(found, key=lambda each: order.get(each.node, -1))


def _of_node(node: NodeProto, target: Target, types: ValueTypes) -> Iterator[tuple[Obstacle, str]]:
    support = target.operators.get(node.op_type)
    if support is None:
        yield Obstacle.WRONG_TARGET, f"{target.name} has no {node.op_type}"
        return
    if node.op_type not in PROTOTYPES:
        yield Obstacle.UNREGISTERED_OPERATOR, f"CANN has no prototype of {node.op_type} for graphs"
    elif not takes_layout(node.op_type, target):
        yield Obstacle.CHANNELS_LAST, f"{target.name} takes {node.op_type} with the channels last only"
    element_type = value_type(node, types)
    if element_type in TYPES[VALUE] and not target.supports(node.op_type, element_type):
        yield Obstacle.WRONG_TARGET, f"{target.name} has no {node.op_type} for {type_name(element_type)}"
    dilation = list(attributes_of(node).get("dilation", ()))
    if max(dilation, default=1) > 1 and not support.dilation:
        yield Obstacle.DILATION, f"its dilation is {dilation}"
    elements, windows = (types.count(next(iter(names), "")) for names in (node.output, reversed(node.input)))
    if elements is not None and windows is not None and support.fails_on(element_type, elements, windows):
        yield Obstacle.FEW_ELEMENTS, f"it has {windows} windows over {elements} elements"
    sizes = operands_of(node).get(Part.SIZES)
    if sizes is not None and types.numbers(sizes) is None:
        yield Obstacle.COMPUTED_SIZES, f"'{sizes}' is not constant"
    if needs_rank_5(node) and rank_of(node, types) is None:
        yield Obstacle.UNKNOWN_RANK, f"the rank of '{node.input[0]}' is not known"
    if _argmax_type(node, types) == TensorProto.INT64 and TensorProto.INT64 not in support.index_types:
        yield Obstacle.ARGMAX_TYPE, f"its argmax is int64, and {target.name} takes int32 only"


def value_type(node: NodeProto, types: ValueTypes) -> int | None:
    """Return the element type of x, y and the gradients of a dialect node; None if it is not known."""
    return types.elements.get(next(iter(node.output), ""))


def _argmax_type(node: NodeProto, types: ValueTypes) -> int | None:
    """Return the element type of a dialect node's argmax: an input of gradients, an output of pools."""
    op = OPS[node.op_type]
    number = attributes_of(node).get(op.index_type or "")
    if number is not None:
        return ASCEND_TYPES.get(number)
    return types.elements.get(node.input[-1])


def expand_operators(model: ModelProto) -> list[str]:
    """Inline the functions of the dialect's operators without a prototype in CANN; return the operators' names.

    aclnn runs such an operator, but a graph cannot contain it. An operator whose function the model lacks stays. Raises
    `InvalidModelError` if onnx cannot inline them.
    """
    expanded = sorted(
        function.name
        for function in model.functions
        if function.domain == DOMAIN and function.name in OPS.keys() - PROTOTYPES.keys()
    )
    if expanded:
        try:
            inlined = onnx.inliner.inline_selected_functions(model, [(DOMAIN, name) for name in expanded])
        except ONNX_ERRORS as error:
            what = f"onnx cannot inline the functions of {', '.join(expanded)}: {error}"
            raise InvalidModelError(Fault.TOO_LARGE, "the model", what) from error
        model.CopyFrom(inlined)
    return expanded


def make_inputs(model: ModelProto, patterns: Sequence[str]) -> list[str]:
    """Make graph inputs of the floating-point initializers of the main graph that match a pattern; return their names.

    A pattern is a name or a glob such as `*.weight`. An input that has a default loses it. The values are not kept.
    Raises `UsageError` for a pattern that matches nothing.
    """
    graph = model.graph
    weights = [tensor.name for tensor in graph.initializer if tensor.data_type in FLOAT_TYPES]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in weights):
            raise UsageError(f"'{pattern}' matches no floating-point initializer of the main graph")
    chosen = {name for name in weights if any(fnmatchcase(name, pattern) for pattern in patterns)}
    declared = {value.name for value in graph.input}
    for tensor in graph.initializer:
        if tensor.name in chosen - declared:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    remove_entries(graph.initializer, lambda tensor: tensor.name in chosen)
    return [name for name in weights if name in chosen]


def defaults(model: ModelProto) -> list[str]:
    """Return the graph inputs that have an initializer as default. ATC makes constants of them."""
    fed = {value.name for value in inputs_to_feed(model)}
    return [value.name for value in model.graph.input if value.name not in fed]
