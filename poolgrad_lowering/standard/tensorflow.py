# SPDX-License-Identifier: Apache-2.0

"""TensorFlow's gradients as tf2onnx leaves them: in ONNX's domain, with TensorFlow's attributes and layouts."""

from __future__ import annotations

from collections.abc import Iterable

from poolgrad_lowering.model.convolution_bodies import input_gradient, weight_gradient
from poolgrad_lowering.model.convolution_gradients import ConvolutionWindows, left_over
from poolgrad_lowering.model.ir.bodies import Tensor
from poolgrad_lowering.model.ir.dims import channels_to_last, channels_to_second
from poolgrad_lowering.model.windows import AxisWindow
from poolgrad_lowering.standard.definition import Call, defines

_FILTER_TO_ONNX = [3, 2, 0, 1]
"""The permutation from TensorFlow's filters, (H, W, C, O), to ONNX's weights, (O, C, H, W)."""
_FILTER_FROM_ONNX = [2, 3, 1, 0]
_TO_SECOND = channels_to_second(4)


def _windows(call: Call, spatial: slice, x_sizes: list[int], counts: list[int], kernel: list[int]) -> list[AxisWindow]:
    """Return the windows of the spatial axes, from TensorFlow's attributes."""

    def listed(name: str) -> list[int]:
        found = call.attribute(name, [1] * 4)
        if len(found) != 4 or min(found) < 1:
            raise call.refuse(f"attribute {name} is {found}")
        return list(found[spatial])

    padding = call.attribute("padding")
    if padding not in ("SAME", "VALID"):
        raise call.refuse(f"padding {padding}")
    windows = []
    rows = zip(x_sizes, counts, kernel, listed("strides"), listed("dilations"), strict=True)
    for size, count, extent, stride, dilation in rows:
        window = AxisWindow(extent, stride, 0, 0, dilation)
        total = 0 if padding == "VALID" else max(window.overhang(size, count), 0)
        windows.append(window._replace(begin=total // 2, end=total - total // 2))
    return windows


def _prepared(call: Call, x_shape: list[int], y_shape: list[int], kernel: list[int]) -> ConvolutionWindows:
    """Return the windows with the layouts in ONNX's order."""
    layout = call.attribute("data_format", "NHWC")
    if layout not in ("NHWC", "NCHW"):
        raise call.refuse(f"data_format {layout}")
    if not len(x_shape) == len(y_shape) == len(kernel) == 4:
        raise call.refuse(f"operands of shapes {x_shape}, {y_shape} and {kernel}")
    spatial, channel = (slice(1, 3), 3) if layout == "NHWC" else (slice(2, 4), 1)
    sizes, counts = x_shape[spatial], y_shape[spatial]
    windows = _windows(call, spatial, sizes, counts, kernel[:2])
    if x_shape[channel] % kernel[2]:
        raise call.refuse("a filter whose channels do not divide those of x")
    channels = x_shape[channel]
    return ConvolutionWindows(
        channels,
        kernel[3],
        channels // kernel[2],
        windows,
        sizes,
        counts,
        left_over(windows, sizes, counts),
        x_shape[0],
    )


def _moved(call: Call, source: Tensor, order: Iterable[int]) -> Tensor:
    """Return a value with its axes moved if the channels of operands are last."""
    return source.transpose(order) if call.attribute("data_format", "NHWC") == "NHWC" else source


@defines("Conv2DBackpropFilter", "as dW of ConvGrad, with TensorFlow's layouts", domain="")
def _backprop_filter(call: Call) -> Tensor:
    kernel = call.integers("filter_sizes") or []
    windows = _prepared(call, call.sizes("x"), call.sizes("dY"), kernel)
    image, outputs = (_moved(call, call.tensor(name), _TO_SECOND) for name in ("x", "dY"))
    return weight_gradient(windows, image, outputs).transpose(_FILTER_FROM_ONNX)


@defines("Conv2DBackpropInput", "as dX of ConvGrad, with TensorFlow's layouts", domain="")
def _backprop_input(call: Call) -> Tensor:
    sizes = call.integers("input_sizes") or []
    windows = _prepared(call, sizes, call.sizes("dY"), call.sizes("filter"))
    weight = call.tensor("filter").transpose(_FILTER_TO_ONNX)
    outputs = _moved(call, call.tensor("dY"), _TO_SECOND)
    return _moved(call, input_gradient(windows, outputs, weight), channels_to_last(4))
