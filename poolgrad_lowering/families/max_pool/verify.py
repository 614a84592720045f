# SPDX-License-Identifier: Apache-2.0

"""The checkpoint between match and legality: verifies every `MaxPoolGradient`, whichever form made it.

A form proves that the nodes of its producer compute a pool gradient. The conditions that hold for every gradient are
checked here once: the record is complete, element types agree, shapes are consistent, and the indices are those of the
pool that it names. Known facts of the graph must not contradict the record; unknown ones are the form's task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from onnx import TensorProto

from poolgrad_lowering.analysis.checks import check_shape, mixed_types
from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.analysis.provenance import Indices, Numbering, find_indices
from poolgrad_lowering.diagnostics.codes import Code, Refuse
from poolgrad_lowering.families.gradient import Operand, View
from poolgrad_lowering.families.max_pool.gradient import AdaptiveWindows, MaxPoolGradient, Reduction
from poolgrad_lowering.ir.dims import Dim, Shape, Shown, channels_to_last, differ, fits_reshape, size
from poolgrad_lowering.ir.scopes import MAX_CHAIN, Node, Scope, Value
from poolgrad_lowering.windows.onnx_pool import PoolAttributes

_FIELDS: dict[str, type | tuple[type, ...]] = {
    "x": Operand,
    "grad": Operand,
    "argmax": (Operand, type(None)),
    "dx": Operand,
    "numbering": Numbering,
    "element_type": int,
    "windows": (PoolAttributes, AdaptiveWindows),
    "x_shape": tuple,
    "pooled_shape": tuple,
    "pool": (Node, type(None)),
    "reduction": (Reduction, type(None)),
    "axis": int,
}
_OPERAND_FIELDS: dict[str, type | tuple[type, ...]] = {"value": Value, "view": View, "shape": (tuple, type(None))}


def verify_gradient(facts: Facts, gradient: MaxPoolGradient) -> None:
    """Raises `Refuse` at the first condition that the gradient violates."""
    _check_record(gradient)
    _check_dtypes(facts, gradient)
    _check_shapes(facts, gradient)
    _check_argmax(facts, gradient)
    _check_reduction(gradient)
    _check_order(gradient)


def check_operands(gradient: MaxPoolGradient) -> None:
    """Raises `Refuse` if a node in the place of dx cannot read an operand of a verified gradient.

    Its name denotes another value there, or it needs a new shape that is not known.
    """
    scope = gradient.dx.value.scope
    for value in gradient.operands:
        if scope.resolve(value.name) != value:
            raise Refuse(Code.SHADOWED_NAME, "'{}' is redefined in {}", value.name, scope.path)
    shapes = ((gradient.argmax, gradient.pooled_shape), (gradient.x, gradient.x_shape))
    is_flat = any(
        operand is not None and operand.view is View.FLAT and not fits_reshape(shape) for operand, shape in shapes
    )
    spatial = gradient.x_shape[2:]
    along_axis = gradient.numbering is Numbering.AXIS and len(spatial) > 1
    if is_flat or (along_axis and any(dim.static is None for dim in spatial)):
        what = "'{}' cannot be converted to plane-local indices for {}: sizes are not known"
        raise Refuse(Code.UNKNOWN_SHAPE, what, (gradient.argmax or gradient.x).value.name, Shown(gradient.x_shape))


def _malformed(gradient: MaxPoolGradient, what: str, *values: object) -> Refuse:
    value = getattr(gradient.dx, "value", None)
    name = value.name if isinstance(value, Value) else ""
    return Refuse(Code.MALFORMED_GRADIENT, "the gradient of '{}': " + what, name, *values)


# -- the record alone


def _check_record(gradient: MaxPoolGradient) -> None:
    """Every field is of its type, and the fields describe one pool."""
    _check_fields(gradient, gradient, _FIELDS)
    for name in ("x", "grad", "argmax", "dx"):
        operand = getattr(gradient, name)
        if operand is not None:
            _check_fields(gradient, operand, _OPERAND_FIELDS, f"{name}.")
    if gradient.dx.view is View.FLAT and gradient.dx.shape is None:
        raise _malformed(gradient, "dx.shape is missing")
    for name, shape in (("x_shape", gradient.x_shape), ("pooled_shape", gradient.pooled_shape)):
        if not all(isinstance(dim, Dim) and dim.coefficient >= 0 for dim in shape):
            raise _malformed(gradient, "{} is {}", name, shape)
    rank = len(gradient.x_shape)
    if rank < 2 or differ(gradient.x_shape[:2], gradient.pooled_shape[:2]) or len(gradient.pooled_shape) != rank:
        raise _malformed(
            gradient, "pooled_shape {} does not fit x_shape {}", Shown(gradient.pooled_shape), Shown(gradient.x_shape)
        )
    if isinstance(gradient.windows, PoolAttributes) and len(gradient.windows.kernel) != rank - 2:
        raise _malformed(
            gradient, "windows have {} axes, x_shape is {}", len(gradient.windows.kernel), Shown(gradient.x_shape)
        )
    if gradient.numbering is Numbering.AXIS and not 0 <= gradient.axis < rank - 2:
        raise _malformed(gradient, "{} has no spatial axis {}", Shown(gradient.x_shape), gradient.axis)


def _check_fields(
    gradient: MaxPoolGradient, record: object, kinds: Mapping[str, type | tuple[type, ...]], prefix: str = ""
) -> None:
    for name, kind in kinds.items():
        held = getattr(record, name)
        if not isinstance(held, kind):
            raise _malformed(gradient, "{}{} is {}", prefix, name, type(held).__name__)


# -- the record against the graph


def _check_dtypes(facts: Facts, gradient: MaxPoolGradient) -> None:
    """x, grad and dx have the gradient's element type, as far as known; at least one of the types is known."""
    values = (gradient.x.value, gradient.grad.value, gradient.dx.value)
    types = [facts.element_type(value) for value in values]
    for value, found in zip(values, types, strict=True):
        if found and found != gradient.element_type:
            raise mixed_types(value, found, gradient.x.value, gradient.element_type)
    if not any(types):
        raise Refuse(Code.UNKNOWN_DTYPE, "the element type of '{}' is not known", gradient.x.value.name)
    _check_index_dtype(facts, gradient)


def _check_index_dtype(facts: Facts, gradient: MaxPoolGradient) -> None:
    """Only plane-local indices may be int32: the rewrite computes with others in int64, the type of ONNX's Indices.

    No other type is refused: ORTModule declares the indices of its ATen nodes as float.
    """
    argmax = gradient.argmax
    if argmax is None or gradient.numbering is Numbering.PLANE:
        return
    if facts.element_type(argmax.value) == TensorProto.INT32:
        raise _malformed(gradient, "the indices '{}' are int32, but not plane-local", argmax.value.name)


def _check_shapes(facts: Facts, gradient: MaxPoolGradient) -> None:
    """Every known shape of an operand or of the result is the one in the record, or has as many elements if flat."""
    x_shape, pooled_shape, dx = gradient.x_shape, gradient.pooled_shape, gradient.dx
    if dx.view is View.FLAT and dx.shape is not None and differ((size(dx.shape),), (size(x_shape),)):
        raise Refuse(
            Code.DX_SHAPE, "'{}' has shape {}, but x has shape {}", dx.value.name, Shown(dx.shape), Shown(x_shape)
        )
    _check_shape(facts, Code.MALFORMED_GRADIENT, gradient.x, x_shape)
    if dx.view is View.FLAT and dx.shape is not None:
        check_shape(facts, Code.DX_SHAPE, dx.value, dx.shape)
    else:
        _check_shape(facts, Code.DX_SHAPE, dx, x_shape)
    if gradient.argmax is not None:
        _check_shape(facts, Code.GRAD_SHAPE, gradient.argmax, pooled_shape)
    _check_shape(facts, Code.GRAD_SHAPE, gradient.grad, pooled_shape)


def _check_shape(facts: Facts, code: Code, operand: Operand, shape: Shape) -> None:
    """The operand's value can hold a tensor of this (N, C, spatial…) shape in its view."""
    if operand.view is View.CHANNELS_LAST:
        shape = tuple(shape[axis] for axis in channels_to_last(len(shape)))
    check_shape(facts, code, operand.value, shape, flat=operand.view is View.FLAT)


def _check_argmax(facts: Facts, gradient: MaxPoolGradient) -> None:
    """The indices are those that `pool` records, in the stated numbering."""
    pool = gradient.pool
    argmax = None if gradient.argmax is None else gradient.argmax.value
    if argmax is None:
        unrecorded = pool is not None and pool.is_a("MaxPool") and pool.output(1) is None
        if not unrecorded or gradient.numbering is not Numbering.TENSOR:
            raise _malformed(gradient, "it has no indices, and no MaxPool whose Indices output could be added")
        _check_pool(facts, gradient, pool)
    elif (found := find_indices(facts, argmax)) is not None:
        _check_recorded(facts, gradient, argmax, found)
    elif pool is not None and (pool.is_a("MaxPool") or not _comes_from(argmax, pool.output(1))):
        raise _malformed(gradient, "the indices '{}' are not those of '{}'", argmax.name, pool.label)


def _check_reduction(gradient: MaxPoolGradient) -> None:
    """It is a ReduceMax and an ArgMax of one scope, and the indices are computed from those of the ArgMax."""
    reduction = gradient.reduction
    if reduction is None:
        return
    node, recorder = reduction.node, reduction.recorder
    are_maxima = node.is_a("ReduceMax") and recorder.is_a("ArgMax") and node.scope is recorder.scope
    argmax = gradient.argmax
    if not are_maxima or argmax is None or not _comes_from(argmax.value, recorder.output(0)):
        raise _malformed(gradient, "its reduction is not the ReduceMax and the ArgMax that recorded the indices")


def _check_recorded(facts: Facts, gradient: MaxPoolGradient, argmax: Value, found: Indices) -> None:
    """The MaxPool that recorded the indices is `pool`, if the record names one, and the numbering is as stated."""
    if gradient.pool is not None and gradient.pool is not found.pool:
        raise _malformed(gradient, "the indices '{}' come from '{}'", argmax.name, found.pool.label)
    if gradient.numbering is not found.numbering:
        what = "'{}' is numbered per {}, but the form says per {}"
        raise Refuse(Code.INDICES_NUMBERING, what, argmax.name, found.numbering.value, gradient.numbering.value)
    _check_pool(facts, gradient, found.pool)


def _check_pool(facts: Facts, gradient: MaxPoolGradient, pool: Node | None) -> None:
    """The MaxPool has the gradient's windows, and its input has the shape of x."""
    source = pool.input(0) if pool is not None else None
    if pool is None or source is None or facts.pool(pool) != gradient.windows:
        raise _malformed(gradient, "its windows are not those of the pool that recorded the indices")
    check_shape(facts, Code.MALFORMED_GRADIENT, source, gradient.x_shape)


def _comes_from(value: Value, source: Value | None) -> bool:
    """Whether a value is computed from `source`; the search stops after `MAX_CHAIN` values."""
    return source is not None and source in islice(value.ancestors(lambda node: node.inputs), MAX_CHAIN)


def _check_order(gradient: MaxPoolGradient) -> None:
    """A node computes dx, and no operand is computed from dx: the lowered node would use its own result."""
    if gradient.dx.value.producer is None:
        raise _malformed(gradient, "no node computes it")
    for value in gradient.operands:
        place = _place_in(value.scope, gradient.dx.value)
        if place is not None and _is_computed_by(value, place):
            raise _malformed(gradient, "'{}' is computed from it", value.name)


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
