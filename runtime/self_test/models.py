# SPDX-License-Identifier: Apache-2.0

"""Models of the self-test: a pool, a gradient, or both in sequence, each operator with its function body.

Inputs and outputs of a model are always float32, with Casts to the operators' type, because numpy has no bfloat16.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import TensorProto, helper

from poolgrad_lowering.dialect import DOMAIN, VERSION, Op, function_body
from poolgrad_lowering.dialect.op import Part
from poolgrad_lowering.runtime.self_test.cases import Case, ElementType
from poolgrad_lowering.runtime.self_test.poolings import Pooling

_OPSET = 20
_IR_VERSION = 10  # the newest that every supported onnxruntime loads
_Dims = Sequence[int | str]


def pool_model(op: Op, pooling: Pooling, element: ElementType) -> onnx.ModelProto:
    """Return a model x → y, argmax."""
    node = _node(op, pooling, ["x_cast"], ["y_cast", "argmax"])
    nodes = [_cast("x", "x_cast", element.onnx), node, _cast("y_cast", "y", TensorProto.FLOAT)]
    outputs = [_float("y", pooling.pooled_shape), _argmax(pooling)]
    return _model(nodes, [_float("x", pooling.x_shape)], outputs, element.onnx)


def gradient_model(op: Op, pooling: Pooling, element: ElementType) -> onnx.ModelProto:
    """Return a model x, grad → dx, of a max pool's gradient x, grad, argmax → dx. Of x only the shape is used."""
    sizes = [
        helper.make_node("Shape", ["x_cast"], ["long_sizes"], name="sizes_of_x"),
        helper.make_node("Cast", ["long_sizes"], ["sizes"], name="cast_sizes", to=TensorProto.INT32),
    ]
    nodes = [
        _cast("x", "x_cast", element.onnx),
        _cast("grad", "grad_cast", element.onnx),
        *(sizes if op.position(Part.SIZES) is not None else []),
        _node(op, pooling, [_VALUES[operand.part] for operand in op.inputs], ["dx_cast"]),
        _cast("dx_cast", "dx", TensorProto.FLOAT),
    ]
    inputs = [_float("x", pooling.x_shape), _float("grad", pooling.pooled_shape)]
    inputs += [_argmax(pooling)] if op.has_argmax else []
    return _model(nodes, inputs, [_float("dx", pooling.x_shape)], element.onnx)


def chain_model(case: Case) -> onnx.ModelProto:
    """Return a model x, grad → y, dx: a pool and its gradient, in float32, with symbolic sizes."""
    axes = range(len(case.pooling.kernel))
    x_shape, y_shape = (["N", "C", *(f"{letter}{axis}" for axis in axes)] for letter in "xy")
    nodes = [
        _node(case.pool, case.pooling, ["x"], ["y", "argmax"]),
        _node(case.gradient, case.pooling, ["x", "grad", "argmax"], ["dx"]),
    ]
    inputs = [_float("x", x_shape), _float("grad", y_shape)]
    return _model(nodes, inputs, [_float("y", y_shape), _float("dx", x_shape)], TensorProto.FLOAT)


_VALUES = {Part.X: "x_cast", Part.GRAD: "grad_cast", Part.ARGMAX: "argmax", Part.SIZES: "sizes"}


def _node(op: Op, pooling: Pooling, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.NodeProto:
    return helper.make_node(op.name, inputs, outputs, name=op.name, domain=DOMAIN, **pooling.attributes(op))


def _cast(source: str, result: str, to: int) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [result], name=f"cast_{source}", to=to)


def _float(name: str, shape: _Dims) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _argmax(pooling: Pooling) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info("argmax", TensorProto.INT32, pooling.pooled_shape)


def _model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    element_type: int,
) -> onnx.ModelProto:
    operators = [node.op_type for node in nodes if node.domain == DOMAIN]
    return helper.make_model(
        helper.make_graph(nodes, "self_test", inputs, outputs),
        opset_imports=[helper.make_opsetid("", _OPSET), helper.make_opsetid(DOMAIN, VERSION)],
        functions=[function_body(op, _OPSET, [element_type]) for op in operators],
        ir_version=_IR_VERSION,
    )
