# SPDX-License-Identifier: Apache-2.0

"""Forward pools that are written as a ReduceMax and an ArgMax over the same windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient, Reduction
from poolgrad_lowering.compiler.families.max_pool.matching.axis_maximum import FirstMaximum
from poolgrad_lowering.compiler.families.max_pool.matching.views import view_sources
from poolgrad_lowering.dialect.op import Maximum
from poolgrad_lowering.model.diagnostics.codes import Refusal, attempt
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.shape_rules import static_integers
from poolgrad_lowering.model.ir.attributes import boolean, integers
from poolgrad_lowering.model.ir.dims import Dim, Shape, size
from poolgrad_lowering.model.ir.scopes import Node, Value


def with_whole_reduction(facts: Facts, gradient: MaxPoolGradient, recorder: Node | None) -> MaxPoolGradient:
    """The gradient with its `reduction`, if there is one; `recorder` is an ArgMax over whole axes of x."""
    found = _find(facts, gradient, recorder)
    if found is None or recorder is None:
        return gradient
    pool, y_shape, after = found
    order = Maximum.WHOLE if bool(after) == bool(_after_window(gradient.pooled_shape[2:])) else None
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
        for node, axes, shape in _reductions(facts, maximum):
            if _is_defined(gradient.x.value, node) and _same_windows(shape, axes, maximum):
                break
        else:
            return None
    facts.depend_on(reads)  # on what proves nothing, nothing depends
    return node, facts.shape(node.output(0)), shape[axes[-1] + 1 :]


def _reductions(facts: Facts, maximum: FirstMaximum) -> Iterator[tuple[Node, range, Shape]]:
    """The ReduceMax nodes over views of an ArgMax's data: the node, its axes, and the shape of what it reduces.

    Only adjacent axes that are constant count.
    """
    for source in view_sources(facts, maximum.data):
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


def _same_windows(shape: Shape, axes: range, maximum: FirstMaximum) -> bool:
    """Whether a reduction of a view, of this shape, is over the elements that the ArgMax is over."""
    parts = (shape[: axes[0]], shape[axes[0] : axes[-1] + 1], shape[axes[-1] + 1 :])
    axis = maximum.axis
    searched = (maximum.shape[:axis], maximum.shape[axis : axis + 1], maximum.shape[axis + 1 :])
    return [size(part) for part in parts] == [size(part) for part in searched]


def _is_defined(x: Value, node: Node) -> bool:
    """Whether a node can read x."""
    producer = x.producer
    earlier = producer is None or producer.scope is not node.scope or producer.position < node.position
    return earlier and node.scope.resolve(x.name) == x


def _after_window(pooled: Shape) -> Shape:
    """The sizes after the last axis that is pooled to one element, of which there is one at least.

    The body leaves them where they are.
    """
    ones = [axis for axis, extent in enumerate(pooled) if extent == Dim(1)]
    return pooled[ones[-1] + 1 :]
