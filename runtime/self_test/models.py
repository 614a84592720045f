# SPDX-License-Identifier: Apache-2.0

"""Models of the self-test: a pool, a gradient, or both in sequence, each operator with its function body.

Inputs and outputs of a model are always float32, with Casts to the operators' type, because numpy has no bfloat16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import TensorProto, helper

from poolgrad_lowering.dialect import DOMAIN, VERSION, function_body
from poolgrad_lowering.runtime.self_test.average_cases import ADAPTIVE_2D, ADAPTIVE_3D, AverageCase
from poolgrad_lowering.runtime.self_test.cases import Case, ElementType

_OPSET = 20
_IR_VERSION = 10  # the newest that every supported onnxruntime loads
_Dims = Sequence[int | str]


def pool_model(case: Case, element: ElementType) -> onnx.ModelProto:
    """Return a model x → y, argmax."""
    y_shape = [*case.x_shape[:2], *map(len, case.windows())]
    node = _node(case.family.pool, ["x_cast"], ["y_cast", "argmax"], case.pool_attributes())
    nodes = [_cast("x", "x_cast", element.onnx), node, _cast("y_cast", "y", TensorProto.FLOAT)]
    outputs = [_float("y", y_shape), helper.make_tensor_value_info("argmax", TensorProto.INT32, y_shape)]
    return _model(nodes, [_float("x", case.x_shape)], outputs, element.onnx)


def gradient_model(case: Case, element: ElementType) -> onnx.ModelProto:
    """Return a model x, grad, argmax → dx."""
    y_shape = [*case.x_shape[:2], *map(len, case.windows())]
    node = _node(case.family.gradient, ["x_cast", "grad_cast", "argmax"], ["dx_cast"], case.gradient_attributes())
    nodes = [
        _cast("x", "x_cast", element.onnx),
        _cast("grad", "grad_cast", element.onnx),
        node,
        _cast("dx_cast", "dx", TensorProto.FLOAT),
    ]
    inputs = [
        _float("x", case.x_shape),
        _float("grad", y_shape),
        helper.make_tensor_value_info("argmax", TensorProto.INT32, y_shape),
    ]
    return _model(nodes, inputs, [_float("dx", case.x_shape)], element.onnx)


def average_model(case: AverageCase, element: ElementType) -> onnx.ModelProto:
    """Return a model x, grad → dx, of which x is used for its shape alone."""
    of_x = {ADAPTIVE_3D: ["grad_cast", "x_cast"], ADAPTIVE_2D: ["grad_cast"]}.get(case.operator, ["sizes", "grad_cast"])
    nodes = [
        _cast("x", "x_cast", element.onnx),
        _cast("grad", "grad_cast", element.onnx),
        helper.make_node("Shape", ["x_cast"], ["long_sizes"], name="sizes_of_x"),
        helper.make_node("Cast", ["long_sizes"], ["sizes"], name="cast_sizes", to=TensorProto.INT32),
        _node(case.operator, of_x, ["dx_cast"], case.attributes()),
        _cast("dx_cast", "dx", TensorProto.FLOAT),
    ]
    inputs = [_float("x", case.x_shape), _float("grad", case.grad_shape)]
    return _model(nodes, inputs, [_float("dx", case.x_shape)], element.onnx)


def chain_model(case: Case) -> onnx.ModelProto:
    """Return a model x, grad → y, dx: a pool and its gradient, in float32, with symbolic sizes."""
    x_shape = ["N", "C", *(f"x{axis}" for axis in range(len(case.x_shape) - 2))]
    y_shape = ["N", "C", *(f"y{axis}" for axis in range(len(case.x_shape) - 2))]
    nodes = [
        _node(case.family.pool, ["x"], ["y", "argmax"], case.pool_attributes()),
        _node(case.family.gradient, ["x", "grad", "argmax"], ["dx"], case.gradient_attributes()),
    ]
    inputs = [_float("x", x_shape), _float("grad", y_shape)]
    return _model(nodes, inputs, [_float("y", y_shape), _float("dx", x_shape)], TensorProto.FLOAT)


def _node(op: str, inputs: Sequence[str], outputs: Sequence[str], attributes: Mapping[str, Any]) -> onnx.NodeProto:
    return helper.make_node(op, inputs, outputs, name=op, domain=DOMAIN, **attributes)


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
