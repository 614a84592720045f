# SPDX-License-Identifier: Apache-2.0

"""Makes a model of one side of a site, and runs it in onnx's reference evaluator or on the execution provider."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto
from onnx.reference import ReferenceEvaluator

from poolgrad_lowering.model.diagnostics.errors import PoolgradError
from poolgrad_lowering.model.io.onnxruntime import quoted
from poolgrad_lowering.model.ir.graphs import subgraphs, with_inner
from poolgrad_lowering.verification.arrays import AnyArray, NamedArrays
from poolgrad_lowering.verification.graph.flat import FlatNode
from poolgrad_lowering.verification.graph.input_roles import AVERAGE_POOL_GRADIENT
from poolgrad_lowering.verification.graph.types import TensorTypes, value_info
from poolgrad_lowering.verification.operators import OPERATORS
from poolgrad_lowering.verification.result import UnprovenError
from poolgrad_lowering.verification.sites.cut import Cut

_LONGEST = 600
"""The length to which messages are cut."""


Runner = Callable[[NamedArrays], dict[str, AnyArray]]
"""One side of a site, ready to run: returns the outputs by name, and raises errors of many classes."""


class _Evaluator(ReferenceEvaluator):
    """onnx's evaluator with the operators of this package, also in function bodies, which get their own evaluator."""

    def __init__(self, proto: Any, **options: Any) -> None:
        super().__init__(proto, **{**options, "new_ops": list(OPERATORS)})


def reference_runner(model: ModelProto) -> Runner:
    """Return a runner of a model in onnx's reference evaluator.

    onnxruntime's MaxPoolGrad and AveragePoolGrad have no input with the shape of dX: the shape is the declared one, or
    else that of the pooled tensor: the one whose MaxPool recorded the indices, or the operand that
    `sites.cut.with_pooled` adds. Raises `UnprovenError` for operators that cannot be evaluated.
    """
    complete = deepcopy(model)
    _give_gradient_shapes(complete.graph, {})
    names = [value.name for value in model.graph.output]
    try:
        evaluator = _Evaluator(complete)
    except Exception as error:  # the evaluator raises many kinds
        raise UnprovenError(f"onnx's evaluator cannot run it: {first_line(error)}") from error

    def run(feeds: NamedArrays) -> dict[str, AnyArray]:
        with np.errstate(all="ignore"):
            return dict(zip(names, evaluator.run(names, dict(feeds)), strict=True))

    return run


class Provider(NamedTuple):
    """The execution provider: the name of its backend, and a function that makes onnxruntime's session on it.

    `open` raises an error of the package if there is no session, or if the provider runs none of the site's nodes.
    """

    backend: str
    open: Callable[[ModelProto], Any]


def provider_runner(model: ModelProto, provider: Provider) -> Runner:
    """Return a runner of a lowered model on the provider. Raises `UnprovenError` if no session can be created."""
    try:
        session = provider.open(model)
    except PoolgradError as error:
        raise UnprovenError(f"no session on the provider: {first_line(error)}") from error
    names = [value.name for value in model.graph.output]
    accepted = {value.name for value in session.get_inputs()}

    def run(feeds: NamedArrays) -> dict[str, AnyArray]:
        taken = {name: array for name, array in feeds.items() if name in accepted}
        return dict(zip(names, session.run(names, taken), strict=True))

    return run


def _give_gradient_shapes(graph: GraphProto, around: Mapping[str, str]) -> None:
    """Add an input with dX's shape to each MaxPoolGrad(dY, Indices) and AveragePoolGrad, also in subgraphs."""
    declared = {value.name: value for value in (*graph.value_info, *graph.output)}
    pooled = dict(around)
    nodes = list(graph.node)
    graph.ClearField("node")
    for node in nodes:
        if node.op_type == "MaxPool" and node.input and len(node.output) > 1:
            pooled[node.output[1]] = node.input[0]
        elif node.op_type == "Identity" and node.output and node.input and node.input[0] in pooled:
            pooled[node.output[0]] = pooled[node.input[0]]
        if node.op_type == "MaxPoolGrad" and len(node.input) == 2 and node.output:
            graph.node.append(_shape_node(node, declared.get(node.output[0]), pooled.get(node.input[1])))
            node.input.append(graph.node[-1].output[0])
        elif node.op_type == AVERAGE_POOL_GRADIENT and node.input and node.output:
            pooled_one = node.input[1] if len(node.input) > 1 else None
            graph.node.append(_shape_node(node, declared.get(node.output[0]), pooled_one, first=2))
            node.input[1:] = [graph.node[-1].output[0]]
        for _, subgraph in subgraphs(node.attribute):
            _give_gradient_shapes(subgraph, pooled)
        graph.node.append(node)


def _shape_node(node: NodeProto, declared: onnx.ValueInfoProto | None, pooled: str | None, first: int = 0) -> NodeProto:
    """Return the node that gives dX's shape, of which the kernel needs the sizes from axis `first` on."""
    output = f"{node.output[0]}/shape"
    dims = [] if declared is None else list(declared.type.tensor_type.shape.dim)
    if dims and all(dim.HasField("dim_value") for dim in dims[first:]):
        sizes = np.array([dim.dim_value for dim in dims], np.int64)
        return onnx.helper.make_node("Constant", [], [output], value=onnx.numpy_helper.from_array(sizes))
    if pooled is None:
        missing = f"no MaxPool recorded the Indices of '{node.name}'"
        if node.op_type == AVERAGE_POOL_GRADIENT:
            missing = f"its sizes are not declared, and no AveragePool is the forward pool of '{node.name}'"
        raise UnprovenError(f"the shape of '{node.output[0]}' is not known: {missing}")
    return onnx.helper.make_node("Shape", [pooled], [output])


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its class name if the message is empty."""
    return (quoted(error).splitlines() or [type(error).__name__])[0][:_LONGEST]


def side_model(
    source: ModelProto, cut: Cut, nodes: Sequence[FlatNode], types: TensorTypes, outputs: Iterable[str] | None = None
) -> ModelProto:
    """Return a model with these nodes of the cut, its inputs, and the version, imports and functions of `source`.

    `outputs` defaults to the region's outputs. Values with an entry in `types` are declared.
    """
    model = ModelProto(ir_version=source.ir_version, producer_name="poolgrad verify")
    model.opset_import.extend(source.opset_import)
    model.functions.extend(_called(source, [node.proto for node in nodes]))
    graph = model.graph
    graph.name = "site"
    graph.node.extend(_node(node, cut.inputs) for node in nodes)
    results = list(cut.region.outputs if outputs is None else outputs)
    graph.input.extend(value_info(value, types.get(value)) for value in cut.inputs)
    graph.output.extend(value_info(value, types.get(value)) for value in results)
    read = {value for node in nodes for value in (*node.inputs, *node.captured)}
    for value in (value for value in cut.constants if value in read):
        graph.initializer.append(cut.constants[value])
        graph.initializer[-1].name = value
    inner = {value for node in nodes for value in node.outputs if value} - set(results)
    graph.value_info.extend(value_info(value, types[value]) for value in sorted(inner) if value in types)
    return model


def independent(nodes: Sequence[FlatNode], values: Collection[str]) -> list[FlatNode]:
    """Return the nodes that do not depend on any of the values."""
    reached, found = set(values), []
    for node in nodes:
        if reached.intersection(node.inputs) or reached.intersection(node.captured):
            reached.update(node.outputs)
        else:
            found.append(node)
    return found


def _called(source: ModelProto, nodes: Iterable[NodeProto]) -> list[FunctionProto]:
    """Return the functions of a model that nodes call, callees before callers, as onnx's evaluator requires."""
    known = {(function.domain, function.name, function.overload): function for function in source.functions}
    found: list[FunctionProto] = []

    def visit(called: Iterable[NodeProto]) -> None:
        for node in with_inner(called):
            if (function := known.pop((node.domain, node.op_type, node.overload), None)) is not None:
                visit(function.node)
                found.append(function)

    visit(nodes)
    return found


def _node(node: FlatNode, free: Collection[str]) -> NodeProto:
    """Return the node with the flat names of its values. Outputs that are free values of the cut are renamed."""
    proto = deepcopy(node.proto)
    proto.input[:] = node.inputs
    proto.output[:] = [f"{value} (not read)" if value in free else value for value in node.outputs]
    return proto
