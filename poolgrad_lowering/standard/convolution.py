# SPDX-License-Identifier: Apache-2.0

"""The gradients of convolutions, with the names of `model.convolution_bodies`."""

from __future__ import annotations

from poolgrad_lowering.model import convolution_bodies as bodies
from poolgrad_lowering.model.convolution_gradients import ConvolutionWindows
from poolgrad_lowering.model.diagnostics.codes import Refuse
from poolgrad_lowering.model.diagnostics.definition_codes import DefinitionCode
from poolgrad_lowering.model.ir.bodies import Tensor
from poolgrad_lowering.model.ir.dims import Dim, is_static
from poolgrad_lowering.model.windows import AxisWindow, PoolAttributes
from poolgrad_lowering.standard.definition import Call, defines


@defines("ConvGrad", "dX = ConvTranspose(dY, W); dW[o, c, k] = Σ dY[n, o, l] · X[n, c, l·s + k·d − p]; dB = Σ dY")
def _conv_grad(call: Call) -> dict[str, Tensor]:
    windows = _windows(call, transposed=False)
    x, w, dy = map(call.tensor, ("X", "W", "dY"))
    results = {"dX": bodies.input_gradient(windows, dy, w, x)}
    if call.wants("dW"):
        results["dW"] = bodies.weight_gradient(windows, x, dy)
    return {**results, "dB": bodies.summed(dy, [0, *windows.axes])}


@defines("ConvTransposeGrad", "dX = Conv(dY, W); dW[c, o, k] = Σ X[n, c, l] · dY[n, o, l·s + k·d − p]; dB = Σ dY")
def _conv_transpose_grad(call: Call) -> dict[str, Tensor]:
    if call.attribute("output_shape") is not None or call.attribute("auto_pad", "NOTSET") != "NOTSET":
        raise call.refuse("a ConvTransposeGrad with output_shape or auto_pad")
    windows = _windows(call, transposed=True)
    x, w, dy = map(call.tensor, ("X", "W", "dY"))
    results = {"dX": bodies.convolution(windows, dy, w)}
    if call.wants("dW"):
        results["dW"] = bodies.weight_gradient(windows, dy, x)
    return {**results, "dB": bodies.summed(dy, [0, *windows.axes])}


def _windows(call: Call, *, transposed: bool) -> ConvolutionWindows:
    """Return the windows of a node. The gradient's sizes follow from those of X."""
    weight, known = call.sizes("W"), call.shape("X")
    pool = PoolAttributes.read(call.node, kernel=weight[2:])
    groups = call.attribute("group", 1)
    if pool is None or len(known) != len(weight) or not isinstance(groups, int) or groups < 1 or weight[0] % groups:
        raise call.refuse("attributes that are not those of a convolution")
    if list(pool.kernel) != weight[2:]:
        raise call.refuse(f"kernel_shape {list(pool.kernel)} for a weight of {weight}")
    axes = [pool.axis(number, size) for number, size in enumerate(known[2:])]
    windows = [window for window in axes if window is not None]
    if len(windows) < len(axes) or pool.has_ambiguous_pads:
        raise Refuse(DefinitionCode.UNKNOWN_SIZES, "auto_pad with sizes or strides for which its pads are not known")
    sizes = counts = None
    left_over = [_left_over(*axis) for axis in zip(windows, known[2:], strict=True)]
    if is_static(known[2:]):
        sizes = [dim.coefficient for dim in known[2:]]
        counts = [window.output_size(size, ceil=False) for window, size in zip(windows, sizes, strict=True)]
    if transposed:
        left_over = extra = call.attribute("output_padding", [0] * len(windows))
        if len(extra) != len(windows) or any(more >= w.stride for more, w in zip(extra, windows, strict=True) if more):
            raise call.refuse(f"output_padding {extra} with strides {[window.stride for window in windows]}")
        counts = sizes
        if counts is not None:
            ends = zip(windows, counts, extra, strict=True)
            sizes = [window.overhang(0, count) - window.end + more for window, count, more in ends]
    batch = known[0].coefficient if is_static(known[:1]) else None
    return ConvolutionWindows(weight[1] * groups, weight[0], groups, windows, sizes, counts, left_over, batch)


def _left_over(window: AxisWindow, size: Dim) -> int | None:
    """Return how many elements of an axis lie behind its last window; None if that depends on a symbolic size."""
    if is_static((size,)):
        return window.end - window.overhang(size.coefficient, window.output_size(size.coefficient, ceil=False))
    return None if window.stride > 1 else 0
