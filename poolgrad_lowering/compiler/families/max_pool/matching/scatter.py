# SPDX-License-Identifier: Apache-2.0

"""The conditions of every gradient that is a scatter onto zeros, and the planes that a ScatterND writes to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from poolgrad_lowering.compiler.analysis.constant_values import constant_value
from poolgrad_lowering.compiler.analysis.provenance import Numbering
from poolgrad_lowering.compiler.families.gradient import Operand, View
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.max_pool.matching.forward import Pooled
from poolgrad_lowering.compiler.families.max_pool.matching.views import find_result, find_source, view_sources
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.attributes import attribute, integer
from poolgrad_lowering.model.ir.dims import Shape, Shown, size
from poolgrad_lowering.model.ir.scopes import Node, Value
from poolgrad_lowering.model.ir.tensors import type_name


@dataclass(frozen=True)
class Scatter:
    """A scatter with its operands: `updates` go onto `base` at the positions in `recorded`."""

    node: Node
    base: Value
    recorded: Value
    updates: Value
    scattered: Value

    @classmethod
    def read(cls, node: Node) -> Scatter:
        """The operands of a ScatterElements or ScatterND node."""
        base, recorded, updates, scattered = node.input(0), node.input(1), node.input(2), node.output(0)
        if base is None or recorded is None or updates is None or scattered is None:
            raise Refuse(Code.ARITY, "{} '{}' lacks an input", node.proto.op_type, node.label)
        return cls(node, base, recorded, updates, scattered)


def check_adds_to_zeros(facts: Facts, scatter: Scatter, reductions: tuple[str, ...] = ("add",)) -> None:
    """Raise `Refuse` unless the scatter adds onto zeros. `reductions` are the values that count as adding."""
    reduction = attribute(scatter.node, "reduction")
    # Below opset 16 the attribute does not exist, and scatters overwrite.
    if reduction not in reductions and not (reduction is None and "none" in reductions):
        what, wanted = "{} '{}' has reduction={}, not {}", " or ".join(reductions)
        raise Refuse(Code.REDUCTION, what, scatter.node.proto.op_type, scatter.node.label, reduction, wanted)
    if not facts.is_zero(scatter.base):
        raise Refuse(Code.BASE_NOT_ZERO, "'{}' is not proven to be all zero", scatter.base.name)
    base, updates = facts.element_type(scatter.base), facts.element_type(scatter.updates)
    if None not in (base, updates) and base != updates:
        what = "'{}' is {}, and '{}', which is added to it, {}"
        raise Refuse(Code.DTYPE_MIX, what, scatter.base.name, type_name(base), scatter.updates.name, type_name(updates))


def check_rows_are_planes(facts: Facts, scatter: Scatter, pooled: Pooled, numbering: Numbering) -> None:
    """Element (row, i) of the scatter is position i of its own plane (or of the whole tensor)."""
    node, base, recorded = scatter.node, facts.shape(scatter.base), facts.shape(scatter.recorded)
    if base is None or recorded is None:
        raise Refuse(Code.UNKNOWN_SHAPE, "the shapes of ScatterElements '{}' are not known", node.label)
    rank, axis = len(base), integer(node, "axis")
    if rank == 0 or len(recorded) != rank or axis not in (-1, rank - 1):
        raise Refuse(Code.ROWS_NOT_PLANES, "ScatterElements '{}' does not scatter along the last axis", node.label)
    check_rows(node, base, recorded, pooled, numbering)


def check_rows(node: Node, base: Shape, recorded: Shape, pooled: Pooled, numbering: Numbering) -> None:
    """Rows of positions, `recorded`, onto rows of elements, `base`, are the planes of x.

    Whole-tensor indices of several planes need one row that is the whole of x.
    """
    planes, plane = size(pooled.x_shape[:2]), size(pooled.x_shape[2:])
    one_plane = planes.static == 1
    if numbering is Numbering.TENSOR and not one_plane:
        if size(base[:-1]).static != 1 or base[-1] != size(pooled.x_shape):
            what = "{} '{}' uses whole-tensor Indices on rows of {}"
            raise Refuse(Code.INDICES_NUMBERING, what, node.proto.op_type, node.label, Shown(base))
        return
    if recorded[-1] != size(pooled.pooled_shape[2:]) or recorded[:-1] != base[:-1] or size(base[:-1]) != planes:
        what = "rows of {} onto {} are not proven to be the planes of {}"
        raise Refuse(Code.ROWS_NOT_PLANES, what, Shown(recorded), Shown(base), Shown(pooled.x_shape))
    if base[-1] != plane:
        raise Refuse(
            Code.ROW_LENGTH, "rows have {} elements, a plane of {} has {}", base[-1], Shown(pooled.x_shape), plane
        )


def scattered_gradient(
    facts: Facts, scatter: Scatter, pooled: Pooled, argmax: Operand, *, numbering: Numbering
) -> MaxPoolGradient:
    """Return the gradient of a scatter whose indices and base are proven; finds its operand and its result."""
    grad = find_source(facts, scatter.updates, pooled)
    return pooled.gradient(grad, argmax, find_result(facts, scatter.scattered, pooled), numbering)


def read_scatter(node: Node) -> Scatter:
    """The operands of a ScatterElements or ScatterND node; `recorded` are the positions in the rows.

    Of a ScatterND they are what the table of the rows' numbers is joined to, if there is one.
    """
    scatter = Scatter.read(node)
    joined = scatter.recorded.origin.producer if node.is_a("ScatterND") else None
    position = joined.input(len(joined.inputs) - 1) if joined is not None and joined.is_a("Concat") else None
    return scatter if position is None else replace(scatter, recorded=position)


def plane_gradient(
    facts: Facts, scatter: Scatter, pooled: Pooled, reductions: tuple[str, ...] = ("add",)
) -> MaxPoolGradient:
    """Return the gradient of a scatter by plane-local indices of a pool. Raises `Refuse` if it is none.

    Its argmax are the indices before the scatter's views: in the pooled shape if possible, else as computed.
    """
    check_adds_to_zeros(facts, scatter, reductions)
    check_positions(facts, scatter, pooled, Numbering.PLANE)
    sources = list(view_sources(facts, scatter.recorded))
    shaped = next((source for source in sources if facts.shape(source) == pooled.pooled_shape), None)
    argmax = Operand(shaped) if shaped is not None else Operand(sources[-1], View.FLAT)
    return scattered_gradient(facts, scatter, pooled, argmax, numbering=Numbering.PLANE)


def check_positions(facts: Facts, scatter: Scatter, pooled: Pooled, numbering: Numbering) -> None:
    """Each element of the scatter meets its position, whichever operator it is."""
    check = _check_nd_rows if scatter.node.is_a("ScatterND") else check_rows_are_planes
    check(facts, scatter, pooled, numbering)


def _check_nd_rows(facts: Facts, scatter: Scatter, pooled: Pooled, numbering: Numbering) -> None:
    """Element (row, i) of a ScatterND is position i of its own plane (or of the whole tensor)."""
    node, indices = scatter.node, scatter.node.input(1)
    base, entries = facts.shape(scatter.base), facts.shape(indices)
    if base is None or indices is None or not entries:
        raise Refuse(Code.UNKNOWN_SHAPE, "the shapes of ScatterND '{}' are not known", node.label)
    rows, depth = entries[:-1], entries[-1].static
    if depth != len(base):
        raise Refuse(
            Code.ROWS_NOT_PLANES, "ScatterND '{}' writes slices of {}, not single elements", node.label, Shown(base)
        )
    is_own = _are_positions(indices) if depth == 1 else _names_own_rows(facts, indices, rows, depth)
    if not is_own:
        what = "'{}' is not proven to keep each entry of ScatterND '{}' in its row"
        raise Refuse(Code.ROWS_NOT_PLANES, what, indices.name, node.label)
    check_rows(node, base, (size(rows),) if depth == 1 else rows, pooled, numbering)


def _are_positions(indices: Value) -> bool:
    """Whether `read_scatter` read the indices themselves: a Concat of several operands would add entries to them."""
    node = indices.origin.producer
    return node is None or not node.is_a("Concat") or len(node.inputs) == 1


def _names_own_rows(facts: Facts, indices: Value, rows: Shape, depth: int) -> bool:
    """Whether entry [a, b, …, i] is (a, b, …, position), by constants in front of the position."""
    node = indices.origin.producer
    sizes = tuple([extent.static for extent in rows])
    if node is None or not node.is_a("Concat") or len(rows) != depth:
        return False
    if integer(node, "axis") not in (-1, depth):
        return False
    coordinates = facts.shape(node.input(len(node.inputs) - 1))
    if not coordinates or coordinates[-1].static != 1:
        return False
    tables = [constant_value(facts, operand) for operand in node.inputs[:-1]]
    known = [table for table in tables if table is not None and table.shape[:-1] == sizes]
    if not known:
        return False
    joined = np.concatenate(known, axis=-1)
    return joined.shape[-1] == depth - 1 and _counts_rows(joined)


def _counts_rows(table: npt.NDArray[Any]) -> bool:
    """Whether `table[a, b, …, i]` is (a, b, …)."""
    *sizes, columns = table.shape
    numbers = np.indices(sizes[:columns], sparse=True)
    return all(
        np.array_equal(table[..., column], np.broadcast_to(numbers[column][..., None], sizes))
        for column in range(columns)
    )
