# SPDX-License-Identifier: Apache-2.0

"""Type and shape inference of the dialect's gradient ops, independent of how schemas are registered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import TensorProto, TypeProto

from poolgrad_lowering.dialect.checked_node import CheckedNode, shape_of, type_name

if TYPE_CHECKING:
    from onnx.shape_inference import InferenceContext

    from poolgrad_lowering.dialect.op import Op


def infer_gradient(op: Op, context: InferenceContext) -> None:
    """Check the node against `op` and set the type and shape of y to those of x.

    x and grad must have the same element type; all inputs the same rank, batch and channels; grad and argmax the same
    shape. Sizes are compared if both are numbers; unknown types and shapes are not checked.
    Raises `DialectError`.
    """
    node = CheckedNode(op, context)
    values = node.attribute_values()
    x, grad, argmax = (node.tensor(position) for position in range(len(op.inputs)))
    node.require_same("element types of x and grad", type_name(x), type_name(grad))
    if (index_type := node.index_type(values)) is not None:
        named = TensorProto.DataType.Name(index_type)
        node.require_same(f"attribute {op.index_type} and the element type of argmax", named, type_name(argmax))
    node.require_same_shape("x and grad: batch and channels", shape_of(x), shape_of(grad), axes=2)
    node.require_same_shape("x and argmax: batch and channels", shape_of(x), shape_of(argmax), axes=2)
    node.require_same_shape("grad and argmax", shape_of(grad), shape_of(argmax))
    if x is not None:
        context.set_output_type(0, TypeProto(tensor_type=x))
