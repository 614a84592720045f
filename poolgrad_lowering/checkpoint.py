"""The checkpoint between match and legality: verifies every `PoolGradient`, whichever form made it.

A form proves that the nodes of its producer compute a pool gradient. The conditions that hold for every gradient are
checked here once: the record is complete, element types agree, shapes are consistent, and the indices are those of the
pool that it names. Known facts of the graph must not contradict the record; unknown ones are the form's task.
"""

from __future__ import annotations

from onnx import TensorProto

from poolgrad_lowering.analysis.facts import Facts, type_name
from poolgrad_lowering.analysis.pool import PoolAttributes
from poolgrad_lowering.analysis.provenance import Indices, Numbering, indices
from poolgrad_lowering.diagnostics.codes import Code, Refusal, refuse
from poolgrad_lowering.gradient import AdaptiveWindows, PoolGradient
from poolgrad_lowering.ir.dims import Dim, Shape, Shown, differ, size
from poolgrad_lowering.ir.scopes import Node, Scope, Value

_MAX_SEARCH = 64

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


def verify_gradient(facts: Facts, gradient: PoolGradient) -> Refusal | None:
    """Return the first condition that the gradient violates as a refusal; None if it is sound."""
    return (
        _check_record(gradient)
        or _check_dtypes(facts, gradient)
        or _check_shapes(facts, gradient)
        or _check_argmax(facts, gradient)
        or _check_order(gradient)
    )


def _malformed(gradient: PoolGradient, what: str, *values: object) -> Refusal:
    name = gradient.dx.name if isinstance(gradient.dx, Value) else ""
    return refuse(Code.MALFORMED_GRADIENT, "the gradient of '{}': " + what, name, *values)


# -- the record alone


def _check_record(gradient: PoolGradient) -> Refusal | None:
    """Every field is of its type, and the fields describe one pool."""
    for name, kind in _FIELDS.items():
        if not isinstance(getattr(gradient, name), kind):
            return _malformed(gradient, "{} is {}", name, type(getattr(gradient, name)).__name__)
    for name, shape in (("x_shape", gradient.x_shape), ("pooled_shape", gradient.pooled_shape)):
        if not all(isinstance(dim, Dim) and dim.coefficient >= 0 for dim in shape):
            return _malformed(gradient, "{} is {}", name, shape)
    rank = len(gradient.x_shape)
    if rank < 2 or differ(gradient.x_shape[:2], gradient.pooled_shape[:2]) or len(gradient.pooled_shape) != rank:
        return _malformed(
            gradient, "pooled_shape {} does not fit x_shape {}", Shown(gradient.pooled_shape), Shown(gradient.x_shape)
        )
    if isinstance(gradient.windows, PoolAttributes) and len(gradient.windows.kernel) != rank - 2:
        return _malformed(
            gradient, "windows have {} axes, x_shape is {}", len(gradient.windows.kernel), Shown(gradient.x_shape)
        )
    if gradient.numbering is Numbering.AXIS and not 0 <= gradient.axis < rank - 2:
        return _malformed(gradient, "{} has no spatial axis {}", Shown(gradient.x_shape), gradient.axis)
    return None


# -- the record against the graph


def _check_dtypes(facts: Facts, gradient: PoolGradient) -> Refusal | None:
    """x, grad and dx have the gradient's element type, as far as known; at least one of the types is known."""
    values = (gradient.x, gradient.grad, gradient.dx)
    types = [facts.element_type(value) for value in values]
    for value, found in zip(values, types, strict=True):
        if found and found != gradient.element_type:
            return refuse(
                Code.DTYPE_MIX,
                "'{}' is {}, the pooled input '{}' {}",
                value.name,
                type_name(found),
                gradient.x.name,
                type_name(gradient.element_type),
            )
    if not any(types):
        return refuse(Code.UNKNOWN_DTYPE, "the element type of '{}' is not known", gradient.x.name)
    return _check_index_dtype(facts, gradient)


def _check_index_dtype(facts: Facts, gradient: PoolGradient) -> Refusal | None:
    """Only plane-local indices may be int32: the rewrite computes with others in int64, the type of ONNX's Indices.

    No other type is refused: ORTModule declares the indices of its ATen nodes as float.
    """
    is_int32 = bool(gradient.argmax.name) and facts.element_type(gradient.argmax) == TensorProto.INT32
    if is_int32 and gradient.numbering is not Numbering.PLANE:
        return _malformed(gradient, "the indices '{}' are int32, but not plane-local", gradient.argmax.name)
    return None


def _check_shapes(facts: Facts, gradient: PoolGradient) -> Refusal | None:
    """Every known shape of an operand or of the result is the one in the record, or has as many elements if flat."""
    x_shape, pooled_shape = gradient.x_shape, gradient.pooled_shape
    dx_shape = _arranged(x_shape, gradient) if gradient.dx_shape is None else gradient.dx_shape
    if differ((size(dx_shape),), (size(x_shape),)):
        return refuse(
            Code.DX_SHAPE, "'{}' has shape {}, but x has shape {}", gradient.dx.name, Shown(dx_shape), Shown(x_shape)
        )
    return (
        _check_shape(facts, Code.MALFORMED_GRADIENT, gradient.x, x_shape, flat=gradient.x_is_flat)
        or _check_shape(facts, Code.DX_SHAPE, gradient.dx, dx_shape)
        or _check_shape(facts, Code.GRAD_SHAPE, gradient.argmax, pooled_shape, flat=gradient.argmax_is_flat)
        or _check_shape(
            facts, Code.GRAD_SHAPE, gradient.grad, _arranged(pooled_shape, gradient), flat=gradient.grad_is_flat
        )
    )


def _check_shape(facts: Facts, code: Code, value: Value, expected: Shape, *, flat: bool = False) -> Refusal | None:
    shape = facts.shape(value) if value.name else None
    if shape is None or not (differ((size(shape),), (size(expected),)) if flat else differ(shape, expected)):
        return None
    return refuse(code, "'{}' has shape {}, the pool {}", value.name, Shown(shape), Shown(expected))


def _arranged(shape: Shape, gradient: PoolGradient) -> Shape:
    """Return an (N, C, spatial…) shape in the layout of `grad` and `dx`."""
    return (shape[0], *shape[2:], shape[1]) if gradient.channels_last else shape


def _check_argmax(facts: Facts, gradient: PoolGradient) -> Refusal | None:
    """The indices are those that `pool` records, in the stated numbering."""
    pool, argmax = gradient.pool, gradient.argmax
    if not argmax.name:
        unrecorded = pool is not None and pool.is_a("MaxPool") and pool.output(1) is None
        if unrecorded and gradient.numbering is Numbering.TENSOR:
            return _check_pool(facts, gradient, pool)
        return _malformed(gradient, "it has no indices, and no MaxPool whose Indices output could be added")
    found = indices(facts, argmax)
    if isinstance(found, Indices):
        return _check_recorded(facts, gradient, found)
    if pool is None or (not pool.is_a("MaxPool") and _comes_from(argmax, pool.output(1))):
        return None
    return _malformed(gradient, "the indices '{}' are not those of '{}'", argmax.name, pool.label)


def _check_recorded(facts: Facts, gradient: PoolGradient, found: Indices) -> Refusal | None:
    """The MaxPool that recorded the indices is `pool`, if the record names one, and the numbering is as stated."""
    if gradient.pool is not None and gradient.pool is not found.pool:
        return _malformed(gradient, "the indices '{}' come from '{}'", gradient.argmax.name, found.pool.label)
    if gradient.numbering is not found.numbering:
        return refuse(
            Code.INDICES_NUMBERING,
            "'{}' is numbered per {}, but the form says per {}",
            gradient.argmax.name,
            found.numbering.value,
            getattr(gradient.numbering, "value", gradient.numbering),
        )
    return _check_pool(facts, gradient, found.pool)


def _check_pool(facts: Facts, gradient: PoolGradient, pool: Node | None) -> Refusal | None:
    """The MaxPool has the gradient's windows, and its input has the shape of x."""
    source = pool.input(0) if pool is not None else None
    if pool is None or source is None or facts.pool(pool) != gradient.windows:
        return _malformed(gradient, "its windows are not those of the pool that recorded the indices")
    return _check_shape(facts, Code.MALFORMED_GRADIENT, source, gradient.x_shape)


def _comes_from(value: Value, source: Value | None) -> bool:
    """Whether a value is computed from `source`; the search stops after `_MAX_SEARCH` nodes."""
    pending = [value]
    for _ in range(_MAX_SEARCH):
        if not pending:
            return False
        if pending[0] == source:
            return True
        producer = pending.pop(0).producer
        pending += [operand for operand in producer.inputs if operand is not None] if producer is not None else []
    return False


def _check_order(gradient: PoolGradient) -> Refusal | None:
    """A node computes dx, and no operand is computed from dx: the lowered node would use its own result."""
    if gradient.dx.producer is None:
        return _malformed(gradient, "no node computes it")
    for value in gradient.operands:
        node = _producer_within(value.scope, gradient.dx)
        if node is not None and _is_computed_by(value, node):
            return _malformed(gradient, "'{}' is computed from it", value.name)
    return None


def _producer_within(scope: Scope, value: Value) -> Node | None:
    """Return the node of `scope` that produces the value itself or in a subgraph; None if it is produced elsewhere."""
    node, inner = value.producer, value.scope
    while inner is not scope:
        if inner.parent is None:
            return None
        node, inner = inner.parent.node(inner.holder), inner.parent
    return node


def _is_computed_by(value: Value, node: Node) -> bool:
    """Whether a value depends on `node`, a node of its scope. Nodes are sorted, so only later ones are searched."""
    pending, seen = [value], set[Node]()
    while pending:
        producer = pending.pop().producer
        if producer is node:
            return True
        if producer is None or producer in seen or producer.scope is not node.scope:
            continue
        if producer.position > node.position:
            seen.add(producer)
            pending += [operand for operand in producer.inputs if operand is not None]
    return False
