# SPDX-License-Identifier: Apache-2.0

"""Runs one side of a site in onnx's reference evaluator or on the execution provider."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple, Protocol

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto
from onnx.reference import ReferenceEvaluator

from poolgrad_lowering.model.diagnostics.errors import PoolgradError
from poolgrad_lowering.model.io.onnxruntime import quoted
from poolgrad_lowering.verification.arrays import AnyArray
from poolgrad_lowering.verification.graph.input_roles import AVERAGE_POOL_GRADIENT
from poolgrad_lowering.verification.graph.protos import subgraphs
from poolgrad_lowering.verification.operators import OPERATORS
from poolgrad_lowering.verification.result import UnprovenError

_LONGEST = 600
"""The length to which messages are cut."""


class Runner(Protocol):
    """One side of a site, ready to run."""

    def __call__(self, feeds: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
        """Return the outputs by name. Raises the errors of the evaluator for inputs that it cannot process."""


class _Evaluator(ReferenceEvaluator):
    """onnx's evaluator with the operators of this package, also in function bodies, which get their own evaluator."""

    def __init__(self, proto: Any, **options: Any) -> None:
        super().__init__(proto, **{**options, "new_ops": list(OPERATORS)})


def reference_runner(model: ModelProto) -> Runner:
    """Return a runner of a model in onnx's reference evaluator.

    onnxruntime's MaxPoolGrad and AveragePoolGrad have no input with the shape of dX: the shape is the declared one, or
    else that of the pooled tensor: the one whose MaxPool recorded the indices, or the operand that
    `sites.pooled.with_pooled` adds. Raises `UnprovenError` for operators that cannot be evaluated.
    """
    complete = deepcopy(model)
    _give_gradient_shapes(complete.graph, {})
    names = [value.name for value in model.graph.output]
    try:
        evaluator = _Evaluator(complete)
    except Exception as error:  # the evaluator raises many kinds
        raise UnprovenError(f"onnx's evaluator cannot run it: {first_line(error)}") from error

    def run(feeds: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
        with np.errstate(all="ignore"):
            return dict(zip(names, evaluator.run(names, dict(feeds)), strict=True))

    return run


class Session(Protocol):
    """What is used of an onnxruntime session."""

    def get_inputs(self) -> Sequence[Any]:
        """Return the inputs, each with its name."""

    def run(self, names: Sequence[str], feeds: Mapping[str, AnyArray]) -> Sequence[AnyArray]:
        """Return the outputs of these names."""


class Provider(NamedTuple):
    """The execution provider: the name of its backend, and a function that makes a session of a lowered model on it.

    `open` raises an error of the package if there is no session, or if the provider runs none of the site's nodes.
    """

    backend: str
    open: Callable[[ModelProto], Session]


def provider_runner(model: ModelProto, provider: Provider) -> Runner:
    """Return a runner of a lowered model on the provider. Raises `UnprovenError` if no session can be created."""
    try:
        session = provider.open(model)
    except PoolgradError as error:
        raise UnprovenError(f"no session on the provider: {first_line(error)}") from error
    names = [value.name for value in model.graph.output]
    accepted = {value.name for value in session.get_inputs()}

    def run(feeds: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
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
        for _, subgraph in subgraphs(node):
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
