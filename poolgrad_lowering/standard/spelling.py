# SPDX-License-Identifier: Apache-2.0

"""Writes nodes of opset 18 as older opsets have them: numbers that are operands today were attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx
from onnx import NodeProto, helper

from poolgrad_lowering.model.diagnostics.codes import Refuse
from poolgrad_lowering.model.diagnostics.definition_codes import DefinitionCode

OPSET = 18
"""The opset of the text of bodies."""

_OPERANDS = {
    "Pad": (11, ("", "pads", "value")),
    "ReduceMax": (18, ("", "axes")),
    "ReduceMean": (18, ("", "axes")),
    "ReduceProd": (18, ("", "axes")),
    "ReduceSum": (13, ("", "axes")),
    "Slice": (10, ("", "starts", "ends", "axes")),
    "Split": (13, ("", "split")),
    "Squeeze": (13, ("", "axes")),
    "Unsqueeze": (13, ("", "axes")),
}
"""The first opset in which an operator has operands in place of attributes, and the attributes' names."""

_NEW_ATTRIBUTES = {
    "ReduceSum": (13, "noop_with_empty_axes"),
    "Reshape": (14, "allowzero"),
    "Split": (18, "num_outputs"),
}
"""Attributes that say nothing for the nodes of bodies, or only for tensors without elements, and the first opset that
has them."""

_INFERRED_CHECK_OPSET = 11
"""The first opset for which bodies are written: below it, Pad and others have other operands."""


def spelled(node: NodeProto, opset: int, numbers: Callable[[str], Sequence[int] | None]) -> NodeProto:
    """Return a node of a body as `opset` has it. `numbers` returns the integers of a constant operand, or None.

    Raises `Refuse` if the opset has no such node.
    """
    if opset >= OPSET:
        return node
    first, names = _OPERANDS.get(node.op_type, (0, ()))
    if opset < first:
        _to_attributes(node, names, numbers)
    first, name = _NEW_ATTRIBUTES.get(node.op_type, (0, ""))
    if opset < first:
        kept = [attribute for attribute in node.attribute if attribute.name != name]
        del node.attribute[:]
        node.attribute.extend(kept)
    _require(node, opset)
    return node


def _to_attributes(node: NodeProto, names: Sequence[str], numbers: Callable[[str], Sequence[int] | None]) -> None:
    for name, operand in list(zip(names, node.input, strict=False))[1:]:
        values = numbers(operand)
        if values is None:
            raise Refuse(DefinitionCode.OLD_OPSET, "{} of {} is no constant", name, node.op_type)
        node.attribute.append(helper.make_attribute(name, list(values)))
    del node.input[1:]


def _require(node: NodeProto, opset: int) -> None:
    try:
        schema = onnx.defs.get_schema(node.op_type, opset)
    except onnx.defs.SchemaError:
        raise Refuse(DefinitionCode.OLD_OPSET, "opset {} has no {}", opset, node.op_type) from None
    strange = [attribute.name for attribute in node.attribute if attribute.name not in schema.attributes]
    if strange or len(node.input) > schema.max_input or opset < _INFERRED_CHECK_OPSET:
        what = "{} of opset {} has no {}"
        raise Refuse(DefinitionCode.OLD_OPSET, what, node.op_type, opset, *(strange or ["such operands"]))
