# SPDX-License-Identifier: Apache-2.0

"""Rewrites of convolutions, pools and padding for GE's ONNX parser; see `rewrites`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from onnx import NodeProto

from poolgrad_lowering.ge.kept_indices import pool_attributes, write_pool
from poolgrad_lowering.ge.values import ValueTypes
from poolgrad_lowering.ge.writer import LAST, Writer
from poolgrad_lowering.model.facts.known import need, require
from poolgrad_lowering.model.ir.dims import Dim

_VOLUME = 3
"""The axes of a convolution whose layout the plugin reads from strides, dilations or pads."""

_UNSET = b"NOTSET"

LARGEST_KERNEL = 255
"""Of Conv2D and its pads and dilations along one axis, as CANN documents them; of all axes of a pool together."""
LARGEST_STRIDE = 63
"""Of Conv2D, and of a 2-D pool on a core."""


def convolution(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> None:
    """ConvTranspose needs kernel_shape, Conv one of four attributes, over three axes of three that have its layout.

    Pads of SAME_LOWER become those of SAME. CANN has no output_padding over three axes: it is less padding at the end.
    """
    kernel = need(kernel_of(node, attributes, writer.types))
    wanted: dict[str, Any] = {} if "kernel_shape" in attributes else {"kernel_shape": kernel}
    if node.op_type == "Conv":
        wanted |= _written_pads(node, {**attributes, "kernel_shape": kernel}, writer.types)
        if len(kernel) == _VOLUME and {"strides", "dilations", "pads"}.isdisjoint([*attributes, *wanted]):
            wanted["strides"] = [1] * _VOLUME
    elif len(kernel) == _VOLUME and attributes.get("auto_pad", _UNSET) == _UNSET and "output_shape" not in attributes:
        extra, pads = attributes.get("output_padding", ()), attributes.get("pads", ())
        ends = [pad - more for pad, more in zip(pads[_VOLUME:], extra, strict=False)]
        if any(extra) and ends and min(ends) >= 0:
            wanted |= {"pads": [*pads[:_VOLUME], *ends], "output_padding": [0] * _VOLUME}
    writer.change(node, wanted)


def max_pool(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> None:
    """The plugins take SAME_LOWER for SAME_UPPER, and that of MaxPool refuses Indices and drops dilations."""
    if not write_pool(node, attributes, writer):
        writer.change(node, _written_pads(node, attributes, writer.types))


def average_pool(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> None:
    """As `max_pool`. Averages of whole planes that are larger than CANN's windows are means, in another order."""
    kernel, sizes = tuple(attributes.get("kernel_shape", ())), writer.types.sizes(node.input[0], 2)
    is_whole = sizes == kernel and not any(attributes.get("pads", ()))
    if is_whole and is_large_average(attributes) and attributes.get("auto_pad", _UNSET) in (_UNSET, b"VALID"):
        writer.reduce("ReduceMean", node.input[0], range(2, 2 + len(kernel)), node.output[0])
    else:
        writer.change(node, _written_pads(node, attributes, writer.types))


def is_large_average(attributes: Mapping[str, Any]) -> bool:
    """Whether the windows or the strides of an average pool are larger than CANN documents."""
    kernel, strides = attributes.get("kernel_shape", ()), attributes.get("strides", ())
    return math.prod(kernel) > LARGEST_KERNEL or max(strides, default=1) > LARGEST_STRIDE


def global_max_pool(node: NodeProto, _: Mapping[str, Any], writer: Writer) -> None:
    """The plugin reduces axis 2 and the last one, and leaves those between them out."""
    rank = need(writer.types.rank(node.input[0]))
    require(rank > 4)
    writer.reduce("ReduceMax", node.input[0], range(2, rank), node.output[0])


def kernel_of(node: NodeProto, attributes: Mapping[str, Any], types: ValueTypes) -> list[int] | None:
    """Return the kernel of a convolution, from its attribute or from the shape of its weight; None if unknown."""
    if "kernel_shape" in attributes:
        return list(attributes["kernel_shape"])
    return list(types.sizes(node.input[1], 2) or ()) or None


def _written_pads(node: NodeProto, attributes: Mapping[str, Any], types: ValueTypes) -> dict[str, Any]:
    """Return the pads of SAME_LOWER as attributes; nothing for another auto_pad or where a size is not known."""
    sizes = types.sizes(node.input[0], 2) or ()
    kernel = tuple(attributes.get("kernel_shape", ()))
    if attributes.get("auto_pad") != b"SAME_LOWER" or len(sizes) != len(kernel):
        return {}
    pool = pool_attributes(attributes, kernel)
    if len(pool.windows) != len(sizes):
        return {}
    windows = [pool.axis(number, Dim(size)) for number, size in enumerate(sizes)]
    pads = [(window.begin, window.end) for window in windows if window is not None]
    return {"auto_pad": "NOTSET", "pads": [pad for side in zip(*pads, strict=True) for pad in side]}


def pad(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> None:
    """The plugin refuses the input `axes`, and only Ascend 950 has a kernel for negative pads."""
    require(writer.opset >= 11)
    rank, pads = need(writer.types.rank(node.input[0])), need(writer.types.numbers(node.input[1]))
    axes = need(writer.types.numbers(node.input[3])) if any(node.input[3:]) else None
    full = _over_all_axes(pads, axes, rank)
    require(axes is not None or min(full, default=0) < 0)
    before, after = full[:rank], full[rank:]
    value = node.input[0]
    if cut := [axis for axis in range(rank) if min(before[axis], after[axis]) < 0]:
        require(attributes.get("mode", b"constant") == b"constant")
        result = node.output[0] if max(full) <= 0 else writer.name(f"{node.output[0]}/cut")
        starts = [max(-before[axis], 0) for axis in cut]
        ends = [after[axis] if after[axis] < 0 else LAST for axis in cut]
        value = writer.slice(value, starts, ends, cut, result)
    if value != node.output[0]:
        widths = writer.vector([max(number, 0) for number in full])
        inputs = [value, widths, *node.input[2:3]]
        writer.change(node, inputs=inputs if inputs[-1] else inputs[:-1])


def _over_all_axes(pads: Sequence[int], axes: Sequence[int] | None, rank: int) -> list[int]:
    """Return pads of every axis, front and back, from those of `axes`, which may be negative."""
    if axes is None:
        return list(pads)
    full = [0] * (2 * rank)
    for number, axis in enumerate(axes):
        full[axis % rank], full[rank + axis % rank] = pads[number], pads[len(axes) + number]
    return full
