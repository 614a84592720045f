# SPDX-License-Identifier: Apache-2.0

"""Checks of a gradient's values: those that forms use, and those at the checkpoint between match and legality.

At the checkpoint the record is complete, element types agree, shapes are consistent, and no operand is computed from
the result. Known facts of the graph must not contradict the record; unknown ones are the form's task.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import UnionType
from typing import get_args, get_origin, get_type_hints

from poolgrad_lowering.compiler.families.gradient import Gradient, Operand, View
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.dims import Dim, Shape, Shown, channels_to_last, differ, size
from poolgrad_lowering.model.ir.scopes import Node, Scope, Value
from poolgrad_lowering.model.ir.tensors import type_name
from poolgrad_lowering.model.windows import PoolAttributes


def malformed(gradient: Gradient, what: str, *values: object) -> Refuse:
    """Return the refusal of a gradient that contradicts itself or the graph."""
    value = getattr(gradient.dx, "value", None)
    name = value.name if isinstance(value, Value) else ""
    return Refuse(Code.MALFORMED_GRADIENT, "the gradient of '{}': " + what, name, *values)


def check_record(gradient: Gradient) -> None:
    """Raise `Refuse` unless every field is of its class and the fields describe one pool."""
    _check_fields(gradient, gradient)
    for name, operand in vars(gradient).items():
        if isinstance(operand, Operand):
            _check_fields(gradient, operand, f"{name}.")
    if gradient.dx.view is View.FLAT and gradient.dx.shape is None:
        raise malformed(gradient, "dx.shape is missing")
    for name, shape in (("x_shape", gradient.x_shape), ("pooled_shape", gradient.pooled_shape)):
        if not all(isinstance(dim, Dim) and dim.coefficient >= 0 for dim in shape):
            raise malformed(gradient, "{} is {}", name, shape)
    rank = len(gradient.x_shape)
    if rank < 2 or differ(gradient.x_shape[:2], gradient.pooled_shape[:2]) or len(gradient.pooled_shape) != rank:
        what = "pooled_shape {} does not fit x_shape {}"
        raise malformed(gradient, what, Shown(gradient.pooled_shape), Shown(gradient.x_shape))
    if isinstance(gradient.windows, PoolAttributes) and len(gradient.windows.kernel) != rank - 2:
        what = "windows have {} axes, x_shape is {}"
        raise malformed(gradient, what, len(gradient.windows.kernel), Shown(gradient.x_shape))


def _check_fields(gradient: Gradient, record: object, prefix: str = "") -> None:
    kind: type = type(record)
    for name, classes in _classes(kind).items():
        held = getattr(record, name)
        if not isinstance(held, classes):
            raise malformed(gradient, "{}{} is {}", prefix, name, type(held).__name__)


@cache
def _classes(kind: type) -> dict[str, tuple[type, ...]]:
    """Return the classes that the annotations of a record allow for each field."""
    of_fields = {}
    for name, hint in get_type_hints(kind).items():
        allowed = get_args(hint) if get_origin(hint) is UnionType else (hint,)
        of_fields[name] = tuple(get_origin(each) or each for each in allowed)
    return of_fields


def check_pool(gradient: Gradient) -> None:
    """As `check_windows`, for the windows of a gradient."""
    node = gradient.pool or gradient.dx.value.producer
    if isinstance(gradient.windows, PoolAttributes) and node is not None:
        check_windows(gradient.windows, node)


def check_windows(windows: PoolAttributes, node: Node) -> None:
    """Raise `Refuse` if runtimes disagree about the windows of a node, or it numbers Indices in another order."""
    if windows.storage_order:
        raise Refuse(Code.STORAGE_ORDER, "{} '{}' has storage_order=1", node.proto.op_type, node.label)
    if windows.has_ambiguous_pads:
        what = "{} '{}' has auto_pad={} with pads, dilations or gaps, which runtimes pad differently"
        raise Refuse(Code.POOL_ATTRIBUTES, what, node.proto.op_type, node.label, windows.auto_pad)


def check_element_types(facts: Facts, gradient: Gradient, *values: Value) -> None:
    """Raise `Refuse` unless the values have the gradient's element type, as far as known, and one of them is known."""
    types = [facts.element_type(value) for value in values]
    for value, found in zip(values, types, strict=True):
        if found and found != gradient.element_type:
            raise mixed_types(value, found, values[0], gradient.element_type)
    if not any(types):
        raise Refuse(Code.UNKNOWN_DTYPE, "the element type of '{}' is not known", values[0].name)


def check_result(facts: Facts, gradient: Gradient) -> None:
    """Raise `Refuse` if the known shape of the result is not x's, or has not as many elements if it is flat."""
    x_shape, dx = gradient.x_shape, gradient.dx
    if dx.view is not View.FLAT or dx.shape is None:
        check_operand_shape(facts, Code.DX_SHAPE, dx, x_shape)
        return
    if differ((size(dx.shape),), (size(x_shape),)):
        what = "'{}' has shape {}, but x has shape {}"
        raise Refuse(Code.DX_SHAPE, what, dx.value.name, Shown(dx.shape), Shown(x_shape))
    check_shape(facts, Code.DX_SHAPE, dx.value, dx.shape)


def check_operand_shape(facts: Facts, code: Code, operand: Operand, shape: Shape) -> None:
    """Raise `Refuse` if the operand's value cannot hold a tensor of this (N, C, spatial…) shape in its view."""
    if operand.view is View.CHANNELS_LAST:
        shape = tuple(shape[axis] for axis in channels_to_last(len(shape)))
    check_shape(facts, code, operand.value, shape, flat=operand.view is View.FLAT)


def check_names(gradient: Gradient) -> None:
    """Raise `Refuse` if the name of an operand denotes another value in the place of dx."""
    scope = gradient.dx.value.scope
    for value in gradient.operands:
        if scope.resolve(value.name) != value:
            raise Refuse(Code.SHADOWED_NAME, "'{}' is redefined in {}", value.name, scope.path)


def check_order(gradient: Gradient) -> None:
    """Raise `Refuse` unless a node computes dx, and no operand is computed from dx.

    Otherwise the lowered node would use its own result.
    """
    if gradient.dx.value.producer is None:
        raise malformed(gradient, "no node computes it")
    for value in gradient.operands:
        place = _place_in(value.scope, gradient.dx.value)
        if place is not None and _is_computed_by(value, place):
            raise malformed(gradient, "'{}' is computed from it", value.name)


def _place_in(scope: Scope, value: Value) -> Node | None:
    """Return the node of `scope` that produces the value itself or in a subgraph; None if it is produced elsewhere."""
    node, inner = value.producer, value.scope
    while inner is not scope:
        if inner.parent is None:
            return None
        node, inner = inner.parent.node(inner.holder), inner.parent
    return node


def _is_computed_by(value: Value, node: Node) -> bool:
    """Whether a value depends on `node`, a node of its scope. Node lists are sorted, but for a few: only nodes behind
    it in the list are searched.
    """

    def inputs(maker: Node) -> Sequence[Value | None]:
        return maker.inputs if maker.scope is node.scope and maker.position > node.position else ()

    return any(reached.producer is node for reached in value.ancestors(inputs))


def known_element_type(facts: Facts, x: Value) -> int:
    """Return the `TensorProto.DataType` of a pooled input. Raises `Refuse` if it is not known."""
    element_type = facts.element_type(x)
    if not element_type:
        raise Refuse(Code.UNKNOWN_DTYPE, "the element type of '{}' is not known", x.name)
    return element_type


def stated_element_type(facts: Facts, *values: Value) -> int:
    """Return the first known element type of the values; 0 if none is known."""
    return next(filter(None, map(facts.element_type, values)), 0)


def mixed_types(value: Value, found: int | None, x: Value, element_type: int) -> Refuse:
    """Return the refusal of a value of another element type than the pooled input."""
    what = "'{}' is {}, the pooled input '{}' {}"
    return Refuse(Code.DTYPE_MIX, what, value.name, type_name(found), x.name, type_name(element_type))


def check_shape(facts: Facts, code: Code, value: Value, expected: Shape, *, flat: bool = False) -> None:
    """Raise `Refuse` if the value is known to have another shape, or with `flat` another number of elements."""
    shape = facts.shape(value)
    if shape is not None and (differ((size(shape),), (size(expected),)) if flat else differ(shape, expected)):
        raise Refuse(code, "'{}' has shape {}, the pool {}", value.name, Shown(shape), Shown(expected))


def pooled_input_shape(facts: Facts, x: Value, rank: int) -> Shape:
    """Return the shape of a pooled input. Raises `Refuse` if it is not known, or not N, C and `rank` spatial axes."""
    shape = facts.shape(x)
    if shape is None:
        raise Refuse(Code.UNKNOWN_SHAPE, "the shape of '{}' is not known", x.name)
    if len(shape) == rank + 1:
        raise Refuse(Code.UNBATCHED, "'{}' has shape {}, no batch axis", x.name, Shown(shape))
    if len(shape) != rank + 2:
        raise Refuse(Code.SPATIAL_RANK, "'{}' has shape {}, the pool {} spatial axes", x.name, Shown(shape), rank)
    return shape
