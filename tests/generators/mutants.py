# SPDX-License-Identifier: Apache-2.0

"""Models with one random change, after which most gradients are not gradients any more.

What the compiler still lowers of a mutant that runs has to give the mutant's results. That needs no opinion on which
mutants are gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, helper, numpy_helper

from tests.generators.transforms import constants_as_nodes

_SWAPPED = {
    "Add": ("Sub", "Mul"),
    "Sub": ("Add",),
    "Mul": ("Add",),
    "Mod": ("Sub", "Add"),
    "ReduceMax": ("ReduceMin",),
    "ArgMax": ("ArgMin",),
    "Neg": ("Identity",),
    "Identity": ("Neg",),
    "Unsqueeze": ("Squeeze",),
    "Transpose": ("Identity",),
}
_REDUCTIONS = ("none", "add", "mul", "max", "min")
Change = Callable[[], None]


def mutant(model: ModelProto, which: int, how: int) -> ModelProto:
    """The model with its change number `which`, counted round, done in way `how`; inner types are not declared."""
    changed = constants_as_nodes(model, [0])
    del changed.graph.value_info[:]
    changes = [change for node in changed.graph.node for change in _changes(changed, node, how)]
    changes[which % len(changes)]()
    return changed


def _changes(model: ModelProto, node: NodeProto, how: int) -> Iterator[Change]:
    """The possible changes of a node."""
    if node.op_type in _SWAPPED:
        yield lambda: _swap_operator(node, how)
    if len(node.input) > 1:
        yield lambda: _swap_operands(node, how)
    for position in range(len(node.input)):
        yield lambda position=position: _rewire(model, node, position, how)
    for attribute in node.attribute:
        yield lambda attribute=attribute: _alter(attribute, how)
    if node.op_type in ("ScatterElements", "ArgMax"):
        yield lambda: _add_attribute(node, how)


def _swap_operator(node: NodeProto, how: int) -> None:
    others = _SWAPPED[node.op_type]
    node.op_type = others[how % len(others)]


def _swap_operands(node: NodeProto, how: int) -> None:
    first, second = how % len(node.input), (how + 1) % len(node.input)
    node.input[first], node.input[second] = node.input[second], node.input[first]


def _rewire(model: ModelProto, node: NodeProto, position: int, how: int) -> None:
    """Replace an input with another value that is defined before the node."""
    nodes = list(model.graph.node)
    before = [value.name for value in model.graph.input]
    before += [output for other in nodes[: nodes.index(node)] for output in other.output]
    nearest = [name for name in reversed(before) if name != node.input[position]]
    node.input[position] = nearest[how % len(nearest)]


def _add_attribute(node: NodeProto, how: int) -> None:
    name, value = ("reduction", _REDUCTIONS[how % 5]) if node.op_type == "ScatterElements" else ("select_last_index", 1)
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])


def _alter(attribute: AttributeProto, how: int) -> None:
    step = (1, -1, 2)[how % 3]
    if attribute.type == AttributeProto.INT:
        attribute.i += step
    elif attribute.type == AttributeProto.INTS and attribute.ints:
        attribute.ints[how % len(attribute.ints)] += step
    elif attribute.type == AttributeProto.STRING:
        texts = {"NOTSET": b"VALID", "add": b"max", "none": b"add", "VALID": b"SAME_UPPER", "SAME_UPPER": b"SAME_LOWER"}
        attribute.s = texts.get(attribute.s.decode(), attribute.s)
    elif attribute.type == AttributeProto.TENSOR:
        _alter_tensor(attribute, how, step)


def _alter_tensor(attribute: AttributeProto, how: int, step: int) -> None:
    """Change one element, or swap two."""
    array = numpy_helper.to_array(attribute.t).copy()
    if not array.size:
        return
    flat = array.reshape(-1)
    place, other = how % array.size, (how + 1) % array.size
    if how % 2 and flat[place] != flat[other]:
        flat[[place, other]] = flat[[other, place]]
    else:
        flat[place] = not flat[place] if array.dtype == np.bool_ else flat[place] + step
    attribute.t.CopyFrom(numpy_helper.from_array(array, attribute.t.name))
