# SPDX-License-Identifier: Apache-2.0

"""Views around a gradient: the same elements in row-major order under other shapes, and the casts of half types.

A producer computes the scatter on rows and, for half types, in float32. The lowered node takes the incoming gradient
before those views and casts, and gives the result after them.
"""

from __future__ import annotations

from collections.abc import Iterator

from onnx import TensorProto

from poolgrad_lowering.compiler.families.gradient import Operand, View
from poolgrad_lowering.compiler.families.max_pool.matching.forward import Pooled
from poolgrad_lowering.compiler.families.shared.checks import mixed_types
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.type_rules import HALF_TYPES
from poolgrad_lowering.model.ir.attributes import integer
from poolgrad_lowering.model.ir.dims import Shape, Shown, fits_reshape
from poolgrad_lowering.model.ir.scopes import MAX_CHAIN, Node, Value
from poolgrad_lowering.model.ir.tensors import type_name


def view_sources(facts: Facts, value: Value) -> Iterator[Value]:
    """The value itself, and those that it is a view of, nearest first."""
    return value.sources(facts.is_view)


def find_source(facts: Facts, updates: Value, pooled: Pooled) -> Operand:
    """The incoming gradient behind the updates of a scatter: in x's element type, in the pooled shape if there is one.

    Where no view has the pooled shape, the one nearest to the scatter that has x's element type is taken.
    """
    nearest: Operand | None = None
    for value in updates.sources(lambda node: facts.is_view(node) or _widens(facts, node, pooled)):
        if facts.element_type(value) == pooled.element_type:
            found = Operand.of(value, facts.shape(value), pooled.pooled_shape)
            if found.view is View.SAME:
                return found
            nearest = nearest or found
    if nearest is not None:
        return nearest
    raise mixed_types(updates, facts.element_type(updates), pooled.x, pooled.element_type)


def _widens(facts: Facts, node: Node, pooled: Pooled) -> bool:
    """Whether it casts x's half type to float32. That cast is exact, so its input can be the gradient."""
    is_half = pooled.element_type in HALF_TYPES
    return is_half and _casts(facts, node, pooled.element_type, TensorProto.FLOAT)


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
    known = (facts.shape(source) for source in view_sources(facts, pooled.x))
    return {pooled.x_shape} | {shape for shape in known if shape is not None and fits_reshape(shape)}


def _adds_zeros(facts: Facts, node: Node, value: Value) -> bool:
    """Whether it adds zeros to sums onto zeros, which are never −0.0 and so stay as they are."""
    others = [other for position in (0, 1) if (other := node.input(position)) is not None and other != value]
    return (
        node.is_a("Add")
        and len(others) == 1
        and facts.is_zero(others[0])
        and facts.shape(others[0]) is not None
        and facts.shape(others[0]) == facts.shape(value)
    )
