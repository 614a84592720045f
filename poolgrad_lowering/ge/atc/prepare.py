# SPDX-License-Identifier: Apache-2.0

"""Edits a lowered model so that CANN's ONNX parser takes it, and finds the obstacles that are left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnx import ModelProto

from poolgrad_lowering.diagnostics.obstacles import NodeObstacle
from poolgrad_lowering.gate.gate import Gate
from poolgrad_lowering.ge.atc.check import find_obstacles
from poolgrad_lowering.ge.atc.expand import expand_operators
from poolgrad_lowering.ge.atc.rank import raise_ranks
from poolgrad_lowering.ge.atc.weights import make_inputs
from poolgrad_lowering.ge.forms import write_forms
from poolgrad_lowering.ge.obstacles import opset_of
from poolgrad_lowering.ge.tidy import (
    declare_results,
    drop_stale_value_infos,
    drop_unread_indices,
    drop_unused_import,
    name_nodes,
)
from poolgrad_lowering.ge.values import ValueTypes, value_types
from poolgrad_lowering.io.external_data import ExternalData
from poolgrad_lowering.targets.table import Target


@dataclass(frozen=True)
class Edits:
    """What the export changed after the lowering.

    `raised` nodes were brought to rank 5, `expanded` operators replaced by standard nodes, `rewritten` nodes got a form
    that GE reads, `indices_dropped` Indices outputs were taken off, `renamed` nodes got another name, and `inputs` are
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
    drop_stale_value_infos(model)
    declare_results(model, types)
    if expanded:
        drop_unused_import(model)
    renamed = name_nodes(model)
    edits = Edits(raised, rewritten, tuple(expanded), dropped, renamed, tuple(inputs))
    return edits, tuple(find_obstacles(model, target, types))


def remaining_obstacles(model: ModelProto, target: Target, types: ValueTypes) -> list[NodeObstacle]:
    """Return the obstacles that `prepare_for_atc` would leave, for a model after `expand_operators`.

    Makes only the edits on which obstacles depend. `types` learns the new values.
    """
    _convert(model, types)
    return list(find_obstacles(model, target, types))


def _convert(model: ModelProto, types: ValueTypes) -> tuple[int, int, int]:
    """Write nodes in forms that ATC takes; return the numbers of raised, rewritten and dropped ones."""
    dropped = drop_unread_indices(model)
    rewritten = write_forms(model, opset_of(model), types)
    return raise_ranks(model, opset_of(model), types), rewritten, dropped
