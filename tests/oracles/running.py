# SPDX-License-Identifier: Apache-2.0

"""Running a model in onnx's reference evaluator, with MaxPoolGrad and PyTorch's operators added, or in onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from tests.oracles import tensorflow
from tests.oracles.aten import ATEN_OPS
from tests.oracles.gradient import pool_gradient
from tests.oracles.pooling import max_pool, same_pads

Array = npt.NDArray[Any]


class MaxPool(OpRun):
    """MaxPool from its definition: onnx's own evaluator gives wrong Indices wherever every stride is 1."""

    op_domain = ""

    def _run(
        self,
        x: Array,
        *,
        kernel_shape: Sequence[int],
        strides: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        auto_pad: str = "NOTSET",
        ceil_mode: int = 0,
        storage_order: int = 0,
    ) -> tuple[Array, ...]:
        """Return Y, and Indices where the node has that output."""
        if auto_pad.startswith("SAME"):
            ones = [1] * len(kernel_shape)
            pads = same_pads(x.shape[2:], kernel_shape, strides or ones, upper=auto_pad == "SAME_UPPER")
        elif auto_pad == "VALID":
            pads = None
        results = max_pool(
            x, kernel_shape, strides, pads, dilations, ceil_mode=bool(ceil_mode), storage_order=storage_order
        )
        return results[: len(self.onnx_node.output)]


class Div(OpRun):
    """Div from its definition: onnx's own evaluator divides integers as float64 up to onnx 1.19."""

    op_domain = ""

    def _run(self, a: Array, b: Array) -> tuple[Array]:
        """Return the quotient; one of integers is rounded towards zero."""
        if a.dtype.kind == "f":
            return (np.divide(a, b),)
        quotient = a // b
        return (quotient + ((quotient * b != a) & ((a < 0) != (b < 0))).astype(quotient.dtype),)


class Gather(OpRun):
    """Gather from its definition: onnx's own evaluator loses the axes of an empty result up to onnx 1.19."""

    op_domain = ""

    def _run(self, data: Array, indices: Array, *, axis: int = 0) -> tuple[Array]:
        """Return the slices; a negative index counts from the end."""
        return (np.take(data, indices, axis),)


class GatherElements(OpRun):
    """GatherElements from its definition: onnx's own evaluator takes no negative axis."""

    op_domain = ""

    def _run(self, data: Array, indices: Array, *, axis: int = 0) -> tuple[Array]:
        """Return the elements; a negative index counts from the end."""
        return (np.take_along_axis(data, indices, axis),)


class ScatterElements(OpRun):
    """ScatterElements from its definition: onnx's own evaluator takes no axis behind the fourth up to onnx 1.19."""

    op_domain = ""

    def _run(
        self, data: Array, indices: Array, updates: Array, *, axis: int = 0, reduction: str = "none"
    ) -> tuple[Array]:
        """Return the data with the updates, one after the other; a negative index counts from the end."""
        result = data.copy()
        position: list[Array] = list(np.indices(indices.shape, sparse=True))
        position[axis] = indices
        if reduction == "none":
            result[tuple(position)] = updates
        else:
            _REDUCTIONS[reduction].at(result, tuple(position), updates)
        return (result,)


_REDUCTIONS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


class MaxPoolGrad(OpRun):
    """onnxruntime-training's MaxPoolGrad(dY, Indices), with dX's shape as a third input (see `run_reference`).

    TensorFlow's MaxPoolGrad(x, y, dy) has the same name and domain, and a `ksize`.
    """

    op_domain = ""

    def _run(self, first: Array, second: Array, third: Array, **attributes: Any) -> tuple[Array]:
        """Return dX; onnxruntime's kernel ignores every attribute."""
        if "ksize" in attributes:
            return (tensorflow.max_pool_grad(first, third, **attributes),)
        return (pool_gradient(third.tolist(), first, second),)


OWN = [Div, Gather, GatherElements, MaxPool, MaxPoolGrad, ScatterElements]


class Evaluator(ReferenceEvaluator):
    """onnx's evaluator with the oracles' operators, in function bodies too: it makes one of its own class for each."""

    def __init__(self, proto: onnx.ModelProto | onnx.FunctionProto | onnx.GraphProto, **options: Any) -> None:
        """Take what onnx's evaluator takes, but no new operators."""
        super().__init__(proto, **{**options, "new_ops": [*OWN, *tensorflow.OPERATORS, *ATEN_OPS]})


def run_reference(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Return the outputs by name, computed by onnx's reference evaluator.

    MaxPoolGrad has no input that tells dX's shape. It is the declared shape of the node's output, as in
    onnxruntime; where that is absent or not static, the shape of the tensor whose MaxPool made the indices.

    Raises:
        ValueError: a MaxPoolGrad has neither.
    """
    complete = onnx.ModelProto()
    complete.CopyFrom(model)
    _give_gradient_shapes(complete.graph)
    names = [value.name for value in complete.graph.output]
    results = Evaluator(complete).run(names, dict(feeds))
    return dict(zip(names, results, strict=True))


def run_ort(
    model: onnx.ModelProto,
    feeds: Mapping[str, Array],
    providers: Sequence[str] = ("CPUExecutionProvider",),
) -> dict[str, Array]:
    """Return the outputs by name, computed by onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=list(providers))
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))


def optimized_by_ort(model: onnx.ModelProto, folder: Path) -> list[onnx.NodeProto]:
    """The nodes that onnxruntime's CPU provider runs in the place of the model's; the graph is written to `folder`."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(onnx.load(options.optimized_model_filepath).graph.node)


def _give_gradient_shapes(graph: onnx.GraphProto, outer: Mapping[str, str] | None = None) -> None:
    """Append to each MaxPoolGrad of the graph, and of its subgraphs, a third input that holds dX's shape.

    `outer` maps the MaxPool Indices of the enclosing graphs to the tensors that were pooled.
    """
    declared = {value.name: _static_shape(value) for value in (*graph.value_info, *graph.output)}
    pooled = dict(outer or {})
    nodes = list(graph.node)
    del graph.node[:]
    for node in nodes:
        if node.op_type == "MaxPool" and len(node.output) > 1:
            pooled[node.output[1]] = node.input[0]
        if node.op_type == "Identity" and node.input[0] in pooled:
            pooled[node.output[0]] = pooled[node.input[0]]
        if node.op_type == "MaxPoolGrad" and len(node.input) == 2:
            shape = f"{node.output[0]}_shape"
            graph.node.append(_shape_node(declared.get(node.output[0]), pooled.get(node.input[1]), shape))
            node.input.append(shape)
        for attribute in node.attribute:
            for subgraph in (attribute.g, *attribute.graphs):
                _give_gradient_shapes(subgraph, pooled)
        graph.node.append(node)


def _shape_node(declared: list[int] | None, pooled: str | None, output: str) -> onnx.NodeProto:
    """Return the node that makes the shape: a constant, or the shape of the pooled tensor."""
    if declared is not None:
        value = onnx.numpy_helper.from_array(np.array(declared, np.int64))
        return onnx.helper.make_node("Constant", [], [output], value=value)
    if pooled is not None:
        return onnx.helper.make_node("Shape", [pooled], [output])
    raise ValueError("MaxPoolGrad: declare its output's shape, or take its Indices from a MaxPool of this graph")


def _static_shape(value: onnx.ValueInfoProto) -> list[int] | None:
    """Return the declared shape where every dimension is a number."""
    dims = value.type.tensor_type.shape.dim
    return [dim.dim_value for dim in dims] if dims and all(dim.HasField("dim_value") for dim in dims) else None
