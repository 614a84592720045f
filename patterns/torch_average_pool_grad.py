# SPDX-License-Identifier: Apache-2.0

"""`dX[n, c][window o] += dY[n, c, o] / divisor(o)`, o running over the windows of an average pool.

Graph: PyTorch's avg_pool2d_backward and avg_pool3d_backward as `poolgrad_lowering.torch` writes them, whose planes are
the batch of a ConvTranspose, with one weight of ones.

    mean = Div(dY, divisors)
    planes = Reshape(mean, [-1, 1, spatial…])
    sums = ConvTranspose(planes, ones[1, 1, kernel…])
    dX = Reshape(Pad(Slice(sums, …), …), shape of X)             # cuts off the padding; zeros behind the last window

Planes may also be groups of (N, C, spatial…). For half types all of it is computed in float32, between two Casts.

What must hold: the weight is constant and all ones, the divisors are constant and those of an average pool over these
windows, and nothing else reads a value in between.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from poolgrad_lowering.analysis.facts import Facts
from poolgrad_lowering.diagnostics.codes import Code, Refuse
from poolgrad_lowering.families.avg_pool.counting import elements
from poolgrad_lowering.families.avg_pool.gradient import AveragePoolGradient
from poolgrad_lowering.families.avg_pool.matching.division import Division, division
from poolgrad_lowering.families.avg_pool.matching.spread import Spread, cropped, results, spread
from poolgrad_lowering.families.gradient import Pattern
from poolgrad_lowering.ir.dims import Shown, static_dims
from poolgrad_lowering.ir.scopes import Node, Value
from poolgrad_lowering.windows.axis import AxisWindow
from poolgrad_lowering.windows.onnx_pool import PoolAttributes


def match(facts: Facts, node: Node) -> AveragePoolGradient | None:
    """The gradient that a ConvTranspose with ones computes; raises `Refuse` where it cannot be lowered.

    None for any other ConvTranspose, and if its input is not divided by constants.
    """
    made = spread(facts, node)
    divided = None if made is None else division(facts, made.source)
    if made is None or divided is None or divided.counts != made.counts:
        return None
    dx, cut = _result(facts, node, made, divided)
    windows, padded, divisor = _windows(node, cut, divided.divisors)
    return divided.gradient(facts, dx, cut.sizes, windows, padded=padded, divisor=divisor)


def _result(facts: Facts, node: Node, made: Spread, divided: Division) -> tuple[Value, Spread]:
    """The last value behind the sums that has the shape of a pooled input and a type that the gradient has."""
    held = [(value, cut) for value, cut in results(facts, node, made, cropped) if divided.fits(facts, value, cut.sizes)]
    if not held:
        what = "no value behind ConvTranspose '{}' has the shape of a pooled input of '{}'"
        raise Refuse(Code.DX_SHAPE, what, node.label, divided.grad.name)
    return held[-1]


def _windows(node: Node, made: Spread, divisors: npt.NDArray[np.float64]) -> tuple[PoolAttributes, bool, int]:
    """The windows with the divisors: as an ONNX pool, whether the padding counts, and the divisor of all windows."""
    pool = _pool(node, made)
    rows = zip(made.kernel, made.strides, pool.begins, pool.ends, made.sizes, made.counts, strict=True)
    axes = [
        (AxisWindow(kernel, stride, begin, end, 1), size, count) for kernel, stride, begin, end, size, count in rows
    ]
    for padded in (False, True):
        counts = functools.reduce(np.multiply.outer, [np.array(elements(*axis, padded=padded)) for axis in axes])
        if np.array_equal(counts, divisors):
            return pool, padded, 0
    first = float(divisors.flat[0])
    if first >= 1 and first.is_integer() and (divisors == first).all():
        return pool, False, int(first)
    what = "the gradient is divided by {}, … before ConvTranspose '{}', its windows have {} elements"
    raise Refuse(Code.AVERAGE_DIVISORS, what, first, node.label, "×".join(map(str, made.kernel)))


def _pool(node: Node, made: Spread) -> PoolAttributes:
    """The windows as an ONNX pool: PyTorch's, whose pads are equal at both ends, or with an end that fits."""
    rows = list(zip(made.kernel, made.strides, made.begins, made.sizes, made.counts, strict=True))
    fitting = tuple(max((count - 1) * stride + kernel - begin - size, 0) for kernel, stride, begin, size, count in rows)
    for ends, ceil in ((made.begins, False), (made.begins, True), (fitting, False)):
        windows = [AxisWindow(*row[:3], end, 1) for row, end in zip(rows, ends, strict=True)]
        counts = [window.output_size(size, ceil=ceil) for window, size in zip(windows, made.sizes, strict=True)]
        if tuple(counts) == made.counts:
            return PoolAttributes.of(windows, ceil=ceil)
    what = "the windows of ConvTranspose '{}' over {} elements are {}, more or fewer than a pool has"
    raise Refuse(Code.OUTPUT_SIZE, what, node.label, Shown(static_dims(made.sizes)), list(made.counts))


PATTERN = Pattern(
    name="torch_average_pool_grad",
    anchors=(("", "ConvTranspose"),),
    summary="PyTorch through poolgrad_lowering.torch: ConvTranspose with a kernel of ones of a divided gradient",
    match=match,
    priority=50,
)
