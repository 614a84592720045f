# SPDX-License-Identifier: Apache-2.0

"""Prepares a lowered model for a session with onnxruntime's CANN provider in graph mode.

The provider hands parts of the graph to GE's parser and looks at domains and operator types only. What GE would refuse
or change is rewritten where that is possible; what is left is an obstacle. The names and shapes of the model's inputs
and outputs stay, and so do the bits of its results.
"""

from __future__ import annotations

from typing import NamedTuple

import onnx.inliner
from onnx import ModelProto

from poolgrad_lowering.dialect.op import DOMAIN
from poolgrad_lowering.dialect.ops import PROVIDER_OPERATORS
from poolgrad_lowering.ge.indices import indices_are_proven
from poolgrad_lowering.ge.obstacles import GRAPH_MODE, find_obstacles
from poolgrad_lowering.ge.placement import Place, Placement, find_placement
from poolgrad_lowering.ge.rewrites import write_for_ge
from poolgrad_lowering.ge.scalars import give_scalars_an_axis
from poolgrad_lowering.ge.tidy import (
    declare_results,
    drop_stale_value_infos,
    drop_unread,
    drop_unread_indices,
    name_nodes,
)
from poolgrad_lowering.ge.values import SHAPE_OPERANDS, ValueTypes, value_types
from poolgrad_lowering.model.diagnostics.obstacles import NodeObstacle, Obstacle
from poolgrad_lowering.model.diagnostics.onnx_errors import ONNX_ERRORS
from poolgrad_lowering.model.diagnostics.text import counted
from poolgrad_lowering.model.io.external_data import ExternalData
from poolgrad_lowering.model.ir.collector import collector_paused
from poolgrad_lowering.model.ir.graphs import graphs, is_standard, opset_of
from poolgrad_lowering.model.ir.index import ModelIndex, Visitor
from poolgrad_lowering.model.ir.order import sort_nodes


class GraphModeEdits(NamedTuple):
    """What was changed: the numbers of rewritten nodes, of Indices outputs, of names of nodes, of values of rank 0."""

    rewritten: int
    indices_dropped: int
    renamed: int
    scalars: int

    @property
    def text(self) -> str:
        """What was changed, as a sentence part."""
        return (
            f"{counted(self.rewritten, 'node')} rewritten, {counted(self.scalars, 'value')} of rank 0 with an axis, "
            f"{counted(self.indices_dropped, 'Indices output')} dropped, {counted(self.renamed, 'node')} renamed"
        )


class Prepared(NamedTuple):
    """What became of a model: what was changed, and the obstacles that are left.

    `has_proven_indices`: the provider need not check what gradients read (`indices`).
    """

    edits: GraphModeEdits
    obstacles: tuple[NodeObstacle, ...]
    has_proven_indices: bool


@collector_paused()
def prepare_for_graph_mode(model: ModelProto, external: ExternalData, visitor: Visitor | None = None) -> Prepared:
    """Rewrite a lowered model for graph mode.

    `external` is the model's external data. `visitor` validates the model; without one it is taken for valid.

    Raises the errors of `visitor`.
    """
    inline_functions(model)
    types = value_types(model, ModelIndex(model, visitor), external)
    rewritten, indices_dropped, scalars = _rewrite_nodes(model, types)
    edits = GraphModeEdits(rewritten, indices_dropped, name_nodes(model, is_cut=True), scalars)
    drop_stale_value_infos(model)
    declare_results(model, types)
    obstacles = _obstacles(model, types, find_placement(model, types))
    return Prepared(edits, obstacles, indices_are_proven(model, types))


def rewrite_nodes(model: ModelProto, types: ValueTypes) -> tuple[tuple[NodeObstacle, ...], Placement]:
    """Rewrite the nodes as `prepare_for_graph_mode` does, and return the obstacles that are left, and where nodes run.

    For a model after `inline_functions`. `types` learns the new values. Names of nodes and declarations stay.
    """
    _rewrite_nodes(model, types)
    placement = find_placement(model, types)
    return _obstacles(model, types, placement), placement


def _obstacles(model: ModelProto, types: ValueTypes, placement: Placement) -> tuple[NodeObstacle, ...]:
    why = "onnxruntime's CANN provider does not take it"
    found = [(node, Obstacle.ON_THE_CPU, why) for node in placement.nodes if node.place is Place.CPU]
    for node, bound in placement.far_bounds:
        found.append((node, Obstacle.SHAPE_OPERAND, f"its operand '{bound}' needs numbers of another part"))
    for node, value in placement.far_selections:
        found.append((node, Obstacle.SELECTED_SIZE, f"its operand '{value}' of another part has no known shape"))
    of_places = (NodeObstacle(node.name, node.operator, code.value, reason) for node, code, reason in found)
    return *find_obstacles(model, types, GRAPH_MODE), *of_places


def _rewrite_nodes(model: ModelProto, types: ValueTypes) -> tuple[int, int, int]:
    """Return the numbers of rewritten nodes, dropped Indices and scalars.

    What computed a shape that is numbers now goes too: onnxruntime keeps nodes without readers, and their order cuts
    the graph.
    """
    sort_nodes(model)
    opset, shapes = opset_of(model), _shapes_read(model)
    rewritten = write_for_ge(model, opset, types, is_cut=True)
    drop_unread(model, shapes - _shapes_read(model))
    dropped, scalars = drop_unread_indices(model), give_scalars_an_axis(model, opset, types) if opset else 0
    return rewritten, dropped, scalars


def _shapes_read(model: ModelProto) -> set[str]:
    nodes = (node for graph in graphs(model.graph) for node in graph.node if node.op_type in SHAPE_OPERANDS)
    return {node.input[SHAPE_OPERANDS[node.op_type]] for node in nodes if is_standard(node)}


def inline_functions(model: ModelProto) -> bool:
    """Inline the functions that the provider has no kernel for, as onnxruntime does before it assigns nodes.

    Returns whether there were any. All stay if onnx cannot inline them, as those of another opset than the model's.
    """
    names = [
        (function.domain, function.name)
        for function in model.functions
        if function.domain != DOMAIN or function.name not in PROVIDER_OPERATORS
    ]
    if not names:
        return False
    try:
        inlined = onnx.inliner.inline_selected_functions(model, names)
    except ONNX_ERRORS:
        return False
    model.CopyFrom(inlined)
    return True
