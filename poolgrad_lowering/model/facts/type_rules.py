# SPDX-License-Identifier: Apache-2.0

"""Rules that compute the element type of a value from the node that produces it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from onnx import TensorProto
from onnx.defs import OpSchema

from poolgrad_lowering.model.facts.training_operators import training_type
from poolgrad_lowering.model.ir.attributes import attribute, integer, onnx_schema
from poolgrad_lowering.model.ir.producers import gives_positions, typed_like
from poolgrad_lowering.model.ir.scopes import Node, Value

HALF_TYPES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
FLOAT_TYPES = (TensorProto.FLOAT, TensorProto.DOUBLE, *HALF_TYPES)
"""The element types in which runtimes store values and do not sum: sums are in float32."""
_NUMBERS = {f"tensor({name.lower()})": number for name, number in TensorProto.DataType.items()}


def stated_type(node: Node, value: Value) -> int | None:
    """Return the element type of a node's output if the operator and its attributes determine it, else None."""
    if node.is_a("Cast"):
        to = integer(node, "to")
        return to if to in TensorProto.DataType.values() else None
    if node.is_a("Constant", "ConstantOfShape"):
        stored = attribute(node, "value")
        if isinstance(stored, TensorProto):
            return stored.data_type
        return int(TensorProto.FLOAT) if stored is None and node.is_a("ConstantOfShape") else None
    if value == node.output(1) and gives_positions(node):
        return int(TensorProto.INT64)
    _, number = training_type(node, value)
    return number or _typing(node, value)[1]


def same_typed_input(node: Node, value: Value) -> Value | None:
    """Return the input that has the element type of a node's output by the definition of the operator, or None."""
    like = typed_like(node)
    if like is not None:
        return node.input(like) if value == node.output(0) else None
    source, _ = training_type(node, value)
    position, _ = _typing(node, value)
    return source if position is None else node.input(position)


def same_typed(value: Value) -> Iterator[Value]:
    """Yield values that have the element type of a value by the definitions of the operators that make or read it."""
    node = value.producer
    source = None if node is None else same_typed_input(node, value)
    if source is not None:
        yield source
    for use in value.uses:
        reader = use.scope.node(use.position) if use.position >= 0 else None
        schema = None if reader is None else onnx_schema(*reader.op[::-1], reader.scope.opsets.get(reader.op[0]))
        if reader is not None and schema is not None:
            yield from _alike(reader, schema, value)


def _alike(node: Node, schema: OpSchema, value: Value) -> Iterator[Value]:
    """Yield the operands and results of a node whose type is that of one of its operands."""
    inputs, outputs = _typed(node.inputs, schema.inputs), _typed(node.outputs, schema.outputs)
    own = {name for name, operand in inputs if operand == value and "(" not in name}
    yield from (other for name, other in (*inputs, *outputs) if name in own and other != value)


def _typed(values: Sequence[Value | None], formal: Sequence[OpSchema.FormalParameter]) -> list[tuple[str, Value]]:
    """Return the values of a node with the names of their types; without those of which each may have its own."""
    return [
        (parameter.type_str, value)
        for value, parameter in zip(values, formal, strict=False)
        if value is not None and parameter.option is not OpSchema.FormalParameterOption.Variadic
    ]


def _typing(node: Node, value: Value) -> tuple[int | None, int | None]:
    domain, op_type = node.op
    return _typings(op_type, domain, node.scope.opsets.get(domain), node.outputs.index(value))


@lru_cache(maxsize=4096)
def _typings(op_type: str, domain: str, version: int | None, number: int) -> tuple[int | None, int | None]:
    """Return how ONNX's definition of an operator types an output: by the position of an input, or by a number."""
    schema = onnx_schema(op_type, domain, version)
    if schema is None:
        return None, None
    output = schema.outputs[min(number, len(schema.outputs) - 1)]
    if output.option is OpSchema.FormalParameterOption.Variadic and not output.is_homogeneous:
        return None, None
    if len(output.types) == 1:
        return None, _NUMBERS.get(next(iter(output.types)))
    same = (position for position, operand in enumerate(schema.inputs) if operand.type_str == output.type_str)
    return next(same, None), None
