# SPDX-License-Identifier: Apache-2.0

"""The checkpoint between match and legality: verifies every `PoolGradient`, whichever form made it.

A form proves what its producer's spelling means. What any gradient has to satisfy is checked here once: the record is
complete, element types agree, shapes fit together, and the indices are those of the pool that it names. Facts that
the graph does not tell are left to the form; facts that it does tell must not contradict the record.
"""

from __future__ import annotations

from itertools import islice

from onnx import TensorProto

from poolgrad_lowering.analysis.facts import Facts, type_name
from poolgrad_lowering.analysis.pool import PoolAttributes
from poolgrad_lowering.analysis.provenance import Indices, Numbering, find_indices
from poolgrad_lowering.diagnostics.codes import Code, Refuse
from poolgrad_lowering.gradient import AdaptiveWindows, PoolGradient
from poolgrad_lowering.ir.dims import Dim, Shape, Shown, differ, size
from poolgrad_lowering.ir.scopes import MAX_CHAIN, Node, Scope, Value

_FIELDS: dict[str, type | tuple[type, ...]] = {
    "x": Value,
    "grad": Value,
    "argmax": Value,
    "dx": Value,
    "numbering": Numbering,
    "element_type": int,
    "windows": (PoolAttributes, AdaptiveWindows),
    "x_shape": tuple,
    "pooled_shape": tuple,
    "dx_shape": (tuple, type(None)),
    "pool": (Node, type(None)),
    "axis": int,
    "grad_is_flat": bool,
    "argmax_is_flat": bool,
    "x_is_flat": bool,
    "channels_last": bool,
}


def verify_gradient(facts: Facts, gradient: PoolGradient) -> None:
    """Raises `Refuse` at the first condition that the gradient violates."""
    _check_record(gradient)
    _check_dtypes(facts, gradient)
    _check_shapes(facts, gradient)
    _check_argmax(facts, gradient)
    _check_order(gradient)


def _malformed(gradient: PoolGradient, what: str, *values: object) -> Refuse:
    name = gradient.dx.name if isinstance(gradient.dx, Value) else ""
    return Refuse(Code.MALFORMED_GRADIENT, "the gradient of '{}': " + what, name, *values)


# -- the record alone


def _check_record(gradient: PoolGradient) -> None:
    """Every field is of its type, and the fields describe one pool."""
    for name, kind in _FIELDS.items():
        if not isinstance(getattr(gradient, name), kind):
            raise _malformed(gradient, "{} is {}", name, type(getattr(gradient, name)).__name__)
    for name, shape in (("x_shape", gradient.x_shape), ("pooled_shape", gradient.pooled_shape)):
        if not all(isinstance(dim, Dim) and dim.coefficient >= 0 for dim in shape):
            raise _malformed(gradient, "{} is {}", name, shape)
    rank = len(gradient.x_shape)
    if rank < 2 or differ(gradient.x_shape[:2], gradient.pooled_shape[:2]) or len(gradient.pooled_shape) != rank:
        raise _malformed(gradient, "{} does not pool {}", Shown(gradient.pooled_shape), Shown(gradient.x_shape))
    if isinstance(gradient.windows, PoolAttributes) and len(gradient.windows.kernel) != rank - 2:
        raise _malformed(gradient, "windows of {} axes on {}", len(gradient.windows.kernel), Shown(gradient.x_shape))
    if gradient.numbering is Numbering.AXIS and not 0 <= gradient.axis < rank - 2:
        raise _malformed(gradient, "{} has no spatial axis {}", Shown(gradient.x_shape), gradient.axis)


# -- the record against the graph


def _check_dtypes(facts: Facts, gradient: PoolGradient) -> None:
    """x, grad and dx have the gradient's element type, as far as known; at least one of the types is known."""
    values = (gradient.x, gradient.grad, gradient.dx)
    types = [facts.element_type(value) for value in values]
    for value, found in zip(values, types, strict=True):
        if found and found != gradient.element_type:
            raise Refuse(
                Code.DTYPE_MIX,
                "'{}' is {}, the pooled input '{}' {}",
                value.name,
                type_name(found),
                gradient.x.name,
                type_name(gradient.element_type),
            )
    if not any(types):
        raise Refuse(Code.UNKNOWN_DTYPE, "the element type of '{}' is not known", gradient.x.name)
    _check_index_dtype(facts, gradient)


def _check_index_dtype(facts: Facts, gradient: PoolGradient) -> None:
    """Only plane-local indices may be int32: the rewrite computes with others in int64, the type of ONNX's Indices.

    No other type is refused: ORTModule declares the indices of its ATen nodes as float.
    """
    is_int32 = bool(gradient.argmax.name) and facts.element_type(gradient.argmax) == TensorProto.INT32
    if is_int32 and gradient.numbering is not Numbering.PLANE:
        raise _malformed(gradient, "the indices '{}' are int32", gradient.argmax.name)


def _check_shapes(facts: Facts, gradient: PoolGradient) -> None:
    """Every known shape of an operand or of the result is the one in the record, or has as many elements if flat."""
    x_shape, pooled_shape = gradient.x_shape, gradient.pooled_shape
    dx_shape = _arranged(x_shape, gradient) if gradient.dx_shape is None else gradient.dx_shape
    if differ((size(dx_shape),), (size(x_shape),)):
        raise Refuse(Code.DX_SHAPE, "'{}' has shape {}, x {}", gradient.dx.name, Shown(dx_shape), Shown(x_shape))
    _check_shape(facts, Code.MALFORMED_GRADIENT, gradient.x, x_shape, flat=gradient.x_is_flat)
    _check_shape(facts, Code.DX_SHAPE, gradient.dx, dx_shape)
    _check_shape(facts, Code.GRAD_SHAPE, gradient.argmax, pooled_shape, flat=gradient.argmax_is_flat)
    grad_shape = _arranged(pooled_shape, gradient)
    _check_shape(facts, Code.GRAD_SHAPE, gradient.grad, grad_shape, flat=gradient.grad_is_flat)


def _check_shape(facts: Facts, code: Code, value: Value, expected: Shape, *, flat: bool = False) -> None:
    shape = facts.shape(value) if value.name else None
    if shape is not None and (differ((size(shape),), (size(expected),)) if flat else differ(shape, expected)):
        raise Refuse(code, "'{}' has shape {}, the pool {}", value.name, Shown(shape), Shown(expected))


def _arranged(shape: Shape, gradient: PoolGradient) -> Shape:
    """An (N, C, spatial…) shape in the layout of `grad` and `dx`."""
    return (shape[0], *shape[2:], shape[1]) if gradient.channels_last else shape


def _check_argmax(facts: Facts, gradient: PoolGradient) -> None:
    """The indices are those that `pool` records, in the stated numbering."""
    pool, argmax = gradient.pool, gradient.argmax
    if not argmax.name:
        unrecorded = pool is not None and pool.is_a("MaxPool") and pool.output(1) is None
        if not unrecorded or gradient.numbering is not Numbering.TENSOR:
            raise _malformed(gradient, "it has no indices, and no MaxPool whose Indices output could be added")
        _check_pool(facts, gradient, pool)
    elif (found := find_indices(facts, argmax)) is not None:
        _check_recorded(facts, gradient, found)
    elif pool is not None and (pool.is_a("MaxPool") or not _comes_from(argmax, pool.output(1))):
        raise _malformed(gradient, "the indices '{}' are not those of '{}'", argmax.name, pool.label)


def _check_recorded(facts: Facts, gradient: PoolGradient, found: Indices) -> None:
    """Indices that a MaxPool recorded: of the pool that is named, if one is, and in the stated numbering."""
    if gradient.pool is not None and gradient.pool is not found.pool:
        raise _malformed(gradient, "the indices '{}' are those of '{}'", gradient.argmax.name, found.pool.label)
    if gradient.numbering is not found.numbering:
        raise Refuse(
            Code.INDICES_NUMBERING,
            "'{}' counts inside one {}, the form says {}",
            gradient.argmax.name,
            found.numbering.value,
            getattr(gradient.numbering, "value", gradient.numbering),
        )
    _check_pool(facts, gradient, found.pool)


def _check_pool(facts: Facts, gradient: PoolGradient, pool: Node | None) -> None:
    """The MaxPool has the gradient's windows, and its input the elements of x in x's order."""
    source = pool.input(0) if pool is not None else None
    if pool is None or source is None or facts.pool(pool) != gradient.windows:
        raise _malformed(gradient, "its windows are not those of the pool that recorded the indices")
    _check_shape(facts, Code.MALFORMED_GRADIENT, source, gradient.x_shape)


def _comes_from(value: Value, source: Value | None) -> bool:
    """Whether a value is computed from another one, by a search over at most a few nodes."""
    return source is not None and source in islice(value.ancestors(lambda node: node.inputs), MAX_CHAIN)


def _check_order(gradient: PoolGradient) -> None:
    """A node computes dx, and no operand is computed from dx: the lowered node would read its own result."""
    if gradient.dx.producer is None:
        raise _malformed(gradient, "no node computes it")
    for value in gradient.operands:
        place = _place_in(value.scope, gradient.dx)
        if place is not None and _is_computed_by(value, place):
            raise _malformed(gradient, "'{}' is computed from it", value.name)


def _place_in(scope: Scope, value: Value) -> Node | None:
    """The node of a scope that makes a value, or in whose subgraphs it is made; None where it is made elsewhere."""
    node, inner = value.producer, value.scope
    while inner is not scope:
        if inner.parent is None:
            return None
        node, inner = inner.parent.node(inner.holder), inner.parent
    return node


def _is_computed_by(value: Value, node: Node) -> bool:
    """Whether a value depends on a node of its scope. In a sorted node list only later nodes have to be searched."""
    pending, seen = [value], set[Node]()
    while pending:
        maker = pending.pop().producer
        if maker is node:
            return True
        if maker is not None and maker not in seen and maker.scope is node.scope and maker.position > node.position:
            seen.add(maker)
            pending += [operand for operand in maker.inputs if operand is not None]
    return False
