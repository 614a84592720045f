# SPDX-License-Identifier: Apache-2.0

"""Matches backward operators that take the pooled input and its plane-local indices.

A form reads the operator and its arguments. The gradient depends on the indices alone, so the forward pool that
recorded them must be found: a forward node that the form knows, or a MaxPool whose Indices were made plane-local.

TensorFlow's operators have the pool's windows as attributes and compute the maxima again from x. A lowered node takes
the Indices of the MaxPool that the converter wrote for the same pool, of the same tensor with the same windows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from onnx import TensorProto

from poolgrad_lowering.compiler.analysis.provenance import Numbering, indices
from poolgrad_lowering.compiler.families.gradient import Operand, View
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.max_pool.matching.forward import ForwardPool, Pooled, forward_pool
from poolgrad_lowering.compiler.families.shared.checks import check_shape, pooled_input_shape, stated_element_type
from poolgrad_lowering.compiler.families.shared.matching import GradientOperator, arranged
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.known import opaque
from poolgrad_lowering.model.ir.attributes import integer
from poolgrad_lowering.model.ir.dims import Shape
from poolgrad_lowering.model.ir.scopes import Node, Value
from poolgrad_lowering.model.windows import AdaptiveWindows, Windows, pooled_sizes


class BackwardOp(NamedTuple):
    """A node `dx = backward(grad, x, indices)` over `rank` spatial axes."""

    node: Node
    grad: Value
    x: Value
    indices: Value
    dx: Value
    rank: int

    @classmethod
    def read(cls, node: Node, rank: int, indices_at: int = 2) -> BackwardOp:
        """The operands: grad, x, and the indices at an input position of their own."""
        grad, x, recorded, dx = node.input(0), node.input(1), node.input(indices_at), node.output(0)
        if grad is None or x is None or recorded is None or dx is None:
            raise Refuse(Code.ARITY, "{} '{}' lacks an operand", node.proto.op_type, node.label)
        return cls(node, grad, x, recorded, dx, rank)


class ForwardOp(NamedTuple):
    """A forward pool that recorded indices: its input and its windows."""

    node: Node
    x: Value
    windows: Windows


ReadForward = Callable[[Facts, Node], ForwardOp | None]
"""Reads a forward node of the form, whose second output are plane-local indices; returns None for other nodes."""


def match_backward_op(
    facts: Facts, backward: BackwardOp, read_forward: ReadForward, windows: Windows | None = None
) -> MaxPoolGradient:
    """Return the gradient that the node computes, which states these windows, if any. Raises `Refuse` if it cannot be
    lowered.
    """
    forward, argmax, numbering = _recorded(facts, backward, read_forward)
    x_shape = pooled_input_shape(facts, backward.x, backward.rank)
    if windows is not None and windows != forward.windows:
        what = "'{}' has other windows than the forward pool '{}'"
        raise Refuse(Code.ATTRIBUTE_MISMATCH, what, backward.node.label, forward.node.label)
    x = backward.x  # the indices are valid for every tensor with the shape of what was pooled
    if x.origin != forward.x.origin and facts.shape(forward.x) != facts.shape(x):
        what = "'{}' is not proven to have the shape of '{}', which '{}' pooled"
        raise Refuse(Code.DX_SHAPE, what, x.name, forward.x.name, forward.node.label)
    pooled_shape = x_shape[:2] + _pooled_sizes(facts, backward, forward, x_shape[2:])
    check_shape(facts, Code.GRAD_SHAPE, backward.indices, pooled_shape)
    element_type = stated_element_type(facts, x, backward.grad, backward.dx)
    pooled = Pooled(x, element_type, x_shape, pooled_shape, forward.windows.attributes, forward.node)
    return pooled.gradient(Operand(backward.grad), Operand(argmax), Operand(backward.dx), numbering)


def check_not_constant(value: Value) -> None:
    """Raise `Refuse` if the indices are stored in the model."""
    maker = value.producer
    stored = value.name not in value.scope.inputs if maker is None else maker.is_a("Constant")
    if stored:
        raise Refuse(Code.CONSTANT_INDICES, "the indices '{}' are a constant", value.name)


def behind_casts(value: Value) -> Value:
    """Return the value that this one copies, also through Casts to int32 and int64."""
    kept = (TensorProto.INT32, TensorProto.INT64)
    return value.behind(lambda node: node.is_a("Identity") or (node.is_a("Cast") and integer(node, "to") in kept))


def _recorded(facts: Facts, backward: BackwardOp, read_forward: ReadForward) -> tuple[ForwardOp, Value, Numbering]:
    """The forward pool behind the indices, and the indices in the pooled shape with their numbering."""
    source = behind_casts(backward.indices)
    check_not_constant(source)
    maker = source.producer
    forward = read_forward(facts, maker) if maker is not None and source == maker.output(1) else None
    if forward is not None:
        return forward, backward.indices, Numbering.PLANE
    found = indices(facts, backward.indices)
    if found.numbering is not Numbering.PLANE:
        what = "'{}' counts over the whole tensor, '{}' inside planes"
        raise Refuse(Code.INDICES_NUMBERING, what, backward.indices.name, backward.node.label)
    pool = forward_pool(facts, found.pool)
    return ForwardOp(pool.node, pool.x, Windows(pool.attributes)), found.argmax, found.argmax_numbering


def _pooled_sizes(facts: Facts, backward: BackwardOp, forward: ForwardOp, spatial: Shape) -> Shape:
    """Return the pooled spatial sizes: as the forward node states them, as its windows give them, or as declared."""
    attributes, stated = forward.windows
    rank = len(spatial)
    shapes = [facts.shape(value) for value in (forward.node.output(0), backward.indices, backward.grad)]
    declared = next((shape[2:] for shape in shapes if shape is not None and len(shape) == rank + 2), None)
    if declared is None:
        declared = tuple(opaque(backward.indices, axis) for axis in range(2, rank + 2))
    if isinstance(attributes, AdaptiveWindows):
        return stated or declared
    computed = pooled_sizes(attributes, spatial)
    return tuple(other if size is None else size for size, other in zip(computed, declared, strict=True))


_FIRST_WITH_INDICES = 8
"""The opset from which ONNX's MaxPool has its second output."""


def tensorflow_gradient(facts: Facts, operator: GradientOperator, pool: Node, x: Value, grad: Value) -> MaxPoolGradient:
    """The gradient of a MaxPool that an operator computes from x and the incoming gradient, in its own layout."""
    node, dx = operator.node, operator.node.output(0)
    if dx is None:
        raise Refuse(Code.ARITY, "{} '{}' has no output", node.proto.op_type, node.label)
    if pool.scope.opset < _FIRST_WITH_INDICES:
        raise Refuse(Code.OPSET, "MaxPool '{}' has no Indices below opset {}", pool.label, _FIRST_WITH_INDICES)
    forward = forward_pool(facts, pool)
    _check_windows(operator, forward)
    rank = len(forward.x_shape)
    if arranged(forward.x, rank) != arranged(x, rank).transposed(operator.to_second):
        order = "channels-last order" if operator.channels_last else "the same order"
        raise Refuse(Code.NO_FORWARD_POOL, "MaxPool '{}' is not over '{}' in {}", pool.label, x.name, order)
    recorded, view = pool.output(1), View.CHANNELS_LAST if operator.channels_last else View.SAME
    argmax = None if recorded is None else Operand(recorded)
    return forward.gradient(Operand(grad, view), argmax, Operand(dx, view), Numbering.TENSOR)


def _check_windows(operator: GradientOperator, forward: ForwardPool) -> None:
    """The MaxPool has the operator's windows, whether its pads are written out or left to `auto_pad`."""
    mine, its = operator.windows, forward.attributes
    if mine == its:
        return
    if len(mine.kernel) == len(its.kernel) and not its.ceil:
        axes = enumerate(forward.x_shape[2:])
        windows = [(mine.axis(number, extent), its.axis(number, extent)) for number, extent in axes]
        if all(own is not None and own == other for own, other in windows):
            return
    what = "the windows of {} '{}' are not proven to be those of MaxPool '{}'"
    raise Refuse(Code.ATTRIBUTE_MISMATCH, what, operator.node.proto.op_type, operator.node.label, forward.node.label)
