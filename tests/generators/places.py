# SPDX-License-Identifier: Apache-2.0

"""Moves a graph into a branch, the body of a loop or a function, or inlines a function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto, helper, inliner, numpy_helper

from poolgrad_lowering.verification.graph.protos import default_opset
from tests.generators.protos import Choices, renamed, with_nodes

FUNCTION_DOMAIN = "local"
_FIRST_OPSET_OF_OTHER_SHAPES = 11
"""In which the branches of an If may have other shapes."""
_FIRST_IR_WITH_TYPED_FUNCTIONS = 10


def in_a_branch(model: ModelProto, _: Choices) -> ModelProto:
    """The model with its graph in the taken branch of an If; the other branch has outputs of the same types."""
    taken, declined = _inner(model), GraphProto(name="declined")
    of_one_shape = default_opset(model) < _FIRST_OPSET_OF_OTHER_SHAPES
    for value in model.graph.output:
        name, zeros = f"{value.name}/declined", _zeros(value, sized=of_one_shape)
        declined.node.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(zeros)))
        declined.output.append(helper.make_tensor_value_info(name, value.type.tensor_type.elem_type, zeros.shape))
    outputs = [value.name for value in model.graph.output]
    node = helper.make_node("If", ["taken"], outputs, name="if", then_branch=taken, else_branch=declined)
    copy = with_nodes(model, [node])
    del copy.graph.initializer[:], copy.graph.value_info[:]
    copy.graph.initializer.append(numpy_helper.from_array(np.array(True), "taken"))
    return copy


def in_a_loop(model: ModelProto, _: Choices) -> ModelProto:
    """The model with its graph in the body of a loop that runs once and carries the outputs."""
    body = _inner(model)
    body.input.append(helper.make_tensor_value_info("number", TensorProto.INT64, []))
    body.input.append(helper.make_tensor_value_info("again", TensorProto.BOOL, []))
    body.input.extend(renamed(value, f"{value.name}/before") for value in model.graph.output)
    body.node.append(helper.make_node("Identity", ["again"], ["more"]))
    body.output.insert(0, helper.make_tensor_value_info("more", TensorProto.BOOL, []))
    names = [value.name for value in model.graph.output]
    carried = [f"{name}/start" for name in names]
    copy = with_nodes(model, [helper.make_node("Loop", ["once", "true", *carried], names, name="loop", body=body)])
    del copy.graph.initializer[:], copy.graph.value_info[:]
    stored = {"once": np.array(1), "true": np.array(True)}
    stored |= dict(zip(carried, map(_zeros, model.graph.output), strict=True))
    copy.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in stored.items())
    return copy


def _zeros(value: ValueInfoProto, *, sized: bool = False) -> npt.NDArray[Any]:
    """A tensor with one zero, of a value's rank and type; `sized`: zeros of its shape, as far as that is numbers."""
    tensor = value.type.tensor_type
    return np.zeros(
        [(sized and dim.dim_value) or 1 for dim in tensor.shape.dim], helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    )


def _inner(model: ModelProto) -> GraphProto:
    """The main graph without inputs and with renamed outputs."""
    graph = GraphProto()
    graph.CopyFrom(model.graph)
    del graph.input[:]
    outputs = {value.name for value in graph.output}
    for node in graph.node:
        node.output[:] = [f"{name}/inner" if name in outputs else name for name in node.output]
    for value in graph.output:
        value.name = f"{value.name}/inner"
    return graph


def in_a_function(model: ModelProto, _: Choices) -> ModelProto:
    """The model with its graph in a function."""
    return _outlined(model, [node.name for node in model.graph.node if node.name], "Training")


def outlined(model: ModelProto, choices: Choices) -> ModelProto:
    """A pool over an input with its gradient is in a function of the model, if nothing is between them."""
    prefixes = sorted({node.name.partition("/")[0] for node in model.graph.node if "/" in node.name})
    parents = {name.rpartition("c")[0] for name in prefixes}
    leaves = [name for name in prefixes if name.startswith("r") and name not in parents]
    leaf = leaves[choices[0] % len(leaves)]
    return _outlined(model, [node.name for node in model.graph.node if node.name.startswith(f"{leaf}/")], leaf)


def inlined(model: ModelProto, choices: Choices) -> ModelProto:
    """The model with its function inlined at the call."""
    return inliner.inline_local_functions(in_a_function(model, choices))


def _outlined(model: ModelProto, labels: Sequence[str], name: str) -> ModelProto:
    """The nodes of these names, contiguous in the order of the graph, as a function and its call."""
    own = [node for node in model.graph.node if node.name in labels]
    made = {output for node in own for output in node.output}
    read = [operand for node in own for operand in node.input if operand]
    others = [operand for node in model.graph.node if node.name not in labels for operand in node.input]
    left = {*others, *(value.name for value in model.graph.output)}
    stored = [tensor for tensor in model.graph.initializer if tensor.name in read]
    constants = [helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in stored]
    made |= {tensor.name for tensor in stored}
    inputs = list(dict.fromkeys(operand for operand in read if operand not in made))
    outputs = [output for node in own for output in node.output if output in left]
    inner = [value for value in model.graph.value_info if value.name in made]
    function = helper.make_function(
        FUNCTION_DOMAIN, name, inputs, outputs, [*constants, *own], model.opset_import, value_info=inner
    )
    call = helper.make_node(name, inputs, outputs, name=name, domain=FUNCTION_DOMAIN)
    last = max(position for position, node in enumerate(model.graph.node) if node.name in labels)
    nodes = [call if position == last else node for position, node in enumerate(model.graph.node)]
    copy = with_nodes(model, [node for node in nodes if node is call or node.name not in labels])
    kept = [value for value in model.graph.value_info if value.name not in made or value.name in outputs]
    del copy.graph.value_info[:]
    copy.graph.value_info.extend(kept)
    copy.functions.append(function)
    copy.opset_import.append(helper.make_opsetid(FUNCTION_DOMAIN, 1))
    copy.ir_version = max(model.ir_version, _FIRST_IR_WITH_TYPED_FUNCTIONS)
    return copy
