# SPDX-License-Identifier: Apache-2.0

"""`MaxPoolGradient`, the record of a gradient of a max pool that every form returns; what must hold of it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from onnx import TensorProto

from poolgrad_lowering.compiler.analysis.provenance import Indices, Numbering, find_indices
from poolgrad_lowering.compiler.families.gradient import Gradient, Operand, View
from poolgrad_lowering.compiler.families.shared import checks
from poolgrad_lowering.dialect.op import Maximum
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.dims import Shape, Shown, fits_reshape
from poolgrad_lowering.model.ir.scopes import MAX_CHAIN, Node, Value


class Reduction(NamedTuple):
    """What is known of a forward pool that two nodes of one scope compute: ReduceMax, and ArgMax, the `recorder`.

    `order` is the function body that compares the elements of a window in the order of the ReduceMax; None if there is
    none. `y_shape` is the shape of the pooled tensor, None if it is not known.
    """

    recorder: Node
    order: Maximum | None
    y_shape: Shape | None


@dataclass(frozen=True, kw_only=True)
class MaxPoolGradient(Gradient):
    """A proven gradient of a max pool: `dx = 0; dx[n, c].flat[index[n, c, o]] += grad[n, c, o]`.

    * `grad`: the incoming gradient, of shape `pooled_shape`
    * `dx`: what the lowered node computes, of shape `x_shape`
    * `element_type`: the `TensorProto.DataType` of x, `grad` and `dx`
    * `windows`: the MaxPool's attributes, or `AdaptiveWindows`
    * `x_shape`, `pooled_shape`: the shapes of x and of the pooled output, (N, C, spatial…), with symbols
    * `x`: the pooled input, of shape `x_shape`
    * `argmax`: the recorded indices, int32 or int64, of shape `pooled_shape`; `numbering` says what they count (AXIS:
      positions along spatial axis `axis`). None if `pool` has no Indices output yet: the rewrite adds the output
    * `pool`: the node that computes the pooled tensor (its first output) and the recorded indices (its second); or a
      ReduceMax with a `reduction`; None if it is not known
    * `reduction`: that an ArgMax records the indices, and how; None if the pool does
    """

    x: Operand
    argmax: Operand | None
    numbering: Numbering
    axis: int = 0
    reduction: Reduction | None = None

    @property
    def recording_pool(self) -> Node | None:
        """The pool, if it is known and records the indices itself."""
        return self.pool if self.reduction is None else None

    @property
    def known_argmax(self) -> Operand:
        """The argmax of a gradient that has one: every one, once the rewrite has named the outputs that it adds."""
        if self.argmax is None:
            raise ValueError(f"the indices of '{self.dx.value.name}' have no name yet")
        return self.argmax

    @cached_property
    def selected_by(self) -> Hashable:
        """The windows, the shapes and the element type: what the operator of its pool depends on too."""
        windows = repr(self.windows)  # of another package's form, which may have lists in it
        return windows, self.x_shape, self.pooled_shape, self.element_type

    @property
    def operands(self) -> tuple[Value, ...]:
        """The values that the lowered node uses: x, grad and, if it is there yet, argmax."""
        used = (self.x, self.grad, self.argmax)
        return tuple(operand.value for operand in used if operand is not None)


def verify_gradient(facts: Facts, gradient: MaxPoolGradient) -> None:
    """Raises `Refuse` at the first condition that the gradient violates."""
    checks.check_record(gradient)
    checks.check_pool(gradient)
    if gradient.numbering is Numbering.AXIS and not 0 <= gradient.axis < len(gradient.x_shape) - 2:
        raise checks.malformed(gradient, "{} has no spatial axis {}", Shown(gradient.x_shape), gradient.axis)
    checks.check_element_types(facts, gradient, gradient.x.value, gradient.grad.value, gradient.dx.value)
    _check_index_type(facts, gradient)
    checks.check_operand_shape(facts, Code.MALFORMED_GRADIENT, gradient.x, gradient.x_shape)
    checks.check_result(facts, gradient)
    for operand in (gradient.argmax, gradient.grad):
        if operand is not None:
            checks.check_operand_shape(facts, Code.GRAD_SHAPE, operand, gradient.pooled_shape)
    _check_argmax(facts, gradient)
    _check_reduction(gradient)
    checks.check_order(gradient)


def check_operands(gradient: MaxPoolGradient) -> None:
    """Raises `Refuse` if a node in the place of dx cannot read an operand of a verified gradient.

    Its name denotes another value there, or it needs a new shape that is not known.
    """
    checks.check_names(gradient)
    shapes = ((gradient.argmax, gradient.pooled_shape), (gradient.x, gradient.x_shape))
    is_flat = any(
        operand is not None and operand.view is View.FLAT and not fits_reshape(shape) for operand, shape in shapes
    )
    spatial = gradient.x_shape[2:]
    along_axis = gradient.numbering is Numbering.AXIS and len(spatial) > 1
    if is_flat or (along_axis and any(dim.static is None for dim in spatial)):
        what = "'{}' cannot be converted to plane-local indices for {}: sizes are not known"
        raise Refuse(Code.UNKNOWN_SHAPE, what, (gradient.argmax or gradient.x).value.name, Shown(gradient.x_shape))


def _check_index_type(facts: Facts, gradient: MaxPoolGradient) -> None:
    """Only plane-local indices may be int32: the rewrite computes with others in int64, the type of ONNX's Indices.

    No other type is refused: ORTModule declares the indices of its ATen nodes as float.
    """
    argmax = gradient.argmax
    if argmax is None or gradient.numbering is Numbering.PLANE:
        return
    if facts.element_type(argmax.value) == TensorProto.INT32:
        raise checks.malformed(gradient, "the indices '{}' are int32, but not plane-local", argmax.value.name)


def _check_argmax(facts: Facts, gradient: MaxPoolGradient) -> None:
    """The indices are those that the pool records, in the stated numbering."""
    pool = gradient.recording_pool
    argmax = None if gradient.argmax is None else gradient.argmax.value
    if argmax is None:
        unrecorded = pool is not None and pool.is_a("MaxPool") and pool.output(1) is None
        if not unrecorded or gradient.numbering is not Numbering.TENSOR:
            raise checks.malformed(gradient, "it has no indices, and no MaxPool whose Indices output could be added")
        _check_pool(facts, gradient, pool)
    elif (found := find_indices(facts, argmax)) is not None:
        _check_recorded(facts, gradient, argmax, found)
    elif pool is not None and (pool.is_a("MaxPool") or not _comes_from(argmax, pool.output(1))):
        raise checks.malformed(gradient, "the indices '{}' are not those of '{}'", argmax.name, pool.label)


def _check_reduction(gradient: MaxPoolGradient) -> None:
    """It is a ReduceMax and an ArgMax of one scope, and the indices are computed from those of the ArgMax."""
    reduction = gradient.reduction
    if reduction is None:
        return
    pool, recorder, argmax = gradient.pool, reduction.recorder, gradient.argmax
    are_maxima = (
        pool is not None and pool.is_a("ReduceMax") and recorder.is_a("ArgMax") and pool.scope is recorder.scope
    )
    if not are_maxima or argmax is None or not _comes_from(argmax.value, recorder.output(0)):
        raise checks.malformed(gradient, "its reduction is not the ReduceMax and the ArgMax that recorded the indices")


def _check_recorded(facts: Facts, gradient: MaxPoolGradient, argmax: Value, found: Indices) -> None:
    """The MaxPool that recorded the indices is `pool`, if the record names one, and the numbering is as stated."""
    if gradient.recording_pool not in (None, found.pool):
        raise checks.malformed(gradient, "the indices '{}' come from '{}'", argmax.name, found.pool.label)
    if gradient.numbering is not found.numbering:
        what = "'{}' is numbered per {}, but the form says per {}"
        raise Refuse(Code.INDICES_NUMBERING, what, argmax.name, found.numbering.value, gradient.numbering.value)
    _check_pool(facts, gradient, found.pool)


def _check_pool(facts: Facts, gradient: MaxPoolGradient, pool: Node | None) -> None:
    """The MaxPool has the gradient's windows, and its input has the shape of x."""
    source = pool.input(0) if pool is not None else None
    if pool is None or source is None or facts.pool(pool) != gradient.windows:
        raise checks.malformed(gradient, "its windows are not those of the pool that recorded the indices")
    checks.check_shape(facts, Code.MALFORMED_GRADIENT, source, gradient.x_shape)


def _comes_from(value: Value, source: Value | None) -> bool:
    """Whether a value is computed from `source`; the search stops after `MAX_CHAIN` values."""
    return source is not None and source in islice(value.ancestors(lambda node: node.inputs), MAX_CHAIN)
