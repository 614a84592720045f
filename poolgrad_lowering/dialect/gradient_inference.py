"""Type and shape inference of the dialect's gradient ops.

Knows the table and onnx's inference context; not how or when schemas are registered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import TensorProto, TypeProto

from poolgrad_lowering.dialect.checked_node import CheckedNode, shape_of, type_name

if TYPE_CHECKING:
    from onnx.shape_inference import InferenceContext

    from poolgrad_lowering.dialect.op import Op


def infer_gradient(op: Op, context: InferenceContext) -> None:
    """Give y the type and shape of x, after checking the node against `op`.

    x and grad share their element type. All three inputs share rank, batch and channels, grad and argmax every size;
    sizes are compared where both are numbers, and operands whose type or shape is not known are not checked.
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
