# SPDX-License-Identifier: Apache-2.0

"""Equivalent rewrites of a model, which must not change the gradients that are found or a bit of the results.

Each takes a model and a short list of small numbers, by which it chooses, and returns a new model.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TensorShapeProto, ValueInfoProto, helper, numpy_helper

from tests.generators.places import in_a_branch, in_a_function, in_a_loop, inlined, outlined
from tests.generators.protos import Choices, copied, renamed, with_nodes

Transform = Callable[[ModelProto, Choices], ModelProto]


def _names(model: ModelProto) -> Iterator[str]:
    """Every name of a value in the main graph."""
    yield from _outer(model)
    for node in model.graph.node:
        yield from (name for name in node.output if name)


def rename(model: ModelProto, _: Choices) -> ModelProto:
    """Rename every inner value; the names of nodes still identify the sites."""
    kept = {value.name for value in (*model.graph.input, *model.graph.output)}
    new = {name: name if name in kept else f"%{number}" for number, name in enumerate(_names(model))}
    copy = copied(model)
    for node in copy.graph.node:
        node.input[:] = [new.get(name, name) for name in node.input]
        node.output[:] = [new.get(name, name) for name in node.output]
    for tensor in copy.graph.initializer:
        tensor.name = new[tensor.name]
    for value in copy.graph.value_info:
        value.name = new[value.name]
    return copy


def reorder(model: ModelProto, choices: Choices) -> ModelProto:
    """Another topological order, chosen step by step among the nodes that are ready."""
    waiting, ordered = list(model.graph.node), []
    known = {"", *_outer(model)}
    chosen = itertools.cycle(choices)
    while waiting:
        ready = [node for node in waiting if known.issuperset(node.input)]
        node = ready[next(chosen) % len(ready)]
        waiting.remove(node)
        ordered.append(node)
        known.update(node.output)
    return with_nodes(model, ordered)


def unsorted(model: ModelProto, _: Choices) -> ModelProto:
    """The nodes in reverse order; the model does not run, but can be sorted again."""
    return with_nodes(model, reversed(model.graph.node))


def _outer(model: ModelProto) -> Iterator[str]:
    yield from (value.name for value in model.graph.input)
    yield from (tensor.name for tensor in model.graph.initializer)


def constants_as_nodes(model: ModelProto, _: Choices) -> ModelProto:
    """Replace initializers with Constant nodes."""
    constants = [
        helper.make_node("Constant", [], [tensor.name], name=f"{tensor.name}/c", value=tensor)
        for tensor in model.graph.initializer
    ]
    copy = with_nodes(model, [*constants, *model.graph.node])
    del copy.graph.initializer[:]
    return copy


def constants_as_initializers(model: ModelProto, _: Choices) -> ModelProto:
    """Replace Constant nodes with initializers."""
    copy = with_nodes(model, [node for node in model.graph.node if node.op_type != "Constant"])
    for node in model.graph.node:
        if node.op_type == "Constant":
            tensor = numpy_helper.from_array(numpy_helper.to_array(node.attribute[0].t), node.output[0])
            copy.graph.initializer.append(tensor)
    return copy


def shared_constants(model: ModelProto, _: Choices) -> ModelProto:
    """Merge equal initializers, as optimisers do."""
    first: dict[bytes, str] = {}
    new: dict[str, str] = {}
    copy = copied(model)
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
    """Merge MaxPools with the same input and attributes, as optimisers do."""
    first: dict[bytes, NodeProto] = {}
    new: dict[str, str] = {}
    nodes = []
    for node in copied(model).graph.node:
        node.input[:] = [new.get(name, name) for name in node.input]
        key = NodeProto(op_type=node.op_type, input=node.input, attribute=node.attribute).SerializeToString()
        known = first.setdefault(key, node) if node.op_type == "MaxPool" else node
        new |= dict(zip(node.output, known.output, strict=True))
        if known is node:
            nodes.append(node)
    return with_nodes(model, nodes)


def identities(model: ModelProto, choices: Choices) -> ModelProto:
    """Insert an Identity before some inputs of nodes."""
    nodes: list[NodeProto] = []
    chosen = itertools.cycle(choices)
    for node in copied(model).graph.node:
        for position, name in enumerate(node.input):
            if name and next(chosen) % 3 == 1:
                same = f"{name}/same{len(nodes)}"
                nodes.append(helper.make_node("Identity", [name], [same], name=same))
                node.input[position] = same
        nodes.append(node)
    return with_nodes(model, nodes)


def bystanders(model: ModelProto, choices: Choices) -> ModelProto:
    """Add branches that use the inputs, and whose results are further outputs."""
    copy = copied(model)
    for number, choice in enumerate(choices[:3]):
        value, result = model.graph.input[choice % len(model.graph.input)], f"bystander{number}"
        branches = {
            f"{name}_branch": _unary(op, value, f"{result}{op}") for name, op in (("then", "Neg"), ("else", "Abs"))
        }
        copy.graph.initializer.append(numpy_helper.from_array(np.array(choice % 2 == 0), f"{result}condition"))
        copy.graph.node.append(helper.make_node("If", [f"{result}condition"], [result], name=result, **branches))
        copy.graph.output.append(renamed(value, result))
    return copy


def _unary(op_type: str, value: ValueInfoProto, result: str) -> GraphProto:
    node = helper.make_node(op_type, [value.name], [result])
    return helper.make_graph([node], op_type, [], [renamed(value, result)])


def declared_shapes(model: ModelProto, _: Choices) -> ModelProto:
    """Declare the types that ONNX infers."""
    return onnx.shape_inference.infer_shapes(model)


def false_shapes(model: ModelProto, choices: Choices) -> ModelProto:
    """Declare other shapes for values that ONNX's operators compute. Most runtimes warn and go by the real ones."""
    copy = declared_shapes(model, choices)
    chosen = itertools.cycle(choices)
    computed = {name for node in copy.graph.node if is_defined(node) for name in node.output}
    for value in (*copy.graph.value_info, *copy.graph.output):
        if value.name in computed:
            _falsify(value.type.tensor_type.shape, next(chosen))
    return copy


def is_defined(node: NodeProto) -> bool:
    """Whether ONNX defines the node's operator: its outputs have the shapes that ONNX says, whatever is declared."""
    return bool(onnx.defs.has(node.op_type, node.domain))


def _falsify(shape: TensorShapeProto, choice: int) -> None:
    """Reverse the sizes, or make one of them another number, or keep them."""
    if choice % 3 == 1:
        sizes = [dim.SerializeToString() for dim in shape.dim]
        for dim, size in zip(shape.dim, reversed(sizes), strict=True):
            dim.ParseFromString(size)
    elif choice % 3 == 2 and shape.dim:
        dim = shape.dim[choice % len(shape.dim)]
        dim.dim_value = dim.dim_value + 1 + choice


def newer_ir(model: ModelProto, choices: Choices) -> ModelProto:
    """Another IR version that onnxruntime supports."""
    copy = copied(model)
    copy.ir_version = model.ir_version + choices[0] % max(1, 11 - model.ir_version)
    return copy


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
