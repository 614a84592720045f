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
from poolgrad_lowering.runtime.self_test.average_cases import AverageCase
from poolgrad_lowering.runtime.self_test.cases import Case, ElementType
from poolgrad_lowering.runtime.self_test.poolings import Pooling

_OPSET = 20
_IR_VERSION = 10  # the newest that every supported onnxruntime loads
_Dims = Sequence[int | str]


def pool_model(case: Case, element: ElementType) -> onnx.ModelProto:
    """Return a model x → y, argmax."""
    x_shape, y_shape = _shapes(case)
    node = _node(case.family.pool, case.pooling, ["x_cast"], ["y_cast", "argmax"])
    nodes = [_cast("x", "x_cast", element.onnx), node, _cast("y_cast", "y", TensorProto.FLOAT)]
    outputs = [_float("y", y_shape), helper.make_tensor_value_info("argmax", TensorProto.INT32, y_shape)]
    return _model(nodes, [_float("x", x_shape)], outputs, element.onnx)


def gradient_model(case: Case, element: ElementType) -> onnx.ModelProto:
    """Return a model x, grad, argmax → dx."""
    x_shape, y_shape = _shapes(case)
    nodes = [
        _cast("x", "x_cast", element.onnx),
        _cast("grad", "grad_cast", element.onnx),
        _gradient(case.family.gradient, case.pooling),
        _cast("dx_cast", "dx", TensorProto.FLOAT),
    ]
    inputs = [
        _float("x", x_shape),
        _float("grad", y_shape),
        helper.make_tensor_value_info("argmax", TensorProto.INT32, y_shape),
    ]
    return _model(nodes, inputs, [_float("dx", x_shape)], element.onnx)


def average_model(case: AverageCase, element: ElementType) -> onnx.ModelProto:
    """Return a model x, grad → dx, of which x is used for its shape alone."""
    x_shape = case.pooling.x_shape
    nodes = [
        _cast("x", "x_cast", element.onnx),
        _cast("grad", "grad_cast", element.onnx),
        helper.make_node("Shape", ["x_cast"], ["long_sizes"], name="sizes_of_x"),
        helper.make_node("Cast", ["long_sizes"], ["sizes"], name="cast_sizes", to=TensorProto.INT32),
        _gradient(case.op, case.pooling),
        _cast("dx_cast", "dx", TensorProto.FLOAT),
    ]
    inputs = [_float("x", x_shape), _float("grad", case.grad_shape)]
    return _model(nodes, inputs, [_float("dx", x_shape)], element.onnx)


def chain_model(case: Case) -> onnx.ModelProto:
    """Return a model x, grad → y, dx: a pool and its gradient, in float32, with symbolic sizes."""
    axes = range(len(case.pooling.kernel))
    x_shape, y_shape = (["N", "C", *(f"{letter}{axis}" for axis in axes)] for letter in "xy")
    nodes = [
        _node(case.family.pool, case.pooling, ["x"], ["y", "argmax"]),
        _node(case.family.gradient, case.pooling, ["x", "grad", "argmax"], ["dx"]),
    ]
    inputs = [_float("x", x_shape), _float("grad", y_shape)]
    return _model(nodes, inputs, [_float("y", y_shape), _float("dx", x_shape)], TensorProto.FLOAT)


def _shapes(case: Case) -> tuple[_Dims, _Dims]:
    """The shapes of x and y."""
    x_shape = case.pooling.x_shape
    return x_shape, [*x_shape[:2], *map(len, case.pooling.windows())]


_VALUES = {Part.X: "x_cast", Part.GRAD: "grad_cast", Part.ARGMAX: "argmax", Part.SIZES: "sizes"}


def _gradient(op: Op, pooling: Pooling) -> onnx.NodeProto:
    return _node(op, pooling, [_VALUES[operand.part] for operand in op.inputs], ["dx_cast"])


def _node(op: Op, pooling: Pooling, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.NodeProto:
    return helper.make_node(op.name, inputs, outputs, name=op.name, domain=DOMAIN, **pooling.attributes(op))


def _cast(source: str, result: str, to: int) -> onnx.NodeProto:
    return helper.make_node("Cast", [source], [result], name=f"cast_{source}", to=to)


def _float(name: str, shape: _Dims) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


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
