# SPDX-License-Identifier: Apache-2.0

"""Runs a graph that GE has taken, by GE's own reading: attributes, types and formats as the plugins left them.

The pool operators are computed by numpy from the definitions. Everything between runs in onnxruntime without its
optimizers, so that it has the bits that the same nodes have in another model: first each node is replaced by nodes that
compute what GE computes of it (`standard.computed`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from tests.harness.ge import faults
from tests.harness.ge.average import SIZES
from tests.harness.ge.faults import GeError
from tests.harness.ge.kernels import refused
from tests.harness.ge.operators import compute
from tests.harness.ge.parser import GeGraph, GeOperator
from tests.harness.ge.plugin_rules import Context
from tests.harness.ge.prototypes import Soc
from tests.harness.ge.standard import computed

Array = npt.NDArray[Any]
Values = dict[str, Array]
Engine = Callable[[ModelProto, Mapping[str, Array]], Values]


def run_plainly(model: ModelProto, feeds: Mapping[str, Array]) -> Values:
    """Return the outputs by name, computed by onnxruntime's CPU kernels, node by node as the model has them."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1  # small models: threads would cost more than they save
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return {name: np.asarray(value) for name, value in zip(names, session.run(names, dict(feeds)), strict=True)}


def execute(graph: GeGraph, feeds: Mapping[str, Array], soc: Soc, engine: Engine = run_plainly) -> Values:
    """Return the outputs of a graph by name.

    Args:
        graph: what `parse` returned.
        feeds: the graph's inputs by name.
        soc: whose operators run.
        engine: what runs the standard operators.

    Raises:
        GeError: an operator does not take its types, formats or shapes on this SoC.
    """
    source = graph.model.graph
    values = {name: np.asarray(value) for name, value in feeds.items()}
    values |= {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in source.initializer}
    _check_sizes(graph)
    device = _Device(soc, engine)
    done = 0
    for is_own, group in itertools.groupby(graph.operators, _is_own):
        operators = list(group)
        done += len(operators)
        if is_own:
            for operator in operators:
                values |= zip(operator.node.output, _own_results(operator, values, device), strict=False)
        else:
            nodes = list(computed((operator.node for operator in operators), Context(graph.opset, soc, graph.first)))
            values |= _run(nodes, graph, values, _read_from(graph, done), engine)
    return {value.name: values[value.name] for value in source.output}


def _check_sizes(graph: GeGraph) -> None:
    """Check that the shapes which operators have as an input are constants: shape inference reads their numbers.

    Raises:
        GeError: one is computed, or an input of the graph. All sizes of the result are then unknown.
    """
    constants = {tensor.name for tensor in graph.model.graph.initializer}
    constants |= {operator.node.output[0] for operator in graph.operators if operator.node.op_type == "Constant"}
    for operator in graph.operators:
        for tensor, name in zip(operator.inputs, operator.node.input, strict=False):
            if tensor.name == SIZES and name not in constants:
                raise refused(operator, f"{SIZES} '{name}' is not constant: the sizes of the result are unknown")


@dataclass(frozen=True)
class _Device:
    soc: Soc
    engine: Engine


def _is_own(operator: GeOperator) -> bool:
    """Return whether an operator of the dialect is computed: this one, or one in its branches."""
    branches = operator.branches.values()
    return bool(operator.type) or any(_is_own(inner) for branch in branches for inner in branch.operators)


def _own_results(operator: GeOperator, values: Values, device: _Device) -> Sequence[Array]:
    inputs = [values[name] for name in operator.node.input if name]
    if operator.type:
        return compute(operator, inputs, device.soc)
    branch = operator.branches["then_branch" if inputs[0].item() else "else_branch"]
    captured = {value.name: values[value.name] for value in branch.model.graph.input}
    return list(execute(branch, captured, device.soc, device.engine).values())


def _read_from(graph: GeGraph, at: int) -> set[str]:
    """Return the names that are read by the operators from `at` on, or are outputs."""
    read = {name for operator in graph.operators[at:] for name in _names_read(operator.node)}
    return read | {value.name for value in graph.model.graph.output}


def _names_read(node: NodeProto) -> set[str]:
    """Return the names that a node or its subgraphs read."""
    names = set(node.input)
    for attribute in node.attribute:
        for subgraph in (attribute.g, *attribute.graphs):
            names |= {value.name for value in subgraph.output}
            names |= {name for inner in subgraph.node for name in _names_read(inner)}
    return names


def _run(nodes: Sequence[NodeProto], graph: GeGraph, values: Values, later: set[str], engine: Engine) -> Values:
    """Return those results of standard nodes that are read later, computed by a model of these nodes alone."""
    made = {name for node in nodes for name in node.output}
    read = {name for node in nodes for name in _names_read(node)} - made
    feeds = {name: value for name, value in values.items() if name in read}
    piece = GraphProto(
        name="piece",
        node=nodes,
        input=[_declared(name, value) for name, value in feeds.items()],
        output=[ValueInfoProto(name=name) for name in sorted(made & later)],
    )
    imports = [entry for entry in graph.model.opset_import if not entry.domain]
    model = ModelProto(ir_version=graph.model.ir_version, opset_import=imports, graph=piece)
    try:
        return engine(model, feeds)
    except Exception as error:
        if not type(error).__module__.startswith("onnxruntime"):
            raise
        raise GeError.of(faults.OPERATOR_INNER, f"shape inference or an operator refuses: {error}") from error


def _declared(name: str, value: Array) -> ValueInfoProto:
    element: int = helper.np_dtype_to_tensor_dtype(np.asarray(value).dtype)
    assert element != TensorProto.UNDEFINED
    return helper.make_tensor_value_info(name, element, np.asarray(value).shape)
