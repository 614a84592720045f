"""Other ways to write the same model: none may change which gradients are found, or a bit of the results.

Each takes a model and a short list of small numbers, by which it chooses, and returns a new model.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    inliner,
    numpy_helper,
)

Choices = Sequence[int]
Transform = Callable[[ModelProto, Choices], ModelProto]
FUNCTION_DOMAIN = "local"


def _copied(model: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy


def _with_nodes(model: ModelProto, nodes: Iterable[NodeProto]) -> ModelProto:
    """The model with copies of these nodes instead of its own."""
    copy = _copied(model)
    del copy.graph.node[:]
    copy.graph.node.extend(nodes)
    return copy


def _names(model: ModelProto) -> Iterator[str]:
    """Every name of a value in the main graph."""
    yield from _outer(model)
    for node in model.graph.node:
        yield from (name for name in node.output if name)


def rename(model: ModelProto, _: Choices) -> ModelProto:
    """Every inner value has another name; sites keep theirs in the names of their nodes."""
    kept = {value.name for value in (*model.graph.input, *model.graph.output)}
    new = {name: name if name in kept else f"%{number}" for number, name in enumerate(_names(model))}
    copy = _copied(model)
    for node in copy.graph.node:
        node.input[:] = [new.get(name, name) for name in node.input]
        node.output[:] = [new.get(name, name) for name in node.output]
    for held in (*copy.graph.initializer, *copy.graph.value_info):
        held.name = new[held.name]
    return copy


def reorder(model: ModelProto, choices: Choices) -> ModelProto:
    """Another topological order: of the nodes that could be next, the one that is chosen is."""
    waiting, ordered = list(model.graph.node), []
    known = {"", *_outer(model)}
    chosen = itertools.cycle(choices)
    while waiting:
        ready = [node for node in waiting if known.issuperset(node.input)]
        node = ready[next(chosen) % len(ready)]
        waiting.remove(node)
        ordered.append(node)
        known.update(node.output)
    return _with_nodes(model, ordered)


def unsorted(model: ModelProto, _: Choices) -> ModelProto:
    """The last node first: no model that would run, but one that can be put in order again."""
    return _with_nodes(model, reversed(model.graph.node))


def _outer(model: ModelProto) -> Iterator[str]:
    yield from (value.name for value in model.graph.input)
    yield from (tensor.name for tensor in model.graph.initializer)


def constants_as_nodes(model: ModelProto, _: Choices) -> ModelProto:
    """Initializers become Constant nodes."""
    constants = [
        helper.make_node("Constant", [], [tensor.name], name=f"{tensor.name}/c", value=tensor)
        for tensor in model.graph.initializer
    ]
    copy = _with_nodes(model, [*constants, *model.graph.node])
    del copy.graph.initializer[:]
    return copy


def constants_as_initializers(model: ModelProto, _: Choices) -> ModelProto:
    """Constant nodes become initializers."""
    copy = _with_nodes(model, [node for node in model.graph.node if node.op_type != "Constant"])
    for node in model.graph.node:
        if node.op_type == "Constant":
            tensor = numpy_helper.from_array(numpy_helper.to_array(node.attribute[0].t), node.output[0])
            copy.graph.initializer.append(tensor)
    return copy


def shared_constants(model: ModelProto, _: Choices) -> ModelProto:
    """Equal initializers become one, as optimisers do it."""
    first: dict[bytes, str] = {}
    new: dict[str, str] = {}
    copy = _copied(model)
    del copy.graph.initializer[:]
    for tensor in model.graph.initializer:
        unnamed = TensorProto()
        unnamed.CopyFrom(tensor)
        unnamed.ClearField("name")
        new[tensor.name] = first.setdefault(unnamed.SerializeToString(), tensor.name)
        if new[tensor.name] == tensor.name:
            copy.graph.initializer.append(tensor)
    for node in copy.graph.node:
        node.input[:] = [new.get(name, name) for name in node.input]
    return copy


def shared_pools(model: ModelProto, _: Choices) -> ModelProto:
    """MaxPools with the same input and attributes become one, as optimisers do it."""
    first: dict[bytes, NodeProto] = {}
    new: dict[str, str] = {}
    nodes = []
    for node in _copied(model).graph.node:
        node.input[:] = [new.get(name, name) for name in node.input]
        key = NodeProto(op_type=node.op_type, input=node.input, attribute=node.attribute).SerializeToString()
        known = first.setdefault(key, node) if node.op_type == "MaxPool" else node
        new |= dict(zip(node.output, known.output, strict=True))
        if known is node:
            nodes.append(node)
    return _with_nodes(model, nodes)


def identities(model: ModelProto, choices: Choices) -> ModelProto:
    """Chosen inputs of nodes go through an Identity."""
    nodes: list[NodeProto] = []
    chosen = itertools.cycle(choices)
    for node in _copied(model).graph.node:
        for position, name in enumerate(node.input):
            if name and next(chosen) % 3 == 1:
                same = f"{name}/same{len(nodes)}"
                nodes.append(helper.make_node("Identity", [name], [same], name=same))
                node.input[position] = same
        nodes.append(node)
    return _with_nodes(model, nodes)


def bystanders(model: ModelProto, choices: Choices) -> ModelProto:
    """Branches that read inputs, and whose results are further outputs."""
    copy = _copied(model)
    for number, choice in enumerate(choices[:3]):
        value, result = model.graph.input[choice % len(model.graph.input)], f"bystander{number}"
        branches = {
            f"{name}_branch": _unary(op, value, f"{result}{op}") for name, op in (("then", "Neg"), ("else", "Abs"))
        }
        copy.graph.initializer.append(numpy_helper.from_array(np.array(choice % 2 == 0), f"{result}condition"))
        copy.graph.node.append(helper.make_node("If", [f"{result}condition"], [result], name=result, **branches))
        copy.graph.output.append(_renamed(value, result))
    return copy


def _unary(op_type: str, value: ValueInfoProto, result: str) -> GraphProto:
    node = helper.make_node(op_type, [value.name], [result])
    return helper.make_graph([node], op_type, [], [_renamed(value, result)])


def _renamed(value: ValueInfoProto, name: str) -> ValueInfoProto:
    copy = ValueInfoProto()
    copy.CopyFrom(value)
    copy.name = name
    return copy


def declared_shapes(model: ModelProto, _: Choices) -> ModelProto:
    """What ONNX infers is declared."""
    return onnx.shape_inference.infer_shapes(model)


def newer_ir(model: ModelProto, choices: Choices) -> ModelProto:
    """Another IR version, none that onnxruntime does not know."""
    copy = _copied(model)
    copy.ir_version = model.ir_version + choices[0] % max(1, 11 - model.ir_version)
    return copy


def in_a_branch(model: ModelProto, _: Choices) -> ModelProto:
    """Everything is in a branch that is taken; the other one has results of the same types."""
    taken, declined = _inner(model), GraphProto(name="declined")
    for value in model.graph.output:
        name, zeros = f"{value.name}/declined", _zeros(value)
        declined.node.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(zeros)))
        declined.output.append(helper.make_tensor_value_info(name, value.type.tensor_type.elem_type, zeros.shape))
    outputs = [value.name for value in model.graph.output]
    node = helper.make_node("If", ["taken"], outputs, name="if", then_branch=taken, else_branch=declined)
    copy = _with_nodes(model, [node])
    del copy.graph.initializer[:], copy.graph.value_info[:]
    copy.graph.initializer.append(numpy_helper.from_array(np.array(True), "taken"))
    return copy


def in_a_loop(model: ModelProto, _: Choices) -> ModelProto:
    """Everything is in the body of a loop that runs once and carries its results."""
    body = _inner(model)
    body.input.append(helper.make_tensor_value_info("number", TensorProto.INT64, []))
    body.input.append(helper.make_tensor_value_info("again", TensorProto.BOOL, []))
    body.input.extend(_renamed(value, f"{value.name}/before") for value in model.graph.output)
    body.node.append(helper.make_node("Identity", ["again"], ["more"]))
    body.output.insert(0, helper.make_tensor_value_info("more", TensorProto.BOOL, []))
    names = [value.name for value in model.graph.output]
    carried = [f"{name}/start" for name in names]
    copy = _with_nodes(model, [helper.make_node("Loop", ["once", "true", *carried], names, name="loop", body=body)])
    del copy.graph.initializer[:], copy.graph.value_info[:]
    stored = {"once": np.array(1), "true": np.array(True)}
    stored |= dict(zip(carried, map(_zeros, model.graph.output), strict=True))
    copy.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in stored.items())
    return copy


def _zeros(value: ValueInfoProto) -> npt.NDArray[Any]:
    """One zero of a value's rank and type."""
    tensor = value.type.tensor_type
    return np.zeros([1] * len(tensor.shape.dim), helper.tensor_dtype_to_np_dtype(tensor.elem_type))


def _inner(model: ModelProto) -> GraphProto:
    """The main graph as one without inputs, its outputs under other names."""
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
    """Everything is in a function of the model."""
    return _outlined(model, [node.name for node in model.graph.node if node.name], "Training")


def outlined(model: ModelProto, choices: Choices) -> ModelProto:
    """A pool over an input with its gradient is in a function of the model, if nothing is between them."""
    prefixes = sorted({node.name.partition("/")[0] for node in model.graph.node if "/" in node.name})
    parents = {name.rpartition("c")[0] for name in prefixes}
    leaves = [name for name in prefixes if name.startswith("r") and name not in parents]
    leaf = leaves[choices[0] % len(leaves)]
    return _outlined(model, [node.name for node in model.graph.node if node.name.startswith(f"{leaf}/")], leaf)


def inlined(model: ModelProto, choices: Choices) -> ModelProto:
    """What was in a function is put in place of its call."""
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
    copy = _with_nodes(model, [node for node in nodes if node is call or node.name not in labels])
    kept = [value for value in model.graph.value_info if value.name not in made or value.name in outputs]
    del copy.graph.value_info[:]
    copy.graph.value_info.extend(kept)
    copy.functions.append(function)
    copy.opset_import.append(helper.make_opsetid(FUNCTION_DOMAIN, 1))
    copy.ir_version = max(model.ir_version, _FIRST_IR_WITH_TYPED_FUNCTIONS)
    return copy


_FIRST_IR_WITH_TYPED_FUNCTIONS = 10
TRANSFORMS: tuple[Transform, ...] = (
    rename,
    reorder,
    unsorted,
    constants_as_nodes,
    constants_as_initializers,
    shared_constants,
    shared_pools,
    identities,
    bystanders,
    declared_shapes,
    newer_ir,
    in_a_branch,
    in_a_loop,
    in_a_function,
    outlined,
    inlined,
)
