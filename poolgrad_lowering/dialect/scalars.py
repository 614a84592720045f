# SPDX-License-Identifier: Apache-2.0

"""`UnsqueezeScalars`, which gives an axis to tensors of rank 0: an operator of the provider, not of aclnn.

In the graph mode of onnxruntime's CANN provider no part of a graph may have an input of rank 0. This operator stands
between the graph's inputs of rank 0 and those parts. It takes all of them at once, since every node that is not the
CANN provider's ends one of its parts. The provider copies nothing: an output is the memory of its input.
"""

from __future__ import annotations

from onnx import FunctionProto, TensorProto, helper

from poolgrad_lowering.dialect.op import DOMAIN

UNSQUEEZE_SCALARS = "UnsqueezeScalars"
"""Inputs x0, x1, … of rank 0, of any types, and as many outputs y0, y1, … of shape (1,) with the same elements."""


def unsqueeze_scalars_body(count: int, opset: int) -> FunctionProto:
    """Return the function body of `UnsqueezeScalars` with `count` inputs, for a model of this opset, 5 or newer."""
    shape = helper.make_tensor("shape", TensorProto.INT64, [1], [1])
    nodes = [helper.make_node("Constant", [], ["shape"], name="shape", value=shape)]
    inputs, outputs = ([f"{letter}{number}" for number in range(count)] for letter in "xy")
    nodes += [helper.make_node("Reshape", [x, "shape"], [y], name=y) for x, y in zip(inputs, outputs, strict=True)]
    imports = [helper.make_opsetid("", opset)]
    return helper.make_function(DOMAIN, UNSQUEEZE_SCALARS, inputs, outputs, nodes, imports)
