# SPDX-License-Identifier: Apache-2.0

"""Where a tensor of indices comes from: which MaxPool recorded it, and in which numbering it counts.

ONNX's MaxPool numbers its Indices over the whole tensor, row-major. Producers that need the position inside one
(n, c) plane subtract each plane's first index or take the remainder by the plane's size; both are proven here
from the graph. Only operators that keep values and row-major order may stand in between.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import numpy as np
from onnx import FunctionProto, TensorProto

from poolgrad_lowering.compiler.analysis.constant_values import constant_value
from poolgrad_lowering.model.diagnostics.codes import Code, Refusal, Refuse, attempt
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.slices import slice_bounds
from poolgrad_lowering.model.ir.attributes import integer
from poolgrad_lowering.model.ir.dims import Dim, size
from poolgrad_lowering.model.ir.scopes import Node, Value

_OF_NO_POOL = "indices come from '{}', which is not the Indices of a MaxPool"
_OF_AN_INPUT = "indices come from '{}', an input; if a forward graph computes them, merge the two graphs first"
"""The backward half of an export is a graph of its own, to which the Indices are given."""
_OF_A_FUNCTION = "indices come from '{}', an input or result of a function; inline the model's functions first"


class Numbering(Enum):
    """What an index counts."""

    TENSOR = "tensor"  # flat position in the whole (N, C, spatial…) tensor
    PLANE = "plane"  # flat position in one (n, c) plane
    AXIS = "axis"  # position along one spatial axis, the window's other coordinates being its own


class Indices(NamedTuple):
    """Indices recorded by a MaxPool, as some tensor holds them.

    `numbering` is what that tensor counts. `argmax` is the last tensor on the way to it that still has the pooled
    shape, and `argmax_numbering` what that one counts.
    """

    pool: Node
    numbering: Numbering
    argmax: Value
    argmax_numbering: Numbering


def indices(facts: Facts, value: Value) -> Indices:
    """Trace a tensor of indices to the MaxPool that recorded it. Raises `Refuse` if no MaxPool did.

    The elements of `value` are then those of the pool's Indices in the same row-major order; its shape may be
    another.
    """
    found = facts.once("indices", value, lambda value: attempt(_trace, facts, value))
    if isinstance(found, Indices):
        return found
    refusal = found or Refusal(Code.INDICES_SOURCE, _OF_NO_POOL, (value.name,))  # None: the chain is too long
    raise Refuse(refusal.code, refusal.template, *refusal.values)


def find_indices(facts: Facts, value: Value) -> Indices | None:
    """As `indices`, but returns None if no MaxPool recorded them."""
    found = attempt(indices, facts, value)
    return found if isinstance(found, Indices) else None


def _trace(facts: Facts, value: Value) -> Indices:
    node = value.producer
    if node is not None and node.is_a("MaxPool") and value == node.output(1):
        return Indices(node, Numbering.TENSOR, value, Numbering.TENSOR)
    source, operand = (None, None) if node is None else (node.input(0), node.input(1))
    if node is not None and node.is_a("Add") and constant_value(facts, source) is not None:
        source, operand = operand, source
    if node is None or node.is_a("MaxPool") or source is None or facts.is_function(node):
        raise of_no_pool(facts, value)
    found = indices(facts, source)
    if facts.is_view(node):
        return _reached(facts, found, value)
    if node.is_a("Add"):
        return _to_tensor(facts, node, found, source, operand)
    if node.is_a("Cast"):
        target = integer(node, "to")
        if target == TensorProto.INT64 or (target == TensorProto.INT32 and found.numbering is Numbering.PLANE):
            return _reached(facts, found, value)
        what = "Cast '{}' may cut the Indices of MaxPool '{}' short"
        raise Refuse(Code.INDICES_ALTERED, what, node.label, found.pool.label)
    if node.is_a("Sub", "Mod"):
        return _to_plane(facts, node, found, value)
    what = "{} '{}' changes the Indices of MaxPool '{}'"
    raise Refuse(Code.INDICES_ALTERED, what, node.proto.op_type, node.label, found.pool.label)


def of_no_pool(facts: Facts, value: Value, reason: str = _OF_NO_POOL) -> Refuse:
    """Return the refusal of indices that come from `value`, for the reason unless a function or an input hides it."""
    node, scope = value.producer, value.scope
    is_given = isinstance(scope.proto, FunctionProto) and value.name in scope.proto.input
    if is_given if node is None else facts.is_function(node):
        reason = _OF_A_FUNCTION
    elif value.is_main_input and facts.element_type(value) in (TensorProto.INT32, TensorProto.INT64):
        reason = _OF_AN_INPUT
    return Refuse(Code.INDICES_SOURCE, reason, value.name)


def _reached(facts: Facts, found: Indices, value: Value) -> Indices:
    """Return the indices with `value` as the argmax if it has the pooled shape.

    A plane-local argmax stays if `value` has whole-tensor numbering: the lowered node takes plane-local indices.
    """
    shape, renumbered = facts.shape(value), (found.argmax_numbering, found.numbering)
    if shape is not None and shape == facts.shape(found.argmax) and renumbered != (Numbering.PLANE, Numbering.TENSOR):
        return found._replace(argmax=value, argmax_numbering=found.numbering)
    return found


def _to_plane(facts: Facts, node: Node, found: Indices, value: Value) -> Indices:
    """`Indices − first index of the plane`, or `Indices mod plane size`."""
    operand = node.input(1)
    proof = _is_plane_base if node.is_a("Sub") else _is_plane_size
    if found.numbering is Numbering.TENSOR and operand is not None and proof(facts, operand, found, node):
        return _reached(facts, found._replace(numbering=Numbering.PLANE), value)
    what = "{} '{}' is not proven to make the Indices of MaxPool '{}' plane-local"
    raise Refuse(Code.PLANE_BASE, what, node.proto.op_type, node.label, found.pool.label)


def _to_tensor(facts: Facts, node: Node, found: Indices, source: Value, table: Value | None) -> Indices:
    """`plane-local index + first index of the plane`, by a constant table that is checked value by value."""
    if found.numbering is Numbering.PLANE and table is not None and _is_base_table(facts, table, found, source):
        return found._replace(numbering=Numbering.TENSOR)
    what = "Add '{}' is not proven to give the Indices of MaxPool '{}' their plane's first index"
    raise Refuse(Code.PLANE_BASE, what, node.label, found.pool.label)


def _is_base_table(facts: Facts, table: Value, found: Indices, source: Value) -> bool:
    """Whether a constant adds `(n·C + c)·plane` to each index of plane (n, c).

    The table has the indices' leading sizes, then ones to broadcast over, and a whole number of entries a plane.
    """
    x_shape, entries, shape = facts.shape(found.pool.input(0)), constant_value(facts, table), facts.shape(source)
    if entries is None or shape is None or x_shape is None or entries.ndim != len(shape):
        return False
    planes, plane = size(x_shape[:2]).static, size(x_shape[2:]).static
    own = max((axis + 1 for axis, extent in enumerate(entries.shape) if extent != 1), default=0)
    leading = tuple(Dim(extent) for extent in entries.shape[:own])
    if entries.dtype != np.int64 or not planes or plane is None or leading != shape[:own]:
        return False
    expected = np.repeat(np.arange(planes) * plane, entries.size // planes)
    return np.array_equal(entries.ravel(), expected)


def _is_plane_base(facts: Facts, base: Value, found: Indices, node: Node) -> bool:
    """Whether `base` is `(n·C + c)·plane`, shaped (N, C, 1, …): the sliced Indices of a 1×1 pool of x's shape.

    The 1×1 pool with stride 1 numbers every element of its input; element [n, c, 0, …] is the plane's first.
    """
    cut = base.origin.producer
    sliced = cut.input(0) if cut is not None and cut.is_a("Slice") else None
    companion = None if sliced is None else sliced.origin.producer
    if cut is None or sliced is None or companion is None or not companion.is_a("MaxPool"):
        return False
    pool = facts.pool(companion)
    if pool is None or sliced.origin != companion.output(1):
        return False
    rank, padding = len(pool.kernel) + 2, pool.begins + pool.ends if pool.auto_pad == "NOTSET" else ()
    return (
        _have_one_shape(facts, companion.input(0), found.pool.input(0))
        and slice_bounds(facts, cut, rank) == dict.fromkeys(range(2, rank), (0, 1))
        and set(pool.kernel) == set(pool.strides) == {1}
        and not any(padding)
        and not pool.storage_order
        and _have_one_shape(facts, node.input(0), found.argmax)
    )


def _have_one_shape(facts: Facts, value: Value | None, other: Value | None) -> bool:
    """Whether two values are one, or their shapes are known and equal."""
    shape = facts.shape(value)
    return (value is not None and value == other) or (shape is not None and shape == facts.shape(other))


def _is_plane_size(facts: Facts, divisor: Value, found: Indices, _: Node) -> bool:
    x_shape, sizes = facts.shape(found.pool.input(0)), facts.integers(divisor)
    return x_shape is not None and sizes is not None and len(sizes) == 1 and sizes[0] == size(x_shape[2:])
