# SPDX-License-Identifier: Apache-2.0

"""Rewrites MaxPools with `ceil_mode` so that onnx's shape inference gives the sizes that runtimes compute.

With `ceil_mode` runtimes drop a last window that would start behind the input; inference counts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import onnx
from onnx import ModelProto, NodeProto

from poolgrad_lowering.verification.graph.protos import attribute_values
from poolgrad_lowering.verification.operators.pool import window_count

Sizes = Sequence[int | str | None]
_ONNX_DOMAINS = (onnx.defs.ONNX_DOMAIN, onnx.defs.ONNX_ML_DOMAIN)


def rounds_up(node: NodeProto) -> bool:
    """Whether it is a MaxPool with `ceil_mode` and explicit pads."""
    if node.op_type != "MaxPool" or node.domain not in ("", "ai.onnx"):
        return False
    attributes = attribute_values(node)
    return bool(attributes.get("ceil_mode")) and attributes.get("auto_pad", b"NOTSET") == b"NOTSET"


def without_dropped_windows(node: NodeProto, sizes: Sizes) -> NodeProto | None:
    """Return a pool for which inference counts right over an x with these spatial sizes; None if `node` is one.

    It rounds down, with more padding behind axes whose last window is kept. The node has to round up.
    """
    attributes = attribute_values(node)
    kernel = attributes.get("kernel_shape", [])
    rank = len(kernel)
    strides, dilations = (attributes.get(name, [1] * rank) for name in ("strides", "dilations"))
    pads = list(attributes.get("pads", [0] * 2 * rank))
    if not rank == len(sizes) == len(strides) == len(dilations) == len(pads) // 2:
        return None
    drops = False
    for axis, size in enumerate(sizes):
        if not isinstance(size, int):
            return None
        extent, stride = dilations[axis] * (kernel[axis] - 1) + 1, strides[axis]
        room = size + pads[axis] + pads[rank + axis] - extent
        if room < 0:
            return None  # no window fits
        count = window_count(size, extent, stride, pads[axis], pads[rank + axis], ceil=True)
        drops |= count != -(-room // stride) + 1
        pads[rank + axis] += max(0, (count - 1) * stride - room)
    if not drops:
        return None
    rounded = {**attributes, "ceil_mode": 0, "pads": pads}
    return onnx.helper.make_node("MaxPool", node.input, node.output, domain=node.domain, **rounded)


def is_of_onnx(domain: str, op_type: str) -> bool:
    """Whether ONNX itself has the operator; the process may have registered others."""
    domain = "" if domain == "ai.onnx" else domain
    return domain in _ONNX_DOMAINS and onnx.defs.has(op_type, domain)


def without_claims(model: ModelProto) -> ModelProto:
    """Return a copy without the shapes declared of what ONNX's operators compute: they may be false.

    Nor has it the bounds of Slices: inference ends the process where one is of a negative size, which a window larger
    than its input makes, and which a claim may have hidden; nor pads that runtimes ignore beside `auto_pad`.
    """
    copied = deepcopy(model)
    computed = {name for node in model.graph.node if is_of_onnx(node.domain, node.op_type) for name in node.output}
    del copied.graph.value_info[:]
    copied.graph.value_info.extend(value for value in model.graph.value_info if value.name not in computed)
    for node in copied.graph.node:
        if node.op_type == "Slice":
            node.input[1:] = [""] * (len(node.input) - 1)
            del node.attribute[:]
        elif attribute_values(node).get("auto_pad", b"NOTSET") not in (b"", b"NOTSET"):
            kept = [attribute for attribute in node.attribute if attribute.name != "pads"]
            del node.attribute[:]
            node.attribute.extend(kept)
    for value in copied.graph.output:
        if value.name in computed and value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    return copied
