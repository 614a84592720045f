# SPDX-License-Identifier: Apache-2.0

"""Writers of gradients that are one operator of PyTorch, of a user, or of TensorFlow."""

from __future__ import annotations

import numpy as np

from tests.generators.recorded import Written, max_pool, plane_local
from tests.generators.sites import Pooling
from tests.generators.windows import AdaptiveWindows, AxisWindow, PoolWindows
from tests.generators.writer import Writer

ATEN = "org.pytorch.aten"


def _aten(write: Writer, site: Pooling, name: str, *operands: str, outputs: int = 1) -> list[str]:
    """Write an operator under its own name or as an ATen node."""
    if site.spelling.extra and not name.startswith("max."):
        return write.several(name, outputs, *operands, domain=ATEN)
    operator, _, overload = name.partition(".")
    told = {"overload_name": overload} if overload else {}
    return write.several("ATen", outputs, *operands, domain=ATEN, operator=operator, **told)


def aten_pool(write: Writer, site: Pooling, x: str) -> Written:
    """max_pool{2,3}d_with_indices and its backward, with windows as inputs."""
    windows, stem = site.windows, f"max_pool{site.rank}d_with_indices"
    assert isinstance(windows, PoolWindows)
    is_default = site.spelling.extra and windows.strides == windows.kernel
    strides = np.zeros(0, np.float32) if is_default else windows.strides  # as the older exporter stores no stride
    lists = (windows.kernel, strides, windows.pads[: site.rank], windows.dilations)
    arguments = [*map(write.constant, lists), write.constant(np.array(windows.ceil))]
    y, indices = _aten(write, site, stem, x, *arguments, outputs=2)
    return y, lambda dy: _aten(write, site, f"{stem}_backward", dy, x, *arguments, indices)[0]


def aten_adaptive_pool(write: Writer, site: Pooling, x: str) -> Written:
    """adaptive_max_pool{2,3}d and its backward."""
    assert isinstance(site.windows, AdaptiveWindows)
    stem = f"adaptive_max_pool{site.rank}d"
    y, indices = _aten(write, site, stem, x, write.constant(site.windows.counts), outputs=2)
    return y, lambda dy: _aten(write, site, f"{stem}_backward", dy, x, indices)[0]


def aten_axis(write: Writer, site: Pooling, x: str) -> Written:
    """max.dim and value_selecting_reduction_backward."""
    assert isinstance(site.windows, AxisWindow)
    dim, keep = write.constant(np.array(site.windows.axis)), write.constant(np.array(site.spelling.extra))
    y, indices = _aten(write, site, "max.dim", x, dim, keep, outputs=2)
    name = "value_selecting_reduction_backward"
    return y, lambda dy: _aten(write, site, name, dy, dim, indices, write("Shape", x), keep)[0]


def user_pool(write: Writer, site: Pooling, x: str) -> Written:
    """A user's backward node, with the Indices of a MaxPool or of a user's forward node."""
    windows = site.windows
    assert isinstance(windows, PoolWindows)
    given = {
        "kernel_size": windows.kernel,
        "stride": windows.strides,
        "padding": windows.pads[: site.rank],
        "dilation": windows.dilations,
        "ceil_mode": int(windows.ceil),
    }
    y, indices = max_pool(write, site, x)
    local = plane_local(write, site, x, indices)
    name = f"NPUMaxPool{site.rank}dWithIndicesBackward"
    return y, lambda dy: write(name, dy, x, local, domain="npu", **given)


def tensorflow_pool(write: Writer, site: Pooling, x: str) -> Written:
    """MaxPoolGrad or MaxPool3DGrad (x, y, dy), channels last, as tf2onnx leaves it."""
    y, x_last, y_last = _transposed_pool(write, site, x)[:3]
    name = "MaxPoolGrad" if site.rank == 2 else "MaxPool3DGrad"
    layout = {"data_format": "NHWC" if site.rank == 2 else "NDHWC"}

    def backward(dy: str) -> str:
        operands = (x_last, y_last, _channels_last(write, site, dy))
        return _channels_second(write, site, write(name, *operands, **layout, **_tensorflow_windows(site)))

    return y, backward


def tensorflow_argmax_pool(write: Writer, site: Pooling, x: str) -> Written:
    """MaxPoolGradWithArgmax (x, dy, argmax), with Indices converted to channels last."""
    y, x_last, _, indices = _transposed_pool(write, site, x)
    channels, plane = site.x_shape[1], np.array([site.plane])
    position = write("Mod", _channels_last(write, site, indices), plane)
    argmax = write("Add", write("Mul", position, [channels]), np.arange(channels))
    over_batch = site.spelling.extra and not site.dynamic and write.opset >= 13
    if over_batch:
        batch = write("Range", *(np.array(bound) for bound in (0, site.x_shape[0], 1)))
        argmax = write("Add", argmax, write("Mul", write.unsqueeze(batch, 1, 2, 3), plane * channels))
    counted = {"include_batch_in_index": int(over_batch)}

    def backward(dy: str) -> str:
        operands = (x_last, _channels_last(write, site, dy), argmax)
        windows = _tensorflow_windows(site)
        return _channels_second(write, site, write("MaxPoolGradWithArgmax", *operands, **counted, **windows))

    return y, backward


def _transposed_pool(write: Writer, site: Pooling, x: str) -> tuple[str, str, str, str]:
    """Write the pool as tf2onnx does; returns Y, x and Y with channels last, and the Indices."""
    x_last = _channels_last(write, site, x)
    y, indices = max_pool(write, site, _channels_second(write, site, x_last))
    return y, x_last, _channels_last(write, site, y), indices


def _channels_last(write: Writer, site: Pooling, value: str) -> str:
    return write("Transpose", value, perm=[0, *range(2, site.rank + 2), 1])


def _channels_second(write: Writer, site: Pooling, value: str) -> str:
    return write("Transpose", value, perm=[0, site.rank + 1, *range(1, site.rank + 1)])


def _tensorflow_windows(site: Pooling) -> dict[str, object]:
    windows = site.windows
    assert isinstance(windows, PoolWindows)
    padding = {"NOTSET": "EXPLICIT", "VALID": "VALID", "SAME_UPPER": "SAME"}[windows.auto_pad]
    given: dict[str, object] = {"ksize": [1, *windows.kernel, 1], "strides": [1, *windows.strides, 1]}
    if padding == "EXPLICIT":
        pairs = [pad for axis in windows.axes for pad in (axis.begin, axis.end)]
        given["explicit_paddings"] = [0, 0, *pairs, 0, 0]
    return given | {"padding": padding}
