# SPDX-License-Identifier: Apache-2.0

"""Checks of single values against what is known of them, shared by the forms and the checkpoint."""

from __future__ import annotations

from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.dims import Shape, Shown, differ, size
from poolgrad_lowering.model.ir.scopes import Value
from poolgrad_lowering.model.ir.tensors import type_name


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
