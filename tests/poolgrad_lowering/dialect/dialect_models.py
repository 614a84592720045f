# SPDX-License-Identifier: Apache-2.0

"""Models of one dialect node, with its function body: what the tests of the dialect check, infer and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

from poolgrad_lowering.dialect import DOMAIN, VERSION, function_body
from tests.oracles import pool_gradient

Array = npt.NDArray[Any]

DTYPES: dict[int, Any] = {
    TensorProto.FLOAT: np.float32,
    TensorProto.FLOAT16: np.float16,
    TensorProto.BFLOAT16: ml_dtypes.bfloat16,
}
INDEX_DTYPES: dict[int, Any] = {TensorProto.INT32: np.int32, TensorProto.INT64: np.int64}
OP_RANKS = [
    ("MaxPool3DGradWithArgmax", 3),
    ("MaxPool3DGradWithArgmax", 4),
    ("MaxPool3DGradWithArgmax", 5),
    ("MaxPoolGradWithArgmaxV3", 4),
    ("AdaptiveMaxPool3DGrad", 3),
    ("AdaptiveMaxPool3DGrad", 4),
    ("AdaptiveMaxPool3DGrad", 5),
]
"""Every op with every rank it takes."""


def node_attributes(op: str, index_type: int = TensorProto.INT64) -> dict[str, Any]:
    """All attributes of a node, of a 2-wide pool; the gradient does not depend on them."""
    if op == "AdaptiveMaxPool3DGrad":
        return {}
    axes = 3 if op == "MaxPool3DGradWithArgmax" else 2
    window: dict[str, Any] = {name: [2] * axes for name in ("ksize", "strides")}
    window |= {"pads": [0] * axes, "dilation": [1] * axes, "ceil_mode": 0}
    if axes == 3:
        return window | {"data_format": "NCDHW"}
    return window | {"data_format": "NCHW", "dtype": 3 if index_type == TensorProto.INT32 else 9}


def gradient_node(op: str, index_type: int = TensorProto.INT64, **changed: Any) -> onnx.NodeProto:
    """One node x, grad, argmax -> y; a `changed` attribute of None is left out."""
    attributes = {k: v for k, v in (node_attributes(op, index_type) | changed).items() if v is not None}
    return helper.make_node(op, ["x", "grad", "argmax"], ["y"], name="site", domain=DOMAIN, **attributes)


def shapes_of(rank: int) -> tuple[list[str], list[str]]:
    """Symbolic shapes of x and of grad."""
    return (
        ["N", "C", *(f"in{axis}" for axis in range(rank - 2))],
        ["N", "C", *(f"out{axis}" for axis in range(rank - 2))],
    )


def gradient_model(
    op: str,
    opset: int,
    element_type: int = TensorProto.FLOAT,
    index_type: int = TensorProto.INT64,
    rank: int = 4,
) -> onnx.ModelProto:
    """A model of symbolic shapes, at the oldest IR version of `opset`.

    Where the node computes in bfloat16, which onnxruntime's Python interface does not carry, the inputs and outputs of
    the graph are float32.
    """
    x_shape, grad_shape = shapes_of(rank)
    edge = TensorProto.FLOAT if element_type == TensorProto.BFLOAT16 else element_type
    node = gradient_node(op, index_type)
    node.input[:2] = ["x_cast", "grad_cast"]
    node.output[0] = "y_cast"
    nodes = [
        helper.make_node("Cast", ["x"], ["x_cast"], to=element_type),
        helper.make_node("Cast", ["grad"], ["grad_cast"], to=element_type),
        node,
        helper.make_node("Cast", ["y_cast"], ["y"], to=edge),
    ]
    graph = helper.make_graph(
        nodes,
        "one_site",
        [
            helper.make_tensor_value_info("x", edge, x_shape),
            helper.make_tensor_value_info("grad", edge, grad_shape),
            helper.make_tensor_value_info("argmax", index_type, grad_shape),
        ],
        [helper.make_tensor_value_info("y", edge, x_shape)],
    )
    return with_body(graph, op, opset, element_type)


def with_body(graph: onnx.GraphProto, op: str, opset: int, element_type: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """The graph as a model that carries the body of `op`."""
    default = helper.make_opsetid("", opset)
    return helper.make_model(
        graph,
        opset_imports=[default, helper.make_opsetid(DOMAIN, VERSION)],
        functions=[function_body(op, opset, [element_type])],
        ir_version=helper.find_min_ir_version_for([default]),
    )


def expected_y(feeds: Mapping[str, Array]) -> Array:
    """The definition: y[n, c].flat[argmax[n, c, o]] += grad[n, c, o], summed in float32 in row-major order."""
    x, argmax = feeds["x"], feeds["argmax"].astype(np.int64)
    planes = np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *[1] * (x.ndim - 2))
    plane = int(np.prod(x.shape[2:]))
    return pool_gradient(x.shape, feeds["grad"], planes * plane + argmax)


def random_feeds(
    x_shape: Sequence[int],
    grad_shape: Sequence[int],
    dtype: npt.DTypeLike = np.float32,
    index_dtype: npt.DTypeLike = np.int64,
    seed: int = 0,
) -> dict[str, Array]:
    """Random indices, many of them shared, and terms of magnitudes so different that the order of a sum shows."""
    rng = np.random.default_rng(seed)
    plane = max(1, int(np.prod(x_shape[2:])))
    terms = rng.standard_normal(grad_shape) * 10.0 ** rng.integers(-3, 4, grad_shape)
    return {
        "x": rng.standard_normal(x_shape).astype(dtype),
        "grad": terms.astype(dtype),
        "argmax": rng.integers(0, plane, grad_shape).astype(index_dtype),
    }
