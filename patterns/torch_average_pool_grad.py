# SPDX-License-Identifier: Apache-2.0

"""`dX[n, c][window o] += dY[n, c, o] / divisor(o)`, o running over the windows of an average pool.

Graph: PyTorch's avg_pool2d_backward and avg_pool3d_backward as `poolgrad_lowering.torch` writes them, whose planes are
the batch of a ConvTranspose, with one weight of ones.

    mean = Div(dY, divisors)
    planes = Reshape(mean, [-1, 1, spatial…])
    sums = ConvTranspose(planes, ones[1, 1, kernel…])
    dX = Reshape(Pad(Slice(sums, …), …), shape of X)             # cuts off the padding; zeros behind the last window

Planes may also be groups of (N, C, spatial…), and dY may have any number of axes before the spatial ones. One divisor
of all windows may also be in the weight or in a Mul, as its reciprocal, or behind the sums; one of 1 is not written.
For half types all of it is computed in float32, between two Casts.

What must hold: weight and divisors are computed from constants, all elements of the weight are equal, the divisors are
those of an average pool over these windows, and nothing else reads a value in between. Of symbolic sizes, those of x
are strides times those of dY, and an AveragePool reads a value that has them. Any other ConvTranspose with
such a weight is no gradient of a pool: an upsampling, for example, whose planes are not divided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from poolgrad_lowering.compiler.analysis.constant_values import constant_value
from poolgrad_lowering.compiler.families.avg_pool.gradient import AveragePoolGradient
from poolgrad_lowering.compiler.families.avg_pool.matching import planes, spread
from poolgrad_lowering.compiler.families.gradient import form
from poolgrad_lowering.model.diagnostics.codes import Code, Refuse
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.attributes import integer
from poolgrad_lowering.model.ir.dims import Shown
from poolgrad_lowering.model.ir.scopes import Node, Value
from poolgrad_lowering.model.windows import PoolAttributes

Weight = npt.NDArray[np.generic]


@form(
    ("", "ConvTranspose"),
    summary="PyTorch through poolgrad_lowering.torch: ConvTranspose with a kernel of ones of a divided gradient",
    priority=50,
)
def match(facts: Facts, node: Node) -> AveragePoolGradient | None:
    """The gradient that a ConvTranspose with equal weights computes; raises `Refuse` where it cannot be lowered.

    None for a ConvTranspose with other weights.
    """
    weight, source = constant_value(facts, node.input(1)), node.input(0)
    if source is None or weight is None or weight.ndim < 3 or not weight.size or (weight != weight.flat[0]).any():
        return None
    _check_weight(facts, node, weight)
    is_whole = _is_of_planes(facts, node, source) or _has_pool(facts, node, list(weight.shape[2:]))
    made = spread.spread(facts, node, weight.shape[2:])
    made = replace(made, scale=made.scale.by(weight.reshape(-1)[:1], divides=False))
    found = spread.stages(spread.results(facts, node, made, spread.changed))
    is_scaled = weight.flat[0] != 1 or found[0][0].scale is not made.scale or _is_scaled(facts, source)
    if not (is_whole or is_scaled):
        raise Refuse(Code.UNRELATED_UPSAMPLING, "ConvTranspose '{}' adds what nothing divides", node.label)
    divided = list(planes.quotients(facts, source, made.counts))
    return spread.average(facts, found, divided) or _with_one_divisor(facts, node, found, divided, is_whole=is_whole)


def _with_one_divisor(
    facts: Facts, node: Node, found: Sequence[spread.Stage], divided: Sequence[planes.Quotient], *, is_whole: bool
) -> AveragePoolGradient:
    """The gradient of a pool with a divisor of its own; raises `Refuse` if there is none.

    Sums of what nothing divides are one only if they are those of all planes of a tensor, or of a pool's windows.
    """
    pools = [(made, values, pool) for made, values in found if (pool := spread.pool_of(made)) is not None]
    if not pools:
        what = "the windows of ConvTranspose '{}' over {} elements are {}, more or fewer than a pool has"
        raise Refuse(Code.OUTPUT_SIZE, what, node.label, list(found[0][0].sizes), list(found[0][0].counts))
    quotient = next((each for each in divided if each.is_divided), divided[0])
    scale = quotient.scale.then(pools[0][0].scale)
    divisors = [quotient.scale.then(made.scale).one_divisor for made, _, _ in pools]
    if not (is_whole or quotient.is_divided) or (divisors[0] is None and not quotient.is_divided):
        what = "what ConvTranspose '{}' adds is divided by {}, and no pool has such windows"
        raise Refuse(Code.UNRELATED_UPSAMPLING, what, node.label, scale.first)
    if divisors[0] is None:
        what = "the gradient is divided by {}, … before ConvTranspose '{}', its windows have {} elements"
        raise Refuse(Code.AVERAGE_DIVISORS, what, scale.first, node.label, "×".join(map(str, pools[0][0].kernel)))
    for (made, values, pool), divisor in zip(pools, divisors, strict=True):
        gradient = spread.written(facts, quotient, made, values, pool, divisor=divisor) if divisor else None
        if gradient is not None:
            return gradient
    what = "no value behind ConvTranspose '{}' has the element type of '{}' and symbolic sizes that a Reshape can keep"
    raise Refuse(Code.DX_SHAPE, what, node.label, quotient.dividends[0].name)


def _check_weight(facts: Facts, node: Node, weight: Weight) -> None:
    """Raise `Refuse` unless each plane of the result comes from one plane, by a factor above 0."""
    shape, bias = facts.shape(node.input(0)), node.input(2)
    is_plain = weight.shape[1] == 1 and integer(node, "group") == weight.shape[0] and float(weight.flat[0]) > 0
    if not is_plain or not (bias is None or facts.is_zero(bias)):
        what = "ConvTranspose '{}' mixes channels, adds a bias, or has weights that are not above 0"
        raise Refuse(Code.UNRELATED_UPSAMPLING, what, node.label)
    if shape is None or len(shape) != weight.ndim or shape[1].static != weight.shape[0]:
        what = "the shape {} of '{}' is not known, or not that of {} channels"
        raise Refuse(Code.UNKNOWN_SHAPE, what, Shown(shape), getattr(node.input(0), "name", ""), weight.shape[0])


def _is_of_planes(facts: Facts, node: Node, source: Value) -> bool:
    """Whether the batch are the planes of a tensor that has them in several axes."""
    return integer(node, "group") == 1 and facts.shape(source.behind(facts.is_view)) != facts.shape(source)


def _has_pool(facts: Facts, node: Node, kernel: list[int]) -> bool:
    """Whether an AveragePool before the node has these windows, and a result of the shape of the node's input."""
    own, shape = PoolAttributes.read(node, kernel), facts.shape(node.input(0))
    pools = map(node.scope.node, node.scope.by_op.get(("", "AveragePool"), ()))
    found = [
        (PoolAttributes.read(pool), facts.shape(pool.output(0))) for pool in pools if pool.position < node.position
    ]
    return own is not None and any(
        (windows.kernel, windows.strides) == (own.kernel, own.strides) and made == shape
        for windows, made in found
        if windows is not None
    )


def _is_scaled(facts: Facts, source: Value) -> bool:
    """Whether a constant scales the planes."""
    producer = planes.held(facts, source)[-1].producer
    return producer is not None and any(planes.scaled_operands(facts, producer))
