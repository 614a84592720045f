# SPDX-License-Identifier: Apache-2.0

"""Element types, shapes and constants of a model's values by name, as the model declares or onnx infers them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from poolgrad_lowering.dialect import DOMAIN, OPS
from poolgrad_lowering.dialect.op import Part
from poolgrad_lowering.dialect.schemas import registered_schemas
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.facts.known import is_opaque
from poolgrad_lowering.model.io.external_data import ExternalData
from poolgrad_lowering.model.ir.graphs import HOLDERS, graphs, is_standard
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.ir.scopes import Scope, Value
from poolgrad_lowering.model.ir.tensors import constant_tensor

SHAPE_OPERANDS = {"ConstantOfShape": 0, "Expand": 1, "Reshape": 1}
"""The operand that is the shape of the result. GE has to know its numbers when it builds a graph."""
BOUND_OPERANDS = {
    "OneHot": (1,),
    "Pad": (1,),
    "Range": (0, 1, 2),
    "Resize": (2, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Tile": (1,),
    "TopK": (1,),
}
"""Other operands that decide the shape of a result. They may be computed in the part of the graph that reads them."""
DRAWN = frozenset(
    ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
)
"""Operators with another result each time, which are not computed when the session is made."""
_MOST_ELEMENTS = 1 << 10
"""Of a constant whose numbers are read: axes, shapes and pads have fewer."""


@dataclass(frozen=True)
class ValueTypes:
    """What is known of values, by name.

    `elements` are element types (`TensorProto.DataType`). `shapes` have a number, a name or None for each axis; sizes
    are those of inputs and initializers, and what onnx infers, the number of axes may also be another declaration's.
    `constants` are the tensors of initializers that no caller can override and of Constant nodes. `vectors` are the
    numbers and sizes of shapes that the graph computes for `SHAPE_OPERANDS`, and for nodes of the dialect.
    """

    elements: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, tuple[int | str | None, ...]] = field(default_factory=dict)
    constants: dict[str, TensorProto] = field(default_factory=dict)
    vectors: dict[str, tuple[int | str, ...]] = field(default_factory=dict)

    def copy(self) -> ValueTypes:
        """Return the same knowledge, for a rewrite of a copy of the model."""
        return ValueTypes(*(dict(getattr(self, each.name)) for each in fields(self)))

    def rank(self, name: str) -> int | None:
        """Return the number of axes of a value, None if it is not known."""
        return len(self.shapes[name]) if name in self.shapes else None

    def sizes(self, name: str, first: int = 0) -> tuple[int, ...] | None:
        """Return the sizes of a value from an axis on, None if they are not all numbers."""
        return None if name not in self.shapes else all_numbers(self.shapes[name][first:])

    def count(self, name: str) -> int | None:
        """Return the number of elements of a value whose sizes are all numbers, else None."""
        sizes = self.sizes(name)
        return None if sizes is None else math.prod(sizes)

    def numbers(self, name: str) -> list[int] | None:
        """Return the integers of a small constant in row-major order, else None."""
        tensor = self.constants.get(name)
        if tensor is None or tensor.data_location == TensorProto.EXTERNAL or np.prod(tensor.dims) > _MOST_ELEMENTS:
            return None
        array = numpy_helper.to_array(tensor)
        return [int(number) for number in array.flat] if np.issubdtype(array.dtype, np.integer) else None

    def learn(self, name: str, element: int | None, shape: Sequence[int | str | None] | None) -> None:
        """Add what is known of a value that a rewrite makes."""
        if element is not None:
            self.elements[name] = element
        if shape is not None:
            self.shapes[name] = tuple(shape)


def all_numbers(sizes: Sequence[int | str | None]) -> tuple[int, ...] | None:
    """Return the sizes, None if they are not all numbers."""
    numbers = tuple(size for size in sizes if isinstance(size, int))
    return numbers if len(numbers) == len(sizes) else None


def is_known_shape(node: NodeProto, types: ValueTypes) -> bool:
    """Whether a node is a Shape that onnxruntime computes when it makes the session."""
    return node.op_type == "Shape" and bool(node.input) and types.sizes(node.input[0]) is not None


def folded(graph: GraphProto, types: ValueTypes) -> frozenset[str]:
    """Return the constants, and what a graph computes from them: onnxruntime does so when it makes the session."""
    found = {"", *types.constants}
    for node in graph.node:
        is_folded = is_standard(node) and node.op_type not in {*DRAWN, *HOLDERS} and found.issuperset(node.input)
        if is_folded or is_known_shape(node, types):
            found.update(node.output)
    return frozenset(found)


def attributes_of(node: NodeProto) -> dict[str, Any]:
    """Return the values of a node's attributes by name."""
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


def operands_of(node: NodeProto) -> dict[Part, str]:
    """Return the operands of a node of the dialect by what they are to it; none of any other node."""
    if node.domain != DOMAIN or node.op_type not in OPS:
        return {}
    pairs = zip(OPS[node.op_type].inputs, node.input, strict=False)
    return {operand.part: name for operand, name in pairs if name}


def value_types(model: ModelProto, index: ModelIndex, external: ExternalData) -> ValueTypes:
    """Return what is known of the values of the main graph and its subgraphs. `index` is the model's index.

    Declared element types take precedence. Declared ranks, and sizes of what the dialect's operators give, stand for
    those that inference does not know. A wrong declaration leads to an error of the runtime, not to other results.
    """
    found = ValueTypes()
    for graph in graphs(model.graph):
        _learn_declared(found, graph)
    with registered_schemas():
        facts = Facts(index, external, believed=DOMAIN)
        _learn_derived(found, index.scopes[0], facts)
        _learn_vectors(found, index, facts)
    return found


def _learn_declared(found: ValueTypes, graph: GraphProto) -> None:
    for value in (*graph.input, *graph.output, *graph.value_info):
        tensor_type = value.type.tensor_type
        if tensor_type.elem_type:
            found.elements.setdefault(value.name, tensor_type.elem_type)
        if tensor_type.HasField("shape"):
            found.shapes.setdefault(value.name, (None,) * len(tensor_type.shape.dim))
    overridable = {value.name for value in graph.input}
    for tensor in graph.initializer:
        found.elements.setdefault(tensor.name, tensor.data_type)
        found.shapes[tensor.name] = tuple(tensor.dims)
        if tensor.name not in overridable:
            found.constants[tensor.name] = tensor
    for node in graph.node:
        held = constant_tensor(node)
        # As in onnxruntime's gradient of a Pad.
        if node.op_type == "Neg" and is_standard(node) and (numbers := found.numbers(node.input[0])):
            held = numpy_helper.from_array(np.array([-number for number in numbers], np.int64))
        if held is not None:
            found.constants[node.output[0]] = held
            found.learn(node.output[0], held.data_type, tuple(held.dims))


def _learn_derived(found: ValueTypes, scope: Scope, facts: Facts) -> None:
    """Add what follows of the values of the main graph; what it declares of their shapes is not believed."""
    for name in (*scope.inputs, *scope.producers):
        value = Value(scope, name)
        element, shape = facts.element_type(value), facts.shape(value)
        if element:
            found.elements.setdefault(name, element)
        if shape is not None:
            sizes = [dim.static if dim.static is not None else None if is_opaque(dim) else str(dim) for dim in shape]
            found.learn(name, None, sizes)


def _learn_vectors(found: ValueTypes, index: ModelIndex, facts: Facts) -> None:
    """Add the shapes that the main graph computes."""
    for node in index.model.graph.node:
        position = SHAPE_OPERANDS.get(node.op_type, len(node.input))
        name = operands_of(node).get(Part.SIZES) or next(iter(node.input[position : position + 1]), None)
        if name is None or name in found.constants:
            continue
        value = index.scopes[0].resolve(name)
        vector = None if value is None else facts.integers(value)
        if vector is not None:
            found.vectors[name] = tuple(str(dim) if dim.static is None else dim.static for dim in vector)
