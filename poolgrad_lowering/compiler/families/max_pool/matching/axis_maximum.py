# SPDX-License-Identifier: Apache-2.0

"""The maximum over one axis, recorded by ArgMax, as a max pool: a window is the axis and one element of the others.

Along a spatial axis of (N, C, spatial…) it is a max pool of x as it stands. Along any other axis, and of any other
rank, x is seen as [∏before, 1, L, ∏after]: the same elements in row-major order, with a window of [L, 1].

A ReduceMax over the same windows, if there is one, is the forward pool together with the ArgMax.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from poolgrad_lowering.compiler.families.gradient import Operand, View
from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient, Reduction
from poolgrad_lowering.dialect.op import Maximum
from poolgrad_lowering.model.diagnostics.codes import Code, Refusal, Refuse, attempt
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.known import static_integers
from poolgrad_lowering.model.ir.attributes import attribute, boolean, integer, integers
from poolgrad_lowering.model.ir.dims import Dim, Shape, Shown, fits_reshape, size
from poolgrad_lowering.model.ir.scopes import Node, Value

RANKS = (3, 4, 5)
"""Of a pooled input: batch, channels and one to three spatial axes."""


class FirstMaximum(NamedTuple):
    """An ArgMax that selects the first maximum of `data` (of this shape) along `axis` (≥ 0)."""

    node: Node
    data: Value
    shape: Shape
    axis: int

    @classmethod
    def read(cls, facts: Facts, node: Node) -> FirstMaximum:
        """What an ArgMax node computes; raises `Refuse` where it records no indices of a pool."""
        data = node.input(0)
        shape, axis = facts.shape(data), integer(node, "axis")
        if data is None or shape is None or axis is None or not -len(shape) <= axis < len(shape):
            raise Refuse(Code.UNKNOWN_SHAPE, "the shape that ArgMax '{}' reduces is not known", node.label)
        if boolean(node, "keepdims") is None:
            raise Refuse(Code.POOL_ATTRIBUTES, "runtimes differ about keepdims of ArgMax '{}'", node.label)
        # The attribute exists from opset 12; before, runtimes select the first one too.
        if attribute(node, "select_last_index") not in (0, None):
            raise Refuse(Code.LAST_MAXIMUM, "ArgMax '{}' selects the last of equal maxima", node.label)
        return cls(node, data, shape, axis % len(shape))

    def flattened(self, facts: Facts) -> tuple[Value, Shape] | None:
        """The tensor of which each reduced row is an (n, c) plane, and its shape; None if there is none.

        Of the values that the rows are a view of, it is the first one in the graph that has rank 3 to 5 and planes as
        large as a row.
        """
        if self.axis != len(self.shape) - 1:
            return None
        found = None
        for source in list(self.data.origin.sources(facts.is_view))[1:]:
            shape = facts.shape(source)
            if shape is not None and len(shape) in RANKS and size(shape[2:]) == self.shape[-1]:
                found = source, shape
        return found


def reduced_shape(x_shape: Shape, axis: int) -> Shape:
    """The shape of the maxima, in which the axis stays with size 1."""
    return (*x_shape[:axis], Dim(1), *x_shape[axis + 1 :])


def as_max_pool(gradient: MaxPoolGradient, axis: int) -> MaxPoolGradient:
    """The gradient of a maximum over `axis` (≥ 0) as the gradient of a max pool.

    `gradient` has x's own shape, of any rank, as `x_shape` and the maxima's, axis kept, as `pooled_shape`; its `axis`
    is the default 0, as is that of the view. Raises `Refuse` where x needs another shape and is empty, or has several
    symbolic sizes.
    """
    shape = gradient.x_shape
    if axis >= 2 and len(shape) in RANKS:
        return replace(gradient, axis=axis - 2)
    if size(shape).static == 0:
        raise Refuse(Code.EMPTY_WINDOW, "'{}' of shape {} has no element", gradient.x.value.name, Shown(shape))
    if not fits_reshape(shape):
        what = "'{}' of shape {} cannot be folded around axis {}: several sizes are not known"
        raise Refuse(Code.UNKNOWN_SHAPE, what, gradient.x.value.name, Shown(shape), axis)
    folded = (size(shape[:axis]), Dim(1), shape[axis], size(shape[axis + 1 :]))
    return replace(
        gradient,
        x=gradient.x.flat(),
        grad=gradient.grad.flat(),
        argmax=gradient.known_argmax.flat(),
        dx=Operand(gradient.dx.value, View.FLAT, gradient.dx.shape or shape),
        x_shape=folded,
        pooled_shape=reduced_shape(folded, 2),
    )


def with_whole_reduction(facts: Facts, gradient: MaxPoolGradient, recorder: Node | None) -> MaxPoolGradient:
    """The gradient with its `reduction`, if there is one; `recorder` is an ArgMax over whole axes of x."""
    found = _find(facts, gradient, recorder)
    if found is None or recorder is None:
        return gradient
    pool, y_shape, after = found
    # The body leaves the axes where they are that come after the last one that is pooled to one element.
    is_last = gradient.pooled_shape[-1] == Dim(1)
    order = Maximum.WHOLE if bool(after) != is_last else None
    return replace(gradient, pool=pool, reduction=Reduction(recorder, order, y_shape))


def with_gathered_reduction(
    facts: Facts, gradient: MaxPoolGradient, recorder: Node, *, is_adaptive: bool
) -> MaxPoolGradient:
    """The gradient with its `reduction`, if there is one; `recorder` is an ArgMax over windows of x.

    `is_adaptive`: they are those of adaptive pooling, each a row, behind its elements −inf where the longest has more.
    """
    found = _find(facts, gradient, recorder)
    if found is None:
        return gradient
    is_filled = facts.behind_views(recorder.input(0), "Where") is not None
    order = Maximum.FILLED if is_filled else Maximum.GATHERED
    pool, y_shape, _ = found
    return replace(gradient, pool=pool, reduction=Reduction(recorder, order if is_adaptive else None, y_shape))


def _find(facts: Facts, gradient: MaxPoolGradient, recorder: Node | None) -> tuple[Node, Shape | None, Shape] | None:
    """The ReduceMax over the windows of an ArgMax, the shape of its result, and the sizes after the reduced axes.

    What the ArgMax reads is computed from x, so x is defined there.
    """
    if recorder is None:
        return None
    with facts.watched() as reads:
        maximum = attempt(FirstMaximum.read, facts, recorder)
        if isinstance(maximum, Refusal):
            return None
        searched = _parts(maximum.shape, range(maximum.axis, maximum.axis + 1))
        for node, axes, shape in _reductions(facts, maximum):
            if _is_defined(gradient.x.value, node) and _parts(shape, axes) == searched:
                break
        else:
            return None
    facts.depend_on(reads)  # on what proves nothing, nothing depends
    return node, facts.shape(node.output(0)), shape[axes[-1] + 1 :]


def _reductions(facts: Facts, maximum: FirstMaximum) -> Iterator[tuple[Node, range, Shape]]:
    """The ReduceMax nodes over views of an ArgMax's data: the node, its axes, and the shape of what it reduces.

    Only adjacent axes that are constant count.
    """
    for source in maximum.data.sources(facts.is_view):
        shape = facts.shape(source)
        if shape is None:
            continue
        for use in source.uses:
            if use.scope is not maximum.node.scope or use.position < 0:
                continue
            node = use.scope.node(use.position)
            is_maximum = node.is_a("ReduceMax") and node.input(0) == source
            axes = _axes(facts, node, len(shape)) if is_maximum else None
            if axes is not None:
                yield node, axes, shape


def _axes(facts: Facts, node: Node, rank: int) -> range | None:
    """The axes of a ReduceMax, if they are adjacent and every runtime reads its `keepdims` alike."""
    named = integers(node, "axes") or static_integers(facts, node, 1)
    if not named or boolean(node, "keepdims") is None or not all(-rank <= axis < rank for axis in named):
        return None
    axes = sorted({axis % rank for axis in named})
    return range(axes[0], axes[-1] + 1) if len(axes) == axes[-1] - axes[0] + 1 else None


def _parts(shape: Shape, axes: range) -> list[Dim]:
    """The numbers of elements before, along and after some axes; equal ones of views are of the same elements."""
    return [size(shape[: axes.start]), size(shape[axes.start : axes.stop]), size(shape[axes.stop :])]


def _is_defined(x: Value, node: Node) -> bool:
    """Whether a node can read x."""
    producer = x.producer
    earlier = producer is None or producer.scope is not node.scope or producer.position < node.position
    return earlier and node.scope.resolve(x.name) == x
