# SPDX-License-Identifier: Apache-2.0

"""Writes bodies of operators, `model.ir.bodies`, where torch's exporter translates a node of its graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx import helper
from onnxscript.onnx_opset import opset18

from poolgrad_lowering.model.ir.bodies import BodyNode, Tensor


def written(body: Callable[..., Tensor], *operands: Any) -> Any:
    """Return the value that a body computes of values of torch's exporter, whose nodes are added to its model."""
    nodes: list[BodyNode] = []
    given = [Tensor(nodes, str(number), int(operand.dtype or 0)) for number, operand in enumerate(operands)]
    result = body(*given)
    values: dict[Tensor, Any] = dict(zip(given, operands, strict=True))
    for node in nodes:
        for operand in node.inputs:
            if operand not in values:
                values[operand] = opset18.Constant(value=ir.tensor(np.asarray(operand.source)))
        attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attributes}
        (made,) = node.outputs
        value = getattr(opset18, node.op_type)(*(values[operand] for operand in node.inputs), **attributes)
        if made.element_type and isinstance(value, ir.Value):
            value.dtype = ir.DataType(made.element_type)  # or inference would have to find the types of all values
        values[made] = value
    return values[result]
