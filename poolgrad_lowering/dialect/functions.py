# SPDX-License-Identifier: Apache-2.0

"""Function bodies of the dialect: each op as an `onnx.FunctionProto` of standard operators.

A body lets a runtime without kernels for domain `npu` run a lowered model. onnxruntime inlines it with the opset of the
model, so a body is created for that opset.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from onnx import FunctionProto, NodeProto, TensorProto, parser

from poolgrad_lowering.diagnostics.errors import PoolgradError
from poolgrad_lowering.dialect.adaptive_pool import (
    OLDEST_ADAPTIVE_OPSET,
    adaptive_pool_text,
    filled_pool_text,
    gathered_pool_text,
)
from poolgrad_lowering.dialect.attributes import default_proto
from poolgrad_lowering.dialect.gradient import OLDEST_GRADIENT_OPSET, gradient_text
from poolgrad_lowering.dialect.maximum import Maximum
from poolgrad_lowering.dialect.op import DOMAIN, TYPES, VALUE, Kind, Op
from poolgrad_lowering.dialect.ops import OPS
from poolgrad_lowering.dialect.pool import OLDEST_POOL_OPSET, pool_text
from poolgrad_lowering.dialect.reduced_pool import reduced_pool_text


class NoFunctionBodyError(PoolgradError):
    """No body of standard operators exists for this op, opset and element types."""


_OLDEST_OPSETS = {
    Kind.GRADIENT: OLDEST_GRADIENT_OPSET,
    Kind.POOL: OLDEST_POOL_OPSET,
    Kind.ADAPTIVE_POOL: OLDEST_ADAPTIVE_OPSET,
}
#: The first opset in which the operators of the bodies support bfloat16.
_OLDEST_BFLOAT16_OPSET = 13
_OLDEST_BFLOAT16_WHERE_OPSET = 16
_CAST_LIKE_OPSET = 15

#: The element types in which the operators of a body compute; other types are converted to float32.
_COMPUTED = {
    Kind.GRADIENT: {TensorProto.FLOAT},
    Kind.POOL: {TensorProto.FLOAT, TensorProto.FLOAT16},
    Kind.ADAPTIVE_POOL: {TensorProto.FLOAT},
}

_ADAPTIVE_TEXTS = {
    Maximum.SELECTED: adaptive_pool_text,
    Maximum.WHOLE: reduced_pool_text,
    Maximum.GATHERED: gathered_pool_text,
    Maximum.FILLED: filled_pool_text,
}


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
    `maximum` says how the body of an adaptive pool computes y. It has no effect for other ops.

    Raises `NoFunctionBodyError` for gradients below opset 9, for pools below opset 10, for adaptive pools below opset
    12, for bfloat16 below opset 13 (`Maximum.FILLED`: 16), for types that x cannot have, and below opset 15 for several
    types of which one needs a conversion; `KeyError` for an op that is not in `OPS`.
    """
    described = OPS[op]
    types = frozenset(element_types)
    _require_body(described, opset, types, maximum)
    head = f'<domain: "{DOMAIN}", opset_import: ["": {opset}]> {op}'
    inputs = ", ".join(operand.name for operand in described.inputs)
    outputs = ", ".join(operand.name for operand in described.outputs)
    text = _text(described, opset, types, index_type, maximum)
    body = parser.parse_function(f"{head} ({inputs}) => ({outputs}) {{{text}}}")
    _name_nodes(body.node)
    for attribute in described.attributes:
        if attribute.required:
            body.attribute.append(attribute.name)
        else:
            body.attribute_proto.append(default_proto(attribute))
    return body


def _text(op: Op, opset: int, element_types: frozenset[int], index_type: int, maximum: Maximum) -> str:
    narrow = None
    if _converts(op, element_types):
        one, *more = sorted(element_types)
        narrow = "CastLike({}, x)" if more else f"Cast<to = {one}>({{}})"
    if op.kind is Kind.GRADIENT:
        return gradient_text(opset, narrow)
    if op.kind is Kind.POOL:
        return pool_text(opset, index_type, narrow)
    return _ADAPTIVE_TEXTS[maximum](opset, index_type, narrow)


def _converts(op: Op, element_types: frozenset[int]) -> bool:
    return not element_types <= _COMPUTED[op.kind]


def _name_nodes(nodes: Iterable[NodeProto]) -> None:
    """Name each node after its first output.

    When onnxruntime inlines a body, it puts the calling node's name before these names, and names fused nodes after the
    nodes that they replace. Two fused nodes of nodes without names would have the same name.
    """
    for node in nodes:
        node.name = node.output[0]
        for attribute in node.attribute:
            _name_nodes(attribute.g.node)


def _require_body(op: Op, opset: int, element_types: frozenset[int], maximum: Maximum) -> None:
    if strange := sorted(element_types.difference(TYPES[VALUE])):
        expected = ", ".join(map(TensorProto.DataType.Name, TYPES[VALUE]))
        raise NoFunctionBodyError(
            f"{DOMAIN}.{op.name}: no body for x of element type number {strange[0]}, expected one of {expected}."
        )
    oldest = _OLDEST_OPSETS[op.kind]
    if TensorProto.BFLOAT16 in element_types:
        is_filled = op.kind is Kind.ADAPTIVE_POOL and maximum is Maximum.FILLED
        oldest = max(oldest, _OLDEST_BFLOAT16_WHERE_OPSET if is_filled else _OLDEST_BFLOAT16_OPSET)
    if _converts(op, element_types) and len(element_types) > 1:
        oldest = max(oldest, _CAST_LIKE_OPSET)
    if opset < oldest:
        names = " and ".join(TensorProto.DataType.Name(element_type) for element_type in sorted(element_types))
        raise NoFunctionBodyError(
            f"{DOMAIN}.{op.name}: no body for {names} at opset {opset}; convert the model to opset {oldest} or newer."
        )
