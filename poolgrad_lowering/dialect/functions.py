# SPDX-License-Identifier: Apache-2.0

"""Function bodies of the dialect: each op as an `onnx.FunctionProto` of standard operators.

A body lets a runtime without kernels for domain `npu` run a lowered model. onnxruntime inlines it with the opset of the
model, so a body is created for that opset.
"""

from __future__ import annotations

from collections.abc import Collection

from google.protobuf.message import Message
from onnx import FunctionProto, TensorProto, parser

from poolgrad_lowering.dialect.op import DOMAIN, TYPES, VALUE, Body, Maximum, Op, default_proto
from poolgrad_lowering.dialect.ops import OPS
from poolgrad_lowering.model.diagnostics.errors import PoolgradError
from poolgrad_lowering.model.ir.graphs import remove_entries, with_inner


class NoFunctionBodyError(PoolgradError):
    """No body of standard operators exists for this op, opset and element types."""


_CAST_LIKE_OPSET = 15


def function_body(
    op: str,
    opset: int,
    element_types: Collection[int],
    index_type: int = TensorProto.INT32,
    *,
    maximum: Maximum = Maximum.SELECTED,
) -> FunctionProto:
    """Return the body of `op` for a model that imports the default domain at `opset`.

    `element_types` (`TensorProto.DataType`) are the types of x in the nodes of `op`, one or more; the body converts to
    float32 and back only if one of them needs it.
    `index_type` is the type of argmax in the nodes of a pool, the same for all nodes of one op in a model: a body in
    standard ONNX cannot read Ascend's type numbers from an attribute. It has no effect for gradients.
    `maximum` says how the body computes y. It has no effect for an op with one body.

    Raises `NoFunctionBodyError` for gradients below opset 9, for pools below opset 10, for adaptive pools below opset
    12, for bfloat16 below opset 13 (`Maximum.FILLED`: 16), for types that x cannot have, and below opset 15 for several
    types of which one needs a conversion; `KeyError` for an op that is not in `OPS`.
    """
    described = OPS[op]
    types = frozenset(element_types)
    written = described.bodies.get(maximum, described.bodies[Maximum.SELECTED])
    _require_body(described, written, opset, types)
    head = f'<domain: "{DOMAIN}", opset_import: ["": {opset}]> {op}'
    inputs = ", ".join(operand.name for operand in described.inputs)
    outputs = ", ".join(operand.name for operand in described.outputs)
    one, *more = sorted(types)
    typed = next(operand.name for operand in described.inputs if operand.type_variable == VALUE)
    to_x = f"CastLike({{}}, {typed})" if more else f"Cast<to = {one}>({{}})"
    text = written.text(opset, index_type, None if types <= written.computed else to_x)
    body = parser.parse_function(f"{head} ({inputs}) => ({outputs}) {{{text}}}")
    for node in with_inner(body.node):
        # When onnxruntime inlines a body, it puts the calling node's name before these names, and names fused nodes
        # after the nodes that they replace. Two fused nodes of nodes without names would have the same name.
        node.name = node.output[0]
    for attribute in described.attributes:
        if attribute.required:
            body.attribute.append(attribute.name)
        else:
            body.attribute_proto.append(default_proto(attribute))
    return body


def _require_body(op: Op, body: Body, opset: int, element_types: frozenset[int]) -> None:
    if strange := sorted(element_types.difference(TYPES[VALUE])):
        expected = ", ".join(map(TensorProto.DataType.Name, TYPES[VALUE]))
        raise NoFunctionBodyError(
            f"{DOMAIN}.{op.name}: no body for x of element type number {strange[0]}, expected one of {expected}."
        )
    oldest = max(body.oldest, body.oldest_bfloat16) if TensorProto.BFLOAT16 in element_types else body.oldest
    if len(element_types) > 1 and not element_types <= body.computed:
        oldest = max(oldest, _CAST_LIKE_OPSET)
    if opset < oldest:
        names = " and ".join(TensorProto.DataType.Name(element_type) for element_type in sorted(element_types))
        raise NoFunctionBodyError(
            f"{DOMAIN}.{op.name}: no body for {names} at opset {opset}; convert the model to opset {oldest} or newer."
        )


def body_bytes(function: FunctionProto) -> bytes:
    """Return the bytes by which bodies are compared: without empty strings and the defaults that the dialect declares.

    Other tools that read and write a model leave both out. Raises `KeyError` for a function whose name is not in `OPS`.
    """
    kept = FunctionProto()
    kept.CopyFrom(function)
    defaults = [default_proto(attribute) for attribute in OPS[function.name].attributes if not attribute.required]
    remove_entries(kept.attribute_proto, defaults.__contains__)
    _clear_empty_strings(kept)
    return kept.SerializeToString(deterministic=True)


def _clear_empty_strings(message: Message) -> None:
    for field, value in message.ListFields():
        if value == "":
            message.ClearField(field.name)
        elif field.type == field.TYPE_MESSAGE:
            for inner in (value,) if isinstance(value, Message) else value:
                _clear_empty_strings(inner)
