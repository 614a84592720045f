# SPDX-License-Identifier: Apache-2.0

"""Warns of kernels that are larger than Ascend's convolutions document."""

from __future__ import annotations

import warnings

import onnx
from onnx import NodeProto

from poolgrad_lowering.torch import names

LARGEST_KERNEL = {1: 255, 2: 255, 3: 511}
"""The largest size of a kernel along an axis, by the number of its axes."""


def warn_of_large_kernels(model: onnx.ModelProto) -> None:
    """Warn of each gradient of a weight that is a convolution with a larger kernel.

    These kernels are as large as what the layer gives, so they grow with the images.
    """
    for node in model.graph.node:
        sizes = _kernel(node)
        if sizes and max(sizes) > LARGEST_KERNEL[len(sizes)]:
            weight = _trained_by(model.graph, node)
            warnings.warn(
                f"the gradient of '{weight}' is a convolution with a kernel of {'x'.join(map(str, sizes))}, and those "
                f"of Ascend take {LARGEST_KERNEL[len(sizes)]} along an axis at most: "
                'export the step with weight_gradient="matmul"',
                UserWarning,
                stacklevel=3,
            )


def _kernel(node: NodeProto) -> list[int]:
    """Return the sizes of a convolution's kernel, none for other nodes."""
    if node.op_type != "Conv":
        return []
    return next((list(attribute.ints) for attribute in node.attribute if attribute.name == "kernel_shape"), [])


def _trained_by(graph: onnx.GraphProto, node: NodeProto) -> str:
    """Return the parameter whose gradient or new value depends on the node. The nodes are in topological order."""
    prefixes = (names.gradient(""), names.new(names.weight("")))
    outputs = {value.name for value in graph.output}
    reached = set(node.output)
    for user in graph.node:
        if not reached.isdisjoint(user.input):
            reached.update(user.output)
    found = [name.removeprefix(prefix) for name in reached & outputs for prefix in prefixes if name.startswith(prefix)]
    return ", ".join(sorted(found)) or node.name
