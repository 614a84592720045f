# SPDX-License-Identifier: Apache-2.0

"""The small networks whose training graphs ort_artifacts.py builds, and their ONNX forward graphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Attributes = Mapping[str, Any]


@dataclass(frozen=True)
class Net:
    """A network of stages, each a convolution with kernels of 3 to 4 channels, a Relu, and a chain of pools.

    `pool` is the operator of the pools.
    `together`: the pools of a stage all pool the Relu's output, and their outputs are concatenated. `batch` and
    `spatial` name symbolic dimensions. `returns_indices`: the last pool's Indices are a graph output. `classifies`: the
    loss is cross entropy over 5 classes, else the mean squared error to a target; both in float32. `runs`: whether
    onnxruntime-training can run the training graph. `refused` counts nodes that must not be lowered, by description.
    """

    remarks: str
    input_shape: tuple[int, ...]
    stages: Sequence[Sequence[Attributes]]
    opset: int = 17
    pool: str = "MaxPool"
    together: bool = False
    batch: str | None = None
    spatial: tuple[str, ...] = ()
    returns_indices: bool = False
    classifies: bool = False
    dtype: int = TensorProto.FLOAT
    runs: bool = True
    refused: Mapping[str, int] = field(default_factory=dict)

    @property
    def pools(self) -> int:
        """The number of pools of the network."""
        return sum(len(stage) for stage in self.stages)


@dataclass
class _Graph:
    """A graph under construction. `value` is the current value; weights are drawn from `random`."""

    random: np.random.Generator
    dtype: np.dtype[Any]
    value: str = "x"
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)

    def add(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        """Append a node and return its outputs, the first of which becomes the current value."""
        names = [f"{op.lower()}{len(self.nodes)}" + "_indices" * k for k in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        self.value = names[0]
        return names

    def weight(self, *shape: int) -> str:
        """Append a random initializer and return its name."""
        name = f"weight{len(self.weights)}"
        array = (self.random.standard_normal(shape) / 3).astype(self.dtype)
        self.weights.append(numpy_helper.from_array(array, name))
        return name


def forward(net: Net, seed: int) -> onnx.ModelProto:
    """Return the forward graph: input x, output y, the weights as initializers."""
    graph = _Graph(np.random.default_rng(seed), helper.tensor_dtype_to_np_dtype(net.dtype))
    rank = len(net.input_shape) - 2
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    channels = net.input_shape[1]
    for stage in net.stages:
        graph.add("Conv", graph.value, graph.weight(4, channels, *[3] * rank), pads=[1] * 2 * rank)
        graph.add("Relu", graph.value)
        pooled = list(_pools(graph, stage, net))
        if net.together:
            graph.add("Concat", *pooled, axis=1)
        channels = 4
    if net.returns_indices:
        graph.nodes[-1].output.append("indices")
        outputs.append(helper.make_tensor_value_info("indices", TensorProto.INT64, None))
    if net.classifies:
        graph.add("GlobalAveragePool", graph.value)
        graph.add("Flatten", graph.value)
        graph.add("Gemm", graph.value, graph.weight(4, 5), graph.weight(5))
    if net.dtype != TensorProto.FLOAT:
        graph.add("Cast", graph.value, to=TensorProto.FLOAT)
    graph.nodes[-1].output[0] = "y"
    shape = [net.batch or net.input_shape[0], net.input_shape[1], *(net.spatial or net.input_shape[2:])]
    proto = helper.make_graph(
        graph.nodes, "net", [helper.make_tensor_value_info("x", net.dtype, shape)], outputs, graph.weights
    )
    model = helper.make_model(proto, opset_imports=[helper.make_opsetid("", net.opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def _pools(graph: _Graph, stage: Sequence[Attributes], net: Net) -> Iterator[str]:
    """Append the pools of one stage and yield their outputs."""
    source = graph.value
    for attributes in stage:
        yield graph.add(net.pool, source if net.together else graph.value, **attributes)[0]


_K2 = {"kernel_shape": [2, 2], "strides": [2, 2]}
_K3 = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
_IMAGE = (2, 2, 11, 14)

NETS: dict[str, Net] = {
    "lenet": Net("two tiling pools, cross entropy", (3, 1, 12, 12), [[_K2], [_K2]], classifies=True),
    "lenet_opset12": Net("opset 12", (3, 1, 12, 12), [[_K2], [_K2]], opset=12, classifies=True),
    "lenet_opset15": Net("opset 15", (3, 1, 12, 12), [[_K2], [_K2]], opset=15, classifies=True),
    "lenet_opset21": Net("opset 21", (3, 1, 12, 12), [[_K2], [_K2]], opset=21, classifies=True),
    "lenet_dynamic_batch": Net("symbolic batch", (3, 1, 12, 12), [[_K2], [_K2]], batch="batch", classifies=True),
    "stem": Net("overlapping windows, padding", _IMAGE, [[_K3]]),
    "stem_dynamic_shape": Net(
        "symbolic batch, height and width: onnxruntime-training's MaxPoolGrad wants dX's shape in the graph",
        _IMAGE,
        [[_K3]],
        batch="batch",
        spatial=("height", "width"),
        runs=False,
    ),
    "stem_float16": Net(
        "float16, for which onnxruntime-training has no MaxPoolGrad kernel",
        _IMAGE,
        [[_K3]],
        dtype=TensorProto.FLOAT16,
        runs=False,
    ),
    "ceil": Net(
        "ceil_mode: last windows cut short",
        _IMAGE,
        [[{**_K3, "pads": [0, 0, 0, 0], "ceil_mode": 1}], [{**_K2, "ceil_mode": 1}]],
    ),
    "dilated": Net("dilations 2 and 1", _IMAGE, [[{"kernel_shape": [3, 2], "dilations": [2, 1]}]]),
    "unequal_pads": Net(
        "other padding at the begin than at the end",
        _IMAGE,
        [[{**_K3, "pads": [0, 1, 1, 0]}], [{**_K3, "pads": [1, 1, 0, 0]}]],
    ),
    "same_upper": Net(
        "auto_pad SAME_UPPER, pads absent",
        _IMAGE,
        [[{"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}]],
    ),
    "same_lower": Net(
        "auto_pad SAME_LOWER", _IMAGE, [[{"kernel_shape": [2, 3], "strides": [1, 2], "auto_pad": "SAME_LOWER"}]]
    ),
    "valid": Net("auto_pad VALID", _IMAGE, [[{"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "VALID"}]]),
    "defaults": Net("kernel_shape alone: strides, pads and dilations absent", _IMAGE, [[{"kernel_shape": [2, 3]}]]),
    "gaps": Net("stride beyond the kernel", _IMAGE, [[{"kernel_shape": [2, 2], "strides": [3, 3]}]]),
    "nested": Net("three pools directly behind each other", (2, 2, 16, 12), [[_K2, _K2, {**_K3, "strides": [1, 1]}]]),
    "spatial_pyramid": Net(
        "three pools of one tensor",
        _IMAGE,
        [[{"kernel_shape": [k, k], "strides": [1, 1], "pads": [k // 2] * 4} for k in (3, 5, 9)]],
        together=True,
    ),
    "returned_indices": Net("Indices are a graph output too", _IMAGE, [[_K3]], returns_indices=True),
    "audio": Net(
        "1-D pools",
        (2, 2, 50),
        [[{"kernel_shape": [4], "strides": [4]}], [{"kernel_shape": [3], "strides": [2], "pads": [1, 1]}]],
    ),
    "video": Net(
        "3-D pools, one overlapping",
        (2, 2, 5, 8, 10),
        [
            [{"kernel_shape": [1, 2, 2], "strides": [1, 2, 2]}],
            [{"kernel_shape": [3, 3, 3], "strides": [2, 2, 2], "pads": [1] * 6}],
        ],
    ),
    "video_ceil_dilated": Net(
        "3-D, ceil_mode and dilation",
        (2, 2, 6, 9, 8),
        [[{"kernel_shape": [2, 3, 2], "strides": [2, 2, 3], "dilations": [1, 2, 1], "ceil_mode": 1}]],
    ),
    "column_major": Net(
        "storage_order 1: the recorded indices are applied in the wrong order",
        _IMAGE,
        [[{**_K3, "storage_order": 1}]],
        refused={"storage_order": 1},
    ),
}
