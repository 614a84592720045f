# SPDX-License-Identifier: Apache-2.0

"""Gradients that are a scatter onto zeros: their conditions, the planes that they write to, and the views around them.

A producer computes the scatter on rows and, for half types, in float32. The lowered node takes the incoming gradient
before those views and casts, and gives the result after them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from poolgrad_lowering.compiler.analysis.constant_values import constant_value
from poolgrad_lowering.compiler.analysis.provenance import Numbering
from poolgrad_lowering.compiler.families.gradient import Operand, View
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.max_pool.matching.forward import Pooled
from poolgrad_lowering.compiler.families.shared.checks import mixed_types
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.type_rules import HALF_TYPES
from poolgrad_lowering.model.ir.attributes import attribute, integer
from poolgrad_lowering.model.ir.dims import Shape, Shown, fits_reshape, size
from poolgrad_lowering.model.ir.scopes import MAX_CHAIN, Node, Value
from poolgrad_lowering.model.ir.tensors import type_name


class Scatter(NamedTuple):
    """A scatter with its operands: `updates` go onto `base` at the positions in its rows, `recorded`.

    Of a ScatterND they are what the table of the rows' numbers is joined to, if there is one.
    """

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
        joined = recorded.origin.producer if node.is_a("ScatterND") else None
        position = joined.input(len(joined.inputs) - 1) if joined is not None and joined.is_a("Concat") else None
        return cls(node, base, position or recorded, updates, scattered)


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
        what = "rows have {} elements, a plane of {} has {}"
        raise Refuse(Code.ROW_LENGTH, what, base[-1], Shown(pooled.x_shape), plane)


def scattered_gradient(
    facts: Facts, scatter: Scatter, pooled: Pooled, argmax: Operand, *, numbering: Numbering
) -> MaxPoolGradient:
    """Return the gradient of a scatter whose indices and base are proven; finds its operand and its result."""
    grad = find_source(facts, scatter.updates, pooled)
    return pooled.gradient(grad, argmax, find_result(facts, scatter.scattered, pooled), numbering)


def plane_gradient(
    facts: Facts, scatter: Scatter, pooled: Pooled, reductions: tuple[str, ...] = ("add",)
) -> MaxPoolGradient:
    """Return the gradient of a scatter by plane-local indices of a pool. Raises `Refuse` if it is none.

    Its argmax are the indices before the scatter's views: in the pooled shape if possible, else as computed.
    """
    check_adds_to_zeros(facts, scatter, reductions)
    check_positions(facts, scatter, pooled, Numbering.PLANE)
    sources = list(scatter.recorded.sources(facts.is_view))
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
        what = "ScatterND '{}' writes slices of {}, not single elements"
        raise Refuse(Code.ROWS_NOT_PLANES, what, node.label, Shown(base))
    is_own = _are_positions(indices) if depth == 1 else _names_own_rows(facts, indices, rows, depth)
    if not is_own:
        what = "'{}' is not proven to keep each entry of ScatterND '{}' in its row"
        raise Refuse(Code.ROWS_NOT_PLANES, what, indices.name, node.label)
    check_rows(node, base, (size(rows),) if depth == 1 else rows, pooled, numbering)


def _are_positions(indices: Value) -> bool:
    """Whether `Scatter.read` read the indices themselves: a Concat of several operands would add entries to them."""
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


def find_source(facts: Facts, updates: Value, pooled: Pooled) -> Operand:
    """The incoming gradient behind the updates of a scatter: in x's element type, in the pooled shape if there is one.

    Where no view has the pooled shape, the one nearest to the scatter that has x's element type is taken.
    """
    nearest: Operand | None = None
    kind, is_half = pooled.element_type, pooled.element_type in HALF_TYPES  # the cast of a half type is exact
    for value in updates.sources(
        lambda node: facts.is_view(node) or (is_half and _casts(facts, node, kind, TensorProto.FLOAT))
    ):
        if facts.element_type(value) == pooled.element_type:
            found = Operand.of(value, facts.shape(value), pooled.pooled_shape)
            if found.view is View.SAME:
                return found
            nearest = nearest or found
    if nearest is not None:
        return nearest
    raise mixed_types(updates, facts.element_type(updates), pooled.x, pooled.element_type)


def _casts(facts: Facts, node: Node, element_type: int, to: int) -> bool:
    return node.is_a("Cast") and facts.element_type(node.input(0)) == element_type and integer(node, "to") == to


def find_result(facts: Facts, scattered: Value, pooled: Pooled) -> Operand:
    """The value downstream of a scatter that the lowered node takes over.

    It is the first one in x's element type and shape (or the shape of what x itself is a view of), reached through
    views, an addition of zeros and the cast back, each the only reader of the one before. Where the scatter's rows are
    read as they are by something that is no view, the rows themselves are the result.
    """
    shapes = _shapes_of_x(facts, pooled)
    value, rows = scattered, None
    for _ in range(MAX_CHAIN):
        shape = facts.shape(value)
        if facts.element_type(value) == pooled.element_type:
            if shape in shapes:
                return Operand.of(value, shape, pooled.x_shape)
            rows = rows or value
        reader = value.only_reader
        if reader is None:
            break
        is_narrowed = _casts(facts, reader, TensorProto.FLOAT, pooled.element_type)
        if not (facts.is_view(reader) or is_narrowed or _adds_zeros(facts, reader, value)):
            break
        if (following := reader.output(0)) is None:
            break
        value = following
    return _rows(facts, rows, value, pooled)


def _rows(facts: Facts, rows: Value | None, last: Value, pooled: Pooled) -> Operand:
    """Return the scatter's rows as the result if a node uses them directly or several views share them.

    `rows` is the first value in x's element type: the scattered one, or what it is cast to.
    """
    if rows is None:
        code = Code.OTHER_CONSUMER if len(last.uses) > 1 or last.is_output else Code.DTYPE_MIX
        what = "'{}' is not brought back to {} {} by one chain of views and a Cast"
        raise Refuse(code, what, last.name, type_name(pooled.element_type), Shown(pooled.x_shape))
    shape, shapes = facts.shape(rows), _shapes_of_x(facts, pooled)
    readers = [use.scope.node(use.position) for use in rows.uses if use.position >= 0]
    served = any(not facts.is_view(reader) or facts.shape(reader.output(0)) in shapes for reader in readers)
    if shape is None or not fits_reshape(shape) or rows.is_output or not served:
        what = "'{}' has shape {}, the pooled input {}"
        raise Refuse(Code.DX_SHAPE, what, last.name, Shown(facts.shape(last)), Shown(pooled.x_shape))
    return Operand.of(rows, shape, pooled.x_shape)


def _shapes_of_x(facts: Facts, pooled: Pooled) -> set[Shape]:
    """x's shape, and those of the values that x is a view of.

    Those are shapes that a Reshape can be told: with one symbolic size at most. A 1-D or unbatched pool is written on
    an Unsqueeze, and optimisers merge the last Reshape with the one that takes
    the gradient back through a Reshape in front of the pool.
    """
    known = (facts.shape(source) for source in pooled.x.sources(facts.is_view))
    return {pooled.x_shape} | {shape for shape in known if shape is not None and fits_reshape(shape)}


def _adds_zeros(facts: Facts, node: Node, value: Value) -> bool:
    """Whether it adds zeros to sums onto zeros, which are never −0.0 and so stay as they are."""
    others = [other for other in (node.input(0), node.input(1)) if other is not None and other != value]
    is_zero = node.is_a("Add") and len(others) == 1 and facts.is_zero(others[0])
    shape = facts.shape(others[0]) if is_zero else None
    return shape is not None and shape == facts.shape(value)
