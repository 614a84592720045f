# SPDX-License-Identifier: Apache-2.0

"""`dx[n].flat[argmax[n, o, c]] += dy[n, o, c]`, argmax = (h·W + w)·C + c, plus n·H·W·C if the batch is counted.

Graph: TensorFlow's operator, which tf2onnx cannot convert and leaves in the model. It converts the forward pool to a
MaxPool between Transposes, and writes the arithmetic that turns its Indices into TensorFlow's numbering.

    y, Indices = MaxPool(Transpose(x))
    argmax = Transpose(Indices) mod (H·W) · C + c        # as int32 between Casts, or at the end
    dx = MaxPoolGradWithArgmax(x, dy, argmax)

What must hold: argmax is exactly that sum, of the Indices of a MaxPool over x with the same windows, and int32 holds
all that is cast to it. The lowered node takes the Indices themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from poolgrad_lowering.compiler.families.gradient import form
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.max_pool.matching.backward_ops import behind_casts, tensorflow_gradient
from poolgrad_lowering.compiler.families.shared.matching import Arranged, arranged, gradient_operator
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.known import by_rule, need, require
from poolgrad_lowering.model.ir.attributes import attribute, integer
from poolgrad_lowering.model.ir.dims import Dim, Shape, channels_to_last, size
from poolgrad_lowering.model.ir.producers import TENSORFLOW_DOMAINS
from poolgrad_lowering.model.ir.scopes import Node, Value

_RANK = 4  # TensorFlow has the operator for two spatial axes and channels last only
_MAX_DEPTH = 8
_ARITHMETIC = ("Add", "Cast", "Mul", "Mod", "Transpose", "Identity")
_INT32 = 1 << 31
_POSITION, _CHANNEL, _BATCH = "position", "channel", "batch"

Coefficients = dict[str, Dim]
"""An index as a sum: the factors of the position in the plane, of the channel and of the batch, by the term's name."""


@form(
    *((domain, "MaxPoolGradWithArgmax") for domain in TENSORFLOW_DOMAINS),
    summary="TensorFlow through tf2onnx: MaxPoolGradWithArgmax (x, dy, argmax), argmax made from a MaxPool's Indices",
    priority=30,
)
def match(facts: Facts, node: Node) -> MaxPoolGradient | None:
    """The gradient that a MaxPoolGradWithArgmax node computes; raises `Refuse` where it cannot be lowered.

    None for a call of the model's own function.
    """
    if facts.is_function(node):
        return None
    x, grad, argmax = node.input(0), node.input(1), node.input(2)
    if x is None or grad is None or argmax is None:
        raise Refuse(Code.ARITY, "MaxPoolGradWithArgmax '{}' lacks an input", node.label)
    operator = gradient_operator(facts, node)
    if not operator.channels_last:
        raise Refuse(Code.POOL_ATTRIBUTES, "MaxPoolGradWithArgmax '{}' is not channels last", node.label)
    pool = _pool_behind(argmax)
    if pool is None:
        raise Refuse(Code.NO_FORWARD_POOL, "'{}' does not come from the Indices of a MaxPool", argmax.name)
    counts_batch = bool(attribute(node, "include_batch_in_index"))
    if not _is_argmax(facts, argmax, pool, counts_batch=counts_batch):
        what = "'{}' is not proven to be the Indices of MaxPool '{}' counted channels last"
        raise Refuse(Code.INDICES_NUMBERING, what, argmax.name, pool.label)
    _check_casts(facts, argmax, pool, counts_batch=counts_batch)
    return tensorflow_gradient(facts, operator, pool, x, grad)


def _check_casts(facts: Facts, argmax: Value, pool: Node, *, counts_batch: bool) -> None:
    """Raise `Refuse` if a Cast to int32 may not hold what it gets: the Indices, or a part of the sum."""
    shape = facts.shape(pool.input(0)) or ()
    for reached in argmax.ancestors(_terms):
        cast = reached.producer
        if cast is None or not cast.is_a("Cast") or integer(cast, "to") != TensorProto.INT32:
            continue
        makers = (behind.producer for behind in reached.ancestors(_terms))
        is_part = any(maker is not None and maker.is_a("Mod") for maker in makers)
        count = size(shape[1:] if is_part and not counts_batch else shape).static
        if count is None or count > _INT32:
            what = "Cast '{}' may cut the Indices of MaxPool '{}' short"
            raise Refuse(Code.INDICES_ALTERED, what, cast.label, pool.label)


def _terms(node: Node) -> Sequence[Value | None]:
    """The inputs of a node of the arithmetic."""
    return node.inputs if node.is_a(*_ARITHMETIC) else ()


def _pool_behind(argmax: Value) -> Node | None:
    """The MaxPool whose Indices go into the arithmetic."""
    for reached in argmax.ancestors(_terms):
        node = reached.producer
        if node is not None and node.is_a("MaxPool"):
            return node if reached == node.output(1) else None
    return None


def _is_argmax(facts: Facts, argmax: Value, pool: Node, *, counts_batch: bool) -> bool:
    """Whether `argmax` is `(h·W + w)·C + c` of the pool's maxima, plus `n·H·W·C` where the batch is counted.

    Optimisers remove the number of the only channel or image, which is zero.
    """
    shape = facts.shape(pool.input(0))
    if shape is None or len(shape) != _RANK:
        return False
    expected = {_POSITION: shape[1], _CHANNEL: Dim(1)} | ({_BATCH: size(shape[1:])} if counts_batch else {})
    found = by_rule(_coefficients, facts, argmax, pool, shape, _MAX_DEPTH)
    only = {name for name, count in ((_CHANNEL, shape[1]), (_BATCH, shape[0])) if count.static == 1}
    return found is not None and _without(found, only) == _without(expected, only)


def _without(coefficients: Coefficients, names: set[str]) -> Coefficients:
    return {name: coefficient for name, coefficient in coefficients.items() if name not in names}


def _coefficients(facts: Facts, value: Value, pool: Node, x_shape: Shape, depth: int) -> Coefficients:
    """The terms whose sum `value` is; a rule that applies if it is one, and not deeper than converters write."""
    value = behind_casts(value)
    node = value.producer
    if node is None or not node.is_a("Add", "Mul"):
        return _counted(facts, value, pool, x_shape)
    require(depth)
    left, right = map(need, (node.input(0), node.input(1)))
    if node.is_a("Mul"):
        if facts.integers(right) is None:
            left, right = right, left
        factor = need(facts.integers(right))
        require(len(factor) == 1)
        part = _coefficients(facts, left, pool, x_shape, depth - 1)
        return {name: size((coefficient, *factor)) for name, coefficient in part.items()}
    first, second = (_coefficients(facts, each, pool, x_shape, depth - 1) for each in (left, right))
    require(first.keys().isdisjoint(second))
    return first | second


def _counted(facts: Facts, value: Value, pool: Node, x_shape: Shape) -> Coefficients:
    """What a tensor that broadcasts over (N, H, W, C) counts."""
    constant = facts.constant(value)
    if constant is not None:
        return _tabulated(constant, x_shape)
    node = need(value.origin.producer)
    source, second = need(node.input(0)), facts.integers(node.input(1))
    if node.is_a("Mod"):
        behind = arranged(behind_casts(source), _RANK)
        recorded = Arranged(Value(pool.scope, pool.proto.output[1]), tuple(channels_to_last(_RANK)))
        in_order = Arranged(behind_casts(behind.value), behind.axes) == recorded
        require(in_order and second == (size(x_shape[2:]),))
        return {_POSITION: Dim(1)}
    along_batch = second == (Dim(1), Dim(2), Dim(3))
    require(node.is_a("Unsqueeze") and along_batch and _is_range(facts, source, x_shape[0]))
    return {_BATCH: Dim(1)}


def _tabulated(table: np.ndarray[Any, Any], x_shape: Shape) -> Coefficients:
    """What a constant counts: the channels, or the images in equal steps, where an optimiser has computed these."""
    images, channels = x_shape[0].static, x_shape[1].static
    if channels is not None and np.array_equal(table, np.arange(channels)):
        return {_CHANNEL: Dim(1)}
    require(images is not None and images > 1 and table.shape == (images, 1, 1, 1))
    step = int(table[1, 0, 0, 0])
    require(np.array_equal(table.ravel(), np.arange(len(table)) * step))
    return {_BATCH: Dim(step)}


def _is_range(facts: Facts, value: Value, count: Dim) -> bool:
    """Whether it is 0, 1, … count − 1."""
    node = behind_casts(value).producer
    if node is None or not node.is_a("Range"):
        return False
    bounds = [facts.integers(node.input(position)) for position in range(3)]
    return bounds == [(Dim(0),), (count,), (Dim(1),)]
