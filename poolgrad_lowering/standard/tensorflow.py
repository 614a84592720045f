# SPDX-License-Identifier: Apache-2.0

"""TensorFlow's gradients as tf2onnx leaves them: in ONNX's domain, with TensorFlow's attributes and layouts."""

from __future__ import annotations

from poolgrad_lowering.ir.dims import channels_to_last, channels_to_second
from poolgrad_lowering.standard.convolution import Windows, input_gradient, weight_gradient
from poolgrad_lowering.standard.definition import Call, Definition
from poolgrad_lowering.standard.nodes import scalar, transpose
from poolgrad_lowering.windows.axis import AxisWindow

_FILTER_TO_ONNX = [3, 2, 0, 1]
"""The permutation from TensorFlow's filters, (H, W, C, O), to ONNX's weights, (O, C, H, W)."""
_FILTER_FROM_ONNX = [2, 3, 1, 0]


def _windows(call: Call, x_sizes: list[int], counts: list[int], kernel: list[int]) -> list[AxisWindow]:
    """Return the windows of the spatial axes, from TensorFlow's attributes."""
    layout = call.attribute("data_format", "NHWC")
    first = 1 if layout == "NHWC" else 2

    def spatial(name: str) -> list[int]:
        found = call.attribute(name, [1] * 4)
        if len(found) != 4 or min(found) < 1:
            raise call.refuse(f"attribute {name} is {found}")
        return list(found[first : first + 2])

    padding = call.attribute("padding")
    if padding not in ("SAME", "VALID"):
        raise call.refuse(f"padding {padding}")
    windows = []
    for size, count, extent, stride, dilation in zip(
        x_sizes, counts, kernel, spatial("strides"), spatial("dilations"), strict=True
    ):
        total = 0 if padding == "VALID" else max((count - 1) * stride + dilation * (extent - 1) + 1 - size, 0)
        windows.append(AxisWindow(extent, stride, total // 2, total - total // 2, dilation))
    return windows


def _prepared(call: Call, x_shape: list[int], y_shape: list[int], kernel: list[int]) -> Windows:
    """Return the windows with the layouts in ONNX's order; `image` and `outputs` are their names in the body."""
    layout = call.attribute("data_format", "NHWC")
    if layout not in ("NHWC", "NCHW"):
        raise call.refuse(f"data_format {layout}")
    if not len(x_shape) == len(y_shape) == len(kernel) == 4:
        raise call.refuse(f"operands of shapes {x_shape}, {y_shape} and {kernel}")
    spatial, channel = (slice(1, 3), 3) if layout == "NHWC" else (slice(2, 4), 1)
    sizes, counts = x_shape[spatial], y_shape[spatial]
    windows = _windows(call, sizes, counts, kernel[:2])
    if x_shape[channel] % kernel[2]:
        raise call.refuse("a filter whose channels do not divide those of x")
    return Windows(
        "image",
        "outputs",
        channels=x_shape[channel],
        results=kernel[3],
        groups=x_shape[channel] // kernel[2],
        by_axis=windows,
        sizes=sizes,
        counts=counts,
    )


def _to_onnx(call: Call, result: str, source: str) -> str:
    if call.attribute("data_format", "NHWC") == "NHWC":
        return transpose(result, source, channels_to_second(4))
    return f"{result} = Identity({source})\n"


def _from_onnx(call: Call, result: str, source: str) -> str:
    if call.attribute("data_format", "NHWC") == "NHWC":
        return transpose(result, source, channels_to_last(4))
    return f"{result} = Identity({source})\n"


def _backprop_filter(call: Call) -> str:
    kernel = call.integers("filter_sizes") or []
    windows = _prepared(call, call.sizes("x"), call.sizes("dY"), kernel)
    text = _to_onnx(call, "image", "x") + _to_onnx(call, "outputs", "dY") + weight_gradient(windows, "dW_onnx")
    return text + transpose("dW", "dW_onnx", _FILTER_FROM_ONNX)


def _backprop_input(call: Call) -> str:
    sizes = call.integers("input_sizes") or []
    windows = _prepared(call, sizes, call.sizes("dY"), call.sizes("filter"))
    text = transpose("weight", "filter", _FILTER_TO_ONNX) + _to_onnx(call, "outputs", "dY")
    return text + input_gradient(windows, "dX_onnx", "weight") + _from_onnx(call, "dX", "dX_onnx")


def _relu_grad(call: Call) -> str:
    return scalar("zero", 0, call.element_type("Y")) + "active = Greater(Y, zero)\ndX = Where(active, dY, zero)\n"


DEFINITIONS = (
    Definition(
        "Conv2DBackpropFilter",
        "x filter_sizes dY",
        "dW",
        _backprop_filter,
        "as dW of ConvGrad, with TensorFlow's layouts",
        domain="",
    ),
    Definition(
        "Conv2DBackpropInput",
        "input_sizes filter dY",
        "dX",
        _backprop_input,
        "as dX of ConvGrad, with TensorFlow's layouts",
        domain="",
    ),
    Definition("ReluGrad", "dY Y", "dX", _relu_grad, "dY where Y > 0, else 0", domain=""),
)
