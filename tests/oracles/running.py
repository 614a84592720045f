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
from tests.oracles.pooling import max_pool, pool_gradient, same_pads

Array = npt.NDArray[Any]


class MaxPool(OpRun):
    """MaxPool from its definition: onnx's own evaluator gives wrong Indices wherever every stride is 1."""

    op_domain = ""

    def _run(self, x: Array, *, auto_pad: str = "NOTSET", **windows: Any) -> tuple[Array, ...]:
        """Return Y, and Indices where the node has that output."""
        kernel = windows["kernel_shape"]
        if auto_pad == "VALID":
            windows["pads"] = None
        elif auto_pad != "NOTSET":
            steps = windows["strides"] or [1] * len(kernel)
            windows["pads"] = same_pads(x.shape[2:], kernel, steps, upper=auto_pad == "SAME_UPPER")
        return max_pool(x, **windows)[: len(self.onnx_node.output)]


class ArgMax(OpRun):
    """ArgMax as onnxruntime has it: ONNX does not say what a NaN is, and numpy takes the first one for the maximum."""

    op_domain = ""

    def _run(self, data: Array, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> tuple[Array]:
        """Return the first or last maximum; every comparison with NaN is false, so only a first one wins."""
        best, index = np.take(data, 0, axis), np.zeros(np.take(data, 0, axis).shape, np.int64)
        for position in range(1, data.shape[axis]):
            element = np.take(data, position, axis)
            better = element >= best if select_last_index else element > best
            best, index = np.where(better, element, best), np.where(better, position, index)
        return (np.expand_dims(index, axis) if keepdims else index,)


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

    def _run(self, *inputs: Array, **attributes: Any) -> tuple[Array]:
        """Return dX; onnxruntime's kernel ignores every attribute."""
        if attributes.get("ksize"):
            x, _, dy = inputs
            return (tensorflow.max_pool_grad(x, dy, **attributes),)
        dy, indices, shape = inputs
        return (pool_gradient(shape.tolist(), dy, indices),)


OWN = [ArgMax, Div, Gather, GatherElements, MaxPool, MaxPoolGrad, ScatterElements]


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
    waiting = "session.intra_op.allow_spinning"  # of threads, which takes longer than most models
    options.add_session_config_entry(waiting, "0")
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
    pooled = _pooled_by_indices(graph, outer or {})
    made = []
    for node in graph.node:
        for inner in (each for attribute in node.attribute for each in [attribute.g, *attribute.graphs]):
            _give_gradient_shapes(inner, pooled)
        if node.op_type == "MaxPoolGrad" and len(node.input) == 2:
            dx, (_, indices) = node.output[0], node.input
            node.input.append(f"{dx}_shape")
            made.append(_shape_node(declared.get(dx), pooled.get(indices), f"{dx}_shape"))
        made.append(node)
    ordered = onnx.GraphProto(node=made)
    del graph.node[:]
    graph.node.extend(ordered.node)


def _pooled_by_indices(graph: onnx.GraphProto, outer: Mapping[str, str]) -> dict[str, str]:
    """Return the tensors that the MaxPools of a graph pool, by their Indices and copies of them."""
    found = dict(outer)
    for node in graph.node:
        if node.op_type == "MaxPool":
            found.update(dict.fromkeys(node.output[1:], node.input[0]))
        elif node.op_type == "Identity" and (pooled := found.get(node.input[0])):
            found[node.output[0]] = pooled
    return found


def _shape_node(declared: list[int] | None, pooled: str | None, output: str) -> onnx.NodeProto:
    """Return the node that makes the shape: a constant, or the shape of the pooled tensor."""
    if declared is not None:
        value = onnx.numpy_helper.from_array(np.array(declared, np.int64))
        return onnx.helper.make_node("Constant", [], [output], value=value)
    if pooled is not None:
        return onnx.NodeProto(op_type="Shape", input=[pooled], output=[output])
    raise ValueError("MaxPoolGrad: declare its output's shape, or take its Indices from a MaxPool of this graph")


def _static_shape(value: onnx.ValueInfoProto) -> list[int] | None:
    """Return the declared shape where every dimension is a number."""
    dims = value.type.tensor_type.shape.dim
    return [dim.dim_value for dim in dims] if dims and all(dim.HasField("dim_value") for dim in dims) else None
