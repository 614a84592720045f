"""Function bodies of the dialect: each op as an `onnx.FunctionProto` of standard operators.

A body lets a runtime that knows nothing of domain `npu` run a lowered model. onnxruntime inlines it under the opset
of the model, so a body is made for that opset and stays within it.
"""

from __future__ import annotations

from collections.abc import Iterable

from onnx import FunctionProto, NodeProto, TensorProto, parser

from poolgrad_lowering.dialect.adaptive_pool import adaptive_pool_text
from poolgrad_lowering.dialect.attributes import default_proto
from poolgrad_lowering.dialect.gradient import OLDEST_GRADIENT_OPSET, gradient_text
from poolgrad_lowering.dialect.op import DOMAIN, TYPES, VALUE, Kind, Op
from poolgrad_lowering.dialect.ops import OPS
from poolgrad_lowering.dialect.pool import pool_text
from poolgrad_lowering.errors import PoolgradError


class NoFunctionBodyError(PoolgradError):
    """No body of standard operators exists for this op, opset and element type."""


#: The first opset in which `Constant` takes a list, which makes an attribute of a node a tensor of its body.
_OLDEST_POOL_OPSET = 12
#: From here on the operators of the bodies take bfloat16.
_OLDEST_BFLOAT16_OPSET = 13
_CAST_LIKE_OPSET = 15


def function_body(op: str, opset: int, element_type: int, index_type: int = TensorProto.INT32) -> FunctionProto:
    """Return the body of `op` for a model that imports the default domain at `opset`.

    `element_type` (`TensorProto.DataType`) is the type of x. From opset 15 on one body serves every element type and
    the argument changes nothing; below, all nodes of an op in one model must share their element type.
    `index_type` is the type of argmax that the nodes of a pool ask for, all of one op in one model the same: in
    standard ONNX no attribute can name a type by Ascend's numbers. For gradients it changes nothing.

    Raises `NoFunctionBodyError` for gradients below opset 9, for pools below opset 12, for bfloat16 below opset 13, and
    for types that x cannot have; `KeyError` for an op that is not in `OPS`.
    """
    described = OPS[op]
    _require_body(described, opset, element_type)
    head = f'<domain: "{DOMAIN}", opset_import: ["": {opset}]> {op}'
    inputs = ", ".join(operand.name for operand in described.inputs)
    outputs = ", ".join(operand.name for operand in described.outputs)
    text = _text(described, opset, element_type, index_type)
    body = parser.parse_function(f"{head} ({inputs}) => ({outputs}) {{{text}}}")
    _name_nodes(body.node)
    body.doc_string = described.doc
    for attribute in described.attributes:
        if attribute.required:
            body.attribute.append(attribute.name)
        else:
            body.attribute_proto.append(default_proto(attribute))
    return body


def _text(op: Op, opset: int, element_type: int, index_type: int) -> str:
    """The nodes of a body; all compute in float32, and y gets x's type at the end."""
    cast = "CastLike({}, x)" if opset >= _CAST_LIKE_OPSET else f"Cast<to = {element_type}>({{}})"
    if op.kind is Kind.GRADIENT:
        return f"{gradient_text(opset)}    y = {cast.format('dx')}\n"
    pooled = pool_text(op.axes, index_type) if op.kind is Kind.POOL else adaptive_pool_text(index_type)
    return f"{pooled}    y = {cast.format('values')}\n"


def _name_nodes(nodes: Iterable[NodeProto]) -> None:
    """Name each node after its first output.

    onnxruntime puts the site's name before these names when it inlines a body, and names the nodes that it fuses after
    those that they replace: of nodes without a name two fused ones would clash.
    """
    for node in nodes:
        node.name = node.output[0]
        for attribute in node.attribute:
            _name_nodes(attribute.g.node)


def _require_body(op: Op, opset: int, element_type: int) -> None:
    if element_type not in TYPES[VALUE]:
        expected = ", ".join(map(TensorProto.DataType.Name, TYPES[VALUE]))
        raise NoFunctionBodyError(
            f"{DOMAIN}.{op.name}: no body for x of element type number {element_type}, expected one of {expected}."
        )
    oldest = OLDEST_GRADIENT_OPSET if op.kind is Kind.GRADIENT else _OLDEST_POOL_OPSET
    if element_type == TensorProto.BFLOAT16:
        oldest = max(oldest, _OLDEST_BFLOAT16_OPSET)
    if opset < oldest:
        name = TensorProto.DataType.Name(element_type)
        raise NoFunctionBodyError(
            f"{DOMAIN}.{op.name}: no body for {name} at opset {opset}; convert the model to opset {oldest} or newer."
        )
