# SPDX-License-Identifier: Apache-2.0

"""A case: a model to lower, what it is fed, and the original that each release runs beside the lowered models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, shape_inference

from tests.generators.protos import renamed
from tests.oracles import run_reference
from tests.patterns.lowering_checks import all_nodes

Array = npt.NDArray[Any]
FIRST_ADDING_SCATTER = 16
SAME_IN_LATER_OPSETS = {"Add", "Cast", "Identity", "MaxPool", "MaxPoolGrad", "Mul", "Relu"}


@dataclass(frozen=True)
class Case:
    """A model to lower, its feeds, and its original.

    What a release cannot do with `original` it need not do with the lowered models. The expected results are those of
    `original` in the same release, or `recorded` where that is given. Without an original every release has to run it.
    """

    name: str
    model: ModelProto
    feeds: Mapping[str, Array]
    original: ModelProto | None = None
    recorded: Mapping[str, Array] | None = None


def standard(model: ModelProto) -> ModelProto | None:
    """The model itself, or one with the same results in standard operators; None where there are other operators."""
    missing = unknown_operators(model)
    if missing == {"MaxPoolGrad"}:
        return with_standard_gradients(model)
    return None if missing else model


def unknown_operators(model: ModelProto) -> set[str]:
    """The operators that are neither ONNX's nor functions of the model; those of onnxruntime are taken for known."""
    own = {(function.domain, function.name) for function in model.functions}
    nodes = [*all_nodes(model.graph), *(node for function in model.functions for node in function.node)]
    return {
        node.op_type
        for node in nodes
        if not onnx.defs.has(node.op_type, node.domain)
        and (node.domain, node.op_type) not in own
        and node.domain != "com.microsoft"
    }


def with_standard_gradients(model: ModelProto) -> ModelProto | None:
    """The model with an adding scatter over all elements instead of each MaxPoolGrad.

    None where a gradient's pool is not in the main graph, or where the opset is too old for such a scatter and other
    operators may mean something else in a newer one.
    """
    copy = ModelProto()
    copy.CopyFrom(model)
    [opset] = [entry for entry in copy.opset_import if entry.domain in ("", "ai.onnx")]
    if opset.version < FIRST_ADDING_SCATTER:
        if not {node.op_type for node in all_nodes(model.graph)} <= SAME_IN_LATER_OPSETS:
            return None
        opset.version = FIRST_ADDING_SCATTER
        copy.ir_version = max(copy.ir_version, 8)
    pooled = {node.output[1]: node.input[0] for node in model.graph.node if len(node.output) > 1}
    nodes: list[NodeProto] = []
    for node in model.graph.node:
        if node.op_type != "MaxPoolGrad":
            nodes.append(node)
        elif len(node.input) == 2 and node.input[1] in pooled:
            nodes += standard_gradient(pooled[node.input[1]], *node.input, node.output[0])
        else:
            return None
    del copy.graph.node[:]
    copy.graph.node.extend(nodes)
    return None if "MaxPoolGrad" in unknown_operators(copy) else copy


def standard_gradient(x: str, dy: str, indices: str, dx: str) -> list[NodeProto]:
    """The gradient as one scatter over all elements of x, summed in float32."""
    text = f"""g (x, dy, i) => (dx) {{
        shape = Shape(x)
        count = ReduceProd<keepdims = 1>(shape)
        zeros = ConstantOfShape(count)
        all = Constant<value_ints = [-1]>()
        places = Reshape(i, all)
        flat = Reshape(dy, all)
        updates = Cast<to = {TensorProto.FLOAT}>(flat)
        sums = ScatterElements<axis = 0, reduction = "add">(zeros, places, updates)
        narrow = CastLike(sums, dy)
        dx = Reshape(narrow, shape)
    }}"""
    outer = {"x": x, "dy": dy, "i": indices, "dx": dx}
    nodes = list(onnx.parser.parse_graph(text).node)
    for node in nodes:
        for names in (node.input, node.output):
            names[:] = [outer.get(name, f"{dx}/{name}") for name in names]
    return nodes


def gradient_sites(model: ModelProto) -> Iterator[tuple[ModelProto, dict[str, str]]]:
    """Each MaxPoolGrad of the main graph with its pool as a model of its own, and the values that are its X and dY.

    Those whose types cannot be inferred are left out.
    """
    values = {value.name: value for value in known_values(model)}
    pools = {node.output[1]: node for node in model.graph.node if node.op_type == "MaxPool" and len(node.output) > 1}
    for node in model.graph.node:
        if node.op_type != "MaxPoolGrad" or len(node.input) != 2 or node.input[1] not in pools:
            continue
        pool = pools[node.input[1]]
        x, y, dy, dx = pool.input[0], pool.output[0], node.input[0], node.output[0]
        same_shape = {x: dx, dx: x, y: dy, dy: y}
        found = {name: values.get(name) or values.get(other) for name, other in same_shape.items()}
        declared = {name: renamed(value, name) for name, value in found.items() if value is not None}
        if len(declared) < 4:
            continue
        inputs, outputs = [declared[x], declared[dy]], [declared[y], declared[dx]]
        graph = helper.make_graph([pool, node], "site", inputs, outputs)
        site = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
        yield site, {"X": x, "dY": dy}


def known_values(model: ModelProto) -> list[ValueInfoProto]:
    """The values of the main graph whose types are declared or inferred."""
    graph: GraphProto = shape_inference.infer_shapes(model).graph
    stored = [helper.make_tensor_value_info(held.name, held.data_type, held.dims) for held in graph.initializer]
    known = [*stored, *graph.value_info, *graph.input, *graph.output]
    return [value for value in known if value.type.tensor_type.elem_type]


def site_feeds(site: ModelProto, names: Mapping[str, str]) -> dict[str, Array]:
    """Values for X and dY of a site, whatever sizes its model leaves open."""
    x = drawn_feeds(site, symbol=12)[names["X"]]
    pool = helper.make_graph(site.graph.node[:1], "pool", site.graph.input[:1], site.graph.output[:1])
    model = helper.make_model(pool, opset_imports=site.opset_import, ir_version=site.ir_version)
    [y] = run_reference(model, {names["X"]: x}).values()
    return {names["X"]: x, names["dY"]: halves(y.shape).astype(y.dtype)}


def drawn_feeds(model: ModelProto, symbol: int = 2) -> dict[str, Array]:
    """Values for every input: halves where they are floats, else zeros. Each symbol of a shape stands for `symbol`."""
    stored = {held.name for held in model.graph.initializer}
    feeds = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        shape = [dim.dim_value if dim.HasField("dim_value") else symbol for dim in tensor.shape.dim]
        feeds[value.name] = (halves(shape) if dtype.kind == "f" else np.zeros(shape)).astype(dtype)
    return {name: array for name, array in feeds.items() if name not in stored}


def halves(shape: Sequence[int]) -> Array:
    """Halves from -2 to 2, the same for the same shape: windows tie, and sums are exact."""
    return np.asarray(np.random.default_rng(list(shape)).integers(-4, 5, shape) / 2)
