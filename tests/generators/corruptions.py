# SPDX-License-Identifier: Apache-2.0

"""Corruptions of lowered models: random edits after which `verify` may not call a model proven.

Each kind changes what a model computes, what the provider takes, or what is outside of the sites. It leaves a model as
it is that has nothing that it can change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from poolgrad_lowering.dialect import DOMAIN, OPS, function_body

Corruption = Callable[[ModelProto, Random], None]
Entry = TypeVar("Entry")

_ANOTHER = MappingProxyType({"data_format": (b"NDHWC", b"NHWC", b""), "ceil_mode": (-1, 2), "dtype": (0, 4)})


def _dialect(model: ModelProto, kind: str = "") -> list[NodeProto]:
    return [node for node in model.graph.node if node.domain == DOMAIN and node.op_type in OPS and kind in node.op_type]


def _others(model: ModelProto) -> list[NodeProto]:
    return [node for node in model.graph.node if node.domain != DOMAIN and not node.op_type.endswith("squeeze")]


def _pick(random: Random, entries: Sequence[Entry]) -> list[Entry]:
    """One of the entries, if there are any."""
    return [random.choice(entries)] if entries else []


def _insert(model: ModelProto, after: NodeProto | None, *nodes: NodeProto) -> None:
    position = list(model.graph.node).index(after) + 1 if after is not None else 0
    for node in reversed(nodes):
        model.graph.node.insert(position, node)


# -- nodes of the dialect


def attribute_gone(model: ModelProto, random: Random) -> None:
    for node in _pick(random, [node for node in _dialect(model) if node.attribute]):
        node.attribute.remove(random.choice(node.attribute))


def attribute_unknown(model: ModelProto, random: Random) -> None:
    for node in _pick(random, _dialect(model)):
        name = random.choice(("storage_order", "auto_pad", "kernel_shape", "Ksize", "argmax_type"))
        node.attribute.append(helper.make_attribute(name, 0))


def attribute_twice(model: ModelProto, random: Random) -> None:
    for node in _pick(random, [node for node in _dialect(model) if node.attribute]):
        node.attribute.append(random.choice(node.attribute))


def attribute_not_allowed(model: ModelProto, random: Random) -> None:
    """A value that the dialect does not allow, one of another type, or a list of another length."""
    for node in _pick(random, [node for node in _dialect(model) if node.attribute]):
        attribute = random.choice(node.attribute)
        if attribute.name in _ANOTHER and random.random() < 0.7:
            value = random.choice(_ANOTHER[attribute.name])
            attribute.CopyFrom(helper.make_attribute(attribute.name, value))
        elif attribute.type == AttributeProto.INTS and random.random() < 0.7:
            how = random.randrange(3)
            changed = [[*attribute.ints, 1], list(attribute.ints)[1:], [-1 - n for n in attribute.ints]][how]
            attribute.CopyFrom(helper.make_attribute(attribute.name, changed, attr_type=AttributeProto.INTS))
        else:
            attribute.CopyFrom(helper.make_attribute(attribute.name, 1.5))


def other_windows(model: ModelProto, random: Random) -> None:
    """A kernel, stride or padding that is one more or less."""
    for node in _pick(random, [node for node in _dialect(model, "MaxPool") if _list(node, "ksize")]):
        name = random.choice(("ksize", "strides", "pads"))
        entries = _list(node, name)
        entries[random.randrange(len(entries))] += random.choice((-1, 1))
        next(attribute for attribute in node.attribute if attribute.name == name).ints[:] = entries


def _list(node: NodeProto, name: str) -> list[int]:
    return [number for attribute in node.attribute if attribute.name == name for number in attribute.ints]


def operands_exchanged(model: ModelProto, random: Random) -> None:
    for node in _pick(random, _dialect(model, "Grad")):
        first, second = random.sample(range(3), 2)
        node.input[first], node.input[second] = node.input[second], node.input[first]


def operand_gone(model: ModelProto, random: Random) -> None:
    for node in _pick(random, _dialect(model)):
        names = random.choice((node.input, node.output))
        position = random.randrange(len(names))
        if random.random() < 0.5:
            names[position] = ""
        else:
            del names[position]


def another_operator(model: ModelProto, random: Random) -> None:
    for node in _pick(random, _dialect(model)):
        node.op_type = random.choice([name for name in (*OPS, "Unheard") if name != node.op_type])


def overload(model: ModelProto, random: Random) -> None:
    for node in _pick(random, _dialect(model)):
        node.overload = "other"
        for body in [function for function in model.functions if function.name == node.op_type]:
            model.functions.add().CopyFrom(body)
            model.functions[-1].overload = "other"


# -- values around them


def value_computed_with(model: ModelProto, random: Random) -> None:
    """A node on the way of a result, of x or of the incoming gradient; most leave all values but a few as they are."""
    for node in _pick(random, _dialect(model, "Grad")):
        names, position = random.choice(((node.input, 0), (node.input, 1), (node.output, 0)))
        name, between = names[position], f"{names[position]} before"
        source, result = (between, name) if names is node.output else (name, between)
        nodes = random.choice((_negated, _one_value, _clipped, _plus_zero))(source, result)
        if names is node.output:
            _insert(model, node, *nodes)
        else:
            place = list(model.graph.node).index(node)
            _insert(model, model.graph.node[place - 1] if place else None, *nodes)
        names[position] = between


def _negated(source: str, result: str) -> list[NodeProto]:
    return [helper.make_node("Neg", [source], [result])]


def _one_value(source: str, result: str) -> list[NodeProto]:
    """Another result for one value only, which no data has."""
    return [
        helper.make_node("Constant", [], [f"{result} value"], value_float=0.12345678),
        helper.make_node("CastLike", [f"{result} value", source], [f"{result} like"]),
        helper.make_node("Equal", [source, f"{result} like"], [f"{result} hit"]),
        helper.make_node("Neg", [source], [f"{result} negated"]),
        helper.make_node("Where", [f"{result} hit", f"{result} negated", source], [result]),
    ]


def _clipped(source: str, result: str) -> list[NodeProto]:
    return [helper.make_node("Max", [source], [result])]


def _plus_zero(source: str, result: str) -> list[NodeProto]:
    return [
        helper.make_node("Sum", [source, source], [f"{result} twice"]),
        helper.make_node("Relu", [source], [result]),
    ]


def index_moved(model: ModelProto, random: Random) -> None:
    """All indices, or those of one value, are one more."""
    for node in _pick(random, _dialect(model, "Grad")):
        name = node.input[2]
        nodes = [
            helper.make_node("Constant", [], [f"{name} one"], value_int=1),
            helper.make_node("CastLike", [f"{name} one", name], [f"{name} like"]),
        ]
        if random.random() < 0.5:
            nodes.append(helper.make_node("Add", [name, f"{name} like"], [f"{name} moved"]))
        else:
            nodes.append(helper.make_node("Max", [name, f"{name} like"], [f"{name} moved"]))
        place = list(model.graph.node).index(node)
        _insert(model, model.graph.node[place - 1] if place else None, *nodes)
        node.input[2] = f"{name} moved"


# -- function bodies


def _bodies(model: ModelProto) -> list[FunctionProto]:
    return [function for function in model.functions if function.domain == DOMAIN]


def body_changed(model: ModelProto, random: Random) -> None:
    """An operator, attribute, edge or declared attribute of a body, or its name of a node."""
    for body in _pick(random, _bodies(model)):
        node = random.choice(body.node)
        kind = random.randrange(5)
        if kind == 0 and node.attribute:
            node.attribute.remove(random.choice(node.attribute))
        elif kind == 1 and body.attribute:
            body.attribute.pop()
        elif kind == 2 and len(node.input) > 1:
            node.input[0], node.input[1] = node.input[1], node.input[0]
        elif kind == 3:
            body.opset_import[0].version += random.choice((-1, 1))
        else:
            node.name += " changed"


def body_wrong_for_one_value(model: ModelProto, random: Random) -> None:
    """Or above some number of elements."""
    for body in _pick(random, _bodies(model)):
        result = body.output[0]
        last = next(node for node in body.node if result in node.output)
        last.output[list(last.output).index(result)] = "right"
        if random.random() < 0.5:
            body.node.extend(_one_value("right", result))
        else:
            body.node.extend(
                [
                    helper.make_node("Size", ["right"], ["count"]),
                    helper.make_node("Constant", [], ["most"], value_int=4 << 20),
                    helper.make_node("Greater", ["count", "most"], ["large"]),
                    helper.make_node("Neg", ["right"], ["wrong"]),
                    helper.make_node("Where", ["large", "wrong", "right"], [result]),
                ]
            )


def body_twice(model: ModelProto, random: Random) -> None:
    for body in _pick(random, _bodies(model)):
        copied = model.functions.add()
        copied.CopyFrom(body)
        if random.random() < 0.5:
            body_wrong_for_one_value(ModelProto(functions=[copied]), random)


def body_gone(model: ModelProto, random: Random) -> None:
    for body in _pick(random, _bodies(model)):
        model.functions.remove(body)


def function_that_nothing_calls(model: ModelProto, random: Random) -> None:
    names = {function.name for function in model.functions}
    for name in _pick(random, [name for name in OPS if name not in names]):
        model.functions.append(function_body(name, max(16, model.opset_import[0].version), [TensorProto.FLOAT]))


# -- what is outside of the sites


def other_node_changed(model: ModelProto, random: Random) -> None:
    """An attribute, operand or operator of a standard node."""
    for node in _pick(random, [node for node in _others(model) if node.input]):
        kind = random.randrange(4)
        if kind == 0:
            node.op_type = "Neg" if node.op_type != "Neg" else "Abs"
        elif kind == 1:
            node.attribute.append(helper.make_attribute("more", 1))
        elif kind == 2:
            node.input.append(node.input[0])
        else:
            node.output[0] += " renamed"


def node_gone(model: ModelProto, random: Random) -> None:
    for node in _pick(random, list(model.graph.node)):
        model.graph.node.remove(node)


def node_more(model: ModelProto, random: Random) -> None:
    for node in _pick(random, [node for node in model.graph.node if node.output and node.output[0]]):
        _insert(model, node, helper.make_node("Identity", [node.output[0]], [f"{node.output[0]} again"]))


def value_made_twice(model: ModelProto, random: Random) -> None:
    nodes = [node for node in model.graph.node if node.output]
    if len(nodes) > 1:
        first, second = sorted(random.sample(range(len(nodes)), 2))
        nodes[second].output[0] = nodes[first].output[0]


def initializer_changed(model: ModelProto, random: Random) -> None:
    """A number is one more, or there are twice as many; `axes_changed` changes those of axes."""
    others = [held for held in model.graph.initializer if held not in _axes(model)]
    for tensor in _pick(random, [held for held in others if np.prod(held.dims) > 0]):
        values = numpy_helper.to_array(tensor).copy()
        flat = values.reshape(-1)
        flat[random.randrange(flat.size)] += 1
        if random.random() < 0.3:
            values = np.concatenate([values.reshape(-1), values.reshape(-1)])
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def initializer_twice(model: ModelProto, random: Random) -> None:
    for tensor in _pick(random, list(model.graph.initializer)):
        model.graph.initializer.insert(random.choice((0, len(model.graph.initializer))), tensor)


def initializer_gone(model: ModelProto, random: Random) -> None:
    read = {name for node in model.graph.node for name in node.input}
    for tensor in _pick(random, [held for held in model.graph.initializer if held.name in read]):
        model.graph.initializer.remove(tensor)


def initializer_more(model: ModelProto, _: Random) -> None:
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(1, np.float32), "one more"))


def interface_changed(model: ModelProto, random: Random) -> None:
    """An input or output is gone, another one, of another type, or in another place."""
    values = random.choice((model.graph.input, model.graph.output))
    position, kind = random.randrange(len(values)), random.randrange(4)
    if kind == 0:
        del values[position]
    elif kind == 1:
        values[position].name += " renamed"
    elif kind == 2:
        values[position].type.tensor_type.elem_type = TensorProto.DOUBLE
    elif len(values) > 1:
        values.insert(0, values.pop())
    else:
        values.append(helper.make_tensor_value_info("one more", TensorProto.FLOAT, [1]))


def value_info_changed(model: ModelProto, random: Random) -> None:
    if not model.graph.value_info or random.random() < 0.3:
        model.graph.value_info.append(helper.make_tensor_value_info("no value", TensorProto.FLOAT, [1]))
    elif random.random() < 0.5:
        model.graph.value_info.remove(random.choice(model.graph.value_info))
    else:
        random.choice(model.graph.value_info).type.tensor_type.elem_type = TensorProto.DOUBLE


def import_changed(model: ModelProto, random: Random) -> None:
    entry = random.choice([entry for entry in model.opset_import if entry.domain in ("", DOMAIN)])
    kind = random.randrange(3)
    if kind == 0:
        entry.version += 1
    elif kind == 1:
        model.opset_import.append(entry)
    else:
        entry.domain = "other"


def description_changed(model: ModelProto, random: Random) -> None:
    name = random.choice(("producer_name", "producer_version", "doc_string", "domain"))
    setattr(model, name, f"{getattr(model, name)} changed")


def weight_as_another_input(model: ModelProto, random: Random) -> None:
    """An initializer becomes an input of another type or shape."""
    read = {name for node in model.graph.node for name in node.input}
    for tensor in _pick(random, [held for held in model.graph.initializer if held.name in read]):
        element, dims = tensor.data_type, list(tensor.dims)
        if random.random() < 0.5:
            element = TensorProto.FLOAT16 if element != TensorProto.FLOAT16 else TensorProto.FLOAT
        else:
            dims = [*dims, 1]
        model.graph.input.append(helper.make_tensor_value_info(tensor.name, element, dims))
        model.graph.initializer.remove(tensor)


def _axes(model: ModelProto) -> list[TensorProto]:
    read = {node.input[1] for node in model.graph.node if node.op_type in ("Squeeze", "Unsqueeze") and node.input[1:]}
    return [tensor for tensor in model.graph.initializer if tensor.name in read]


def axes_changed(model: ModelProto, random: Random) -> None:
    """One Unsqueeze or Squeeze around a node of rank 5 takes another axis; if all did, results could be the same."""
    stored = {tensor.name: tensor for tensor in _axes(model)}
    views = [node for node in model.graph.node if node.op_type in ("Squeeze", "Unsqueeze")]
    for node in _pick(random, [node for node in views if stored.keys() & set(node.input[1:])]):
        axes = numpy_helper.to_array(stored[node.input[1]]) + random.choice((-1, 1))
        node.input[1] = f"other axes of {node.output[0]}"
        model.graph.initializer.append(numpy_helper.from_array(axes, node.input[1]))


def expanded_node_changed(model: ModelProto, random: Random) -> None:
    """A node of an expanded gradient gets another operator, attribute or operand."""
    for node in _pick(random, [node for node in model.graph.node if node.name.endswith("__1")]):
        kind = random.randrange(3)
        if kind == 0:
            node.op_type = "Neg"
        elif kind == 1 and node.attribute:
            node.attribute.pop()
        else:
            node.input.append(node.input[0] if node.input else "x")


KINDS: Mapping[str, Corruption] = MappingProxyType(
    {
        kind.__name__.replace("_", " "): kind
        for kind in (
            attribute_gone,
            attribute_unknown,
            attribute_twice,
            attribute_not_allowed,
            other_windows,
            operands_exchanged,
            operand_gone,
            another_operator,
            overload,
            value_computed_with,
            index_moved,
            body_changed,
            body_wrong_for_one_value,
            body_twice,
            body_gone,
            function_that_nothing_calls,
            axes_changed,
            expanded_node_changed,
            other_node_changed,
            node_gone,
            node_more,
            value_made_twice,
            initializer_changed,
            initializer_twice,
            initializer_gone,
            initializer_more,
            interface_changed,
            weight_as_another_input,
            value_info_changed,
            import_changed,
            description_changed,
        )
    }
)
"""All kinds, by the names that `docs/verify.md` has."""
