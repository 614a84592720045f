"""Function bodies of the dialect: each op as an `onnx.FunctionProto` of standard operators.

A body lets a runtime that knows nothing of domain `npu` run a lowered model. onnxruntime inlines it under the opset
of the model, so a body is made for that opset and stays within it.
"""

from __future__ import annotations

from onnx import FunctionProto, TensorProto, parser

from poolgrad_lowering.dialect.attributes import default_proto
from poolgrad_lowering.dialect.gradient import OLDEST_BFLOAT16_OPSET, OLDEST_OPSET, scatter_text
from poolgrad_lowering.dialect.ops import DOMAIN, OPS, TYPES, VALUE
from poolgrad_lowering.errors import PoolgradError


class NoFunctionBodyError(PoolgradError):
    """No body of standard operators exists for this op, opset and element type."""


def function_body(op: str, opset: int, element_type: int) -> FunctionProto:
    """Return the body of `op` for a model that imports the default domain at `opset`.

    `element_type` (`TensorProto.DataType`) is the type of x. From opset 15 on one body serves every element type and
    the argument changes nothing; below, all nodes of an op in one model must share their element type.

    Raises `NoFunctionBodyError` below opset 9, for bfloat16 below opset 13, and for types that x cannot have;
    `KeyError` for an op that is not in `OPS`.
    """
    described = OPS[op]
    _require_body(op, opset, element_type)
    head = f'<domain: "{DOMAIN}", opset_import: ["": {opset}]> {op}'
    inputs = ", ".join(operand.name for operand in described.inputs)
    outputs = ", ".join(operand.name for operand in described.outputs)
    body = parser.parse_function(f"{head} ({inputs}) => ({outputs}) {{{scatter_text(opset, element_type)}}}")
    body.doc_string = described.doc
    for attribute in described.attributes:
        if attribute.required:
            body.attribute.append(attribute.name)
        else:
            body.attribute_proto.append(default_proto(attribute))
    return body


def _require_body(op: str, opset: int, element_type: int) -> None:
    if element_type not in TYPES[VALUE]:
        expected = ", ".join(map(TensorProto.DataType.Name, TYPES[VALUE]))
        raise NoFunctionBodyError(
            f"{DOMAIN}.{op}: no body for x of element type number {element_type}, expected one of {expected}."
        )
    oldest = OLDEST_BFLOAT16_OPSET if element_type == TensorProto.BFLOAT16 else OLDEST_OPSET
    if opset < oldest:
        name = TensorProto.DataType.Name(element_type)
        raise NoFunctionBodyError(
            f"{DOMAIN}.{op}: no body for {name} at opset {opset}; convert the model to opset {oldest} or newer."
        )
