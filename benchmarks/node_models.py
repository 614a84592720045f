# SPDX-License-Identifier: Apache-2.0

"""Models of many nodes with the same operator, in a chain or in parallel, to measure the overhead of a node.

All windows have one element, so that all values of a model have the same shape and each node does minimal work.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper

from poolgrad_lowering.dialect import DOMAIN, VERSION, function_body
from poolgrad_lowering.dialect.body_windows import onnx_window

GRADIENT, POOL = "MaxPool3DGradWithArgmax", "MaxPool3DWithArgmaxV2"
OPSET = 20
_WINDOW = {
    "ksize": [1, 1, 1],
    "strides": [1, 1, 1],
    "pads": [0, 0, 0],
    "dilation": [1, 1, 1],
    "ceil_mode": 0,
    "data_format": "NCDHW",
}
_IN_ONNX = onnx_window([1, 1], [1, 1], ([0, 0], [0, 0]), [1, 1], ceil=False)


def node_model(op_type: str, count: int, shape: Sequence[int], *, parallel: bool = False) -> onnx.ModelProto:
    """A model of `count` nodes of GRADIENT, POOL, MaxPool with Indices, or an elementwise operator with one input.

    All values are float32 of `shape`, except indices. In a chain each node uses the output of the one before it, and
    the last output is the model's output. With `parallel` all nodes use the same input, and the model has all outputs.
    """
    values = ["value", *(f"made_{number}" for number in range(count))]
    nodes = [_node(op_type, values[0] if parallel else before, after) for before, after in pairwise(values)]
    infos = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in values}
    inputs = [infos.pop("value")]
    if op_type == GRADIENT:
        inputs.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, shape))
        inputs.append(helper.make_tensor_value_info("argmax", TensorProto.INT32, shape))
    outputs = list(infos.values()) if parallel else [infos[values[-1]]]
    inner = [info for info in infos.values() if info not in outputs]
    graph = helper.make_graph(nodes, op_type, inputs, outputs, value_info=inner)
    imports, functions = [helper.make_opsetid("", OPSET)], []
    if nodes[0].domain == DOMAIN:
        imports.append(helper.make_opsetid(DOMAIN, VERSION))
        functions.append(function_body(op_type, OPSET, [TensorProto.FLOAT]))
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=10)


def node_feeds(op_type: str, shape: Sequence[int]) -> dict[str, np.ndarray]:
    """The inputs of `node_model` for this operator and shape, by name."""
    feeds = {"value": np.ones(shape, np.float32)}
    if op_type == GRADIENT:
        plane = np.arange(np.prod(shape[2:]), dtype=np.int32).reshape(shape[2:])
        feeds |= {"x": np.ones(shape, np.float32), "argmax": np.broadcast_to(plane, shape).copy()}
    return feeds


def _node(op_type: str, source: str, made: str) -> NodeProto:
    if op_type == GRADIENT:
        return helper.make_node(op_type, ["x", source, "argmax"], [made], name=made, domain=DOMAIN, **_WINDOW)
    if op_type == POOL:
        return helper.make_node(
            op_type, [source], [made, f"{made}_argmax"], name=made, domain=DOMAIN, dtype=3, **_WINDOW, **_IN_ONNX
        )
    if op_type == "MaxPool":
        return helper.make_node(op_type, [source], [made, f"{made}_indices"], name=made, kernel_shape=[1, 1])
    return helper.make_node(op_type, [source], [made], name=made)
