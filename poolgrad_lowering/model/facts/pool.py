# SPDX-License-Identifier: Apache-2.0

"""Where onnx's inference reads a pool otherwise than runtimes do: windows that they drop, pads that they ignore."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

COUNTED = ("AveragePool", "LpPool", "MaxPool")
"""Pools of ONNX, whose windows `ceil_mode` counts."""


def may_drop_windows(op_type: str, held: Mapping[str, onnx.AttributeProto]) -> bool:
    """Whether runtimes may make fewer windows of a pool than ONNX's shape inference counts.

    With `ceil_mode` the last window may start behind x and the padding before it. Runtimes drop that one, inference
    does not. It can only be there if stride + padding behind > effective kernel. A pool that cannot be read may drop.
    `held` are the attributes of the node, with the values that its function is given.
    """
    ceil, auto_pad = held.get("ceil_mode"), held.get("auto_pad")
    if op_type not in COUNTED or ceil is None or not ceil.i:
        return False
    if auto_pad is not None and auto_pad.s.startswith(b"SAME"):
        return False
    kernel = held["kernel_shape"].ints if "kernel_shape" in held else ()
    rank = len(kernel)
    strides, dilations = (held[name].ints if name in held else [1] * rank for name in ("strides", "dilations"))
    pads = held["pads"].ints if "pads" in held else [0] * 2 * rank
    if not rank or (len(strides), len(dilations), len(pads)) != (rank, rank, 2 * rank):
        return True
    axes = zip(strides, pads[rank:], dilations, kernel, strict=True)
    return any(stride + end > dilation * (taps - 1) + 1 for stride, end, dilation, taps in axes)


def has_ignored_pads(op_type: str, held: Mapping[str, onnx.AttributeProto]) -> bool:
    """Whether runtimes ignore the `pads` of a pool, as `auto_pad` says another thing; ONNX's inference reads them.

    Runtimes refuse a Conv with both.
    """
    auto_pad = held.get("auto_pad")
    is_given = auto_pad is not None and not auto_pad.ref_attr_name and auto_pad.s not in (b"", b"NOTSET")
    return is_given and op_type in COUNTED and "pads" in held


def without_ignored_pads(node: onnx.NodeProto) -> onnx.NodeProto:
    """Return the node, or a copy without `pads` if runtimes ignore them."""
    if not has_ignored_pads(node.op_type, {held.name: held for held in node.attribute}):
        return node
    copied = onnx.NodeProto()
    copied.CopyFrom(node)
    del copied.attribute[:]
    copied.attribute.extend(held for held in node.attribute if held.name != "pads")
    return copied
