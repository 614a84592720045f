# SPDX-License-Identifier: Apache-2.0

"""`dX[n, c][window o] = dY[n, c, o] / (the elements of window o)`, where an average pool's windows o do not overlap.

Graph: where the stride is the kernel, each element of dY only has to be repeated: by a Resize or an Upsample to
the nearest element, or by an Expand or a Tile of an axis of size 1 behind each spatial one.

    dX = Resize(mean, scales = [1, 1, kernel…], mode = "nearest", coordinates = "asymmetric", rounded down)
    dX = Reshape(Expand(Reshape(mean, [N, C, H, 1, W, 1]), [N, C, H, kH, W, kW]), shape of X)

What must hold: each element is repeated a whole number of times, and what is repeated, or the result, is divided by the
number of repetitions, a constant. Without this division it enlarges an image, and is no anchor.
"""

from __future__ import annotations

import numpy as np

from poolgrad_lowering.compiler.analysis.constant_values import constant_value
from poolgrad_lowering.compiler.families.avg_pool.gradient import AveragePoolGradient
from poolgrad_lowering.compiler.families.avg_pool.matching.planes import Scale, quotients
from poolgrad_lowering.compiler.families.avg_pool.matching.spread import Spread, average, results, scaled, stages
from poolgrad_lowering.compiler.families.gradient import form
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.known import by_rule, need, require
from poolgrad_lowering.model.ir.attributes import attribute, text
from poolgrad_lowering.model.ir.dims import Dim, Shape, is_static, static_dims
from poolgrad_lowering.model.ir.scopes import Node

_EXACT = {
    ("asymmetric", "floor"): 0,
    ("half_pixel", "round_prefer_floor"): 0,
    ("half_pixel", "round_prefer_ceil"): 0,
    ("pytorch_half_pixel", "round_prefer_floor"): 0,
    ("pytorch_half_pixel", "round_prefer_ceil"): 0,
    ("asymmetric", "round_prefer_floor"): 2,
}
"""The coordinates and rounding that repeat each element alike: any whole number of times (0), or at most this many."""


@form(
    *(("", op_type) for op_type in ("Resize", "Upsample", "Expand", "Tile")),
    summary="Average pools whose windows do not overlap: a divided gradient, repeated by Resize, Expand or Tile",
    priority=50,
)
def match(facts: Facts, node: Node) -> AveragePoolGradient | None:
    """The gradient that repeats a divided value. None for everything else: most such nodes enlarge or broadcast."""
    is_resized = node.is_a("Resize", "Upsample")
    last = node if is_resized else _reshape(node)
    source, result = node.input(0), None if last is None else last.output(0)
    if last is None or source is None or result is None:
        return None
    kernel = by_rule(_resized, facts, node) if is_resized else by_rule(_expanded, facts, node, facts.shape(result))
    if kernel is None:
        return None
    sizes = tuple(dim.coefficient for dim in (facts.shape(result) or ())[-len(kernel) :])
    counts = tuple(extent // taps for extent, taps in zip(sizes, kernel, strict=True))
    axes, pooled = len(kernel), static_dims(counts)
    made = Spread(source, pooled, kernel, kernel, counts, (0,) * axes, sizes, (True,) * axes, Scale(np.ones(1)))
    return average(facts, stages(results(facts, last, made, scaled)), list(quotients(facts, source, counts)))


def _reshape(node: Node) -> Node | None:
    """The Reshape that joins what the node repeats; None if it is read otherwise."""
    result = node.output(0)
    reader = None if result is None else result.only_reader
    return reader if reader is not None and reader.is_a("Reshape") and reader.input(0) == result else None


def _resized(facts: Facts, node: Node) -> tuple[int, ...]:
    """How often a Resize repeats along each of the last axes, from the first one that it enlarges, by a rule."""
    shape, result = map(need, (facts.shape(node.input(0)), facts.shape(node.output(0))))
    is_plain = node.is_a("Upsample") or node.scope.opset < 11
    way = text(node, "coordinate_transformation_mode"), text(node, "nearest_mode")
    most = 0 if is_plain else need(_EXACT.get((str(way[0]), str(way[1]))))
    is_cut = attribute(node, "axes") is not None or attribute(node, "keep_aspect_ratio_policy") not in (None, "stretch")
    require(text(node, "mode") == "nearest" and not is_cut)
    scales, kernel = _scales(facts, node), _ratios(shape, result)
    require(scales is None or scales == [1.0] * (len(shape) - len(kernel)) + list(kernel))
    require(not most or max(kernel) <= most)
    return kernel


def _scales(facts: Facts, node: Node) -> list[float] | None:
    """The scales of all axes; None where sizes stand in their place."""
    if node.is_a("Upsample") and node.scope.opset < 9:
        found = attribute(node, "scales")
        return list(found) if isinstance(found, list) else [0.0]
    operand = node.input(1 if node.is_a("Upsample") or node.scope.opset < 11 else 2)
    if operand is None or facts.shape(operand) == (Dim(0),):
        return None
    values = constant_value(facts, operand)
    return [0.0] if values is None else [float(value) for value in values.flat]


def _ratios(shape: Shape, result: Shape) -> tuple[int, ...]:
    """How often each element is repeated along the last axes, from the first one that grows, by a rule."""
    require(len(shape) == len(result))
    pairs = enumerate(zip(shape, result, strict=True))
    first = next((axis for axis, (one, other) in pairs if one != other), len(shape))
    before, behind = shape[first:], result[first:]
    require(0 < len(before) <= 3 and is_static(before + behind) and 0 not in [dim.coefficient for dim in before])
    ratios = [divmod(each.coefficient, one.coefficient) for one, each in zip(before, behind, strict=True)]
    require(all(ratio and not rest for ratio, rest in ratios))
    return tuple(ratio for ratio, _ in ratios)


def _expanded(facts: Facts, node: Node, joined: Shape | None) -> tuple[int, ...]:
    """How often an Expand or Tile repeats along each of the last axes of `joined`, to which a Reshape joins its result.

    A rule that applies if it repeats single elements, and the last of the axes that are joined.
    """
    shape, result, joined = map(need, (facts.shape(node.input(0)), facts.shape(node.output(0)), joined))
    require(len(shape) == len(result))
    axes = [(dim, one != dim) for one, dim in zip(shape, result, strict=True) if dim != Dim(1)]
    kernel: list[int] = []
    for extent in reversed(joined):
        if not any(is_repeated for _, is_repeated in axes):
            break
        taps = axes.pop()[0] if axes[-1][1] and extent != Dim(1) else Dim(1)
        rest = extent.divided_by(taps)
        while rest not in (None, Dim(1)):
            dim, is_repeated = axes.pop() if axes else (Dim(0), True)
            rest = None if is_repeated or rest is None else rest.divided_by(dim)
        need(rest)
        kernel.insert(0, need(taps.static))
    require(0 < len(kernel) <= 3 and is_static(joined[-len(kernel) :]))
    require(all(one in (dim, Dim(1)) for one, dim in zip(shape, result, strict=True)))
    require(not any(is_repeated for _, is_repeated in axes))
    return tuple(kernel)
