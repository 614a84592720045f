# SPDX-License-Identifier: Apache-2.0

"""Pairs of models: the gradient of an average pool in a producer's operators, and lowered to the dialect."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from poolgrad_lowering import lower
from poolgrad_lowering.dialect import DOMAIN
from tests.average_models import AVERAGE_2D, AverageCase
from tests.pool_graphs import parse

OPSET = 17
_ATEN = "org.pytorch.aten"
Pair = tuple[ModelProto, ModelProto]
Original = tuple[str, dict[str, Any]]
"""The text of nodes, and the constants that they read."""


def pair(case: AverageCase, spelling: str, *, element: int = TensorProto.FLOAT, symbolic: bool = False) -> Pair:
    """The gradient `dx` of x from `dy` by a producer's nodes, and by one node of the dialect.

    With `symbolic`, x has named sizes; so has dy, unless the number of windows is adaptive.
    """
    names = [f"s{axis}" for axis in range(len(case.x_shape))]
    shape: list[Any] = names if symbolic else list(case.x_shape)
    of_dy: list[Any] = [*names[:2], *(f"w{axis}" for axis in range(len(names) - 2))] if symbolic else [*case.grad_shape]
    if symbolic and case.output_size:
        of_dy[2:] = case.output_size
    nodes, constants = ORIGINALS[spelling](case)
    x, dy = (",".join(map(str, _last(sizes) if "data_format" in nodes else sizes)) for sizes in (shape, of_dy))
    kind = TensorProto.DataType.Name(element).lower()
    y = f", {kind}[] y" if "AveragePool " in nodes else ""
    original = parse(
        f"average ({kind}[{x}] x, {kind}[{dy}] dy) => ({kind}[{x}] dx{y}) {{ {nodes} }}",
        opset=OPSET,
        imports=f'"{_ATEN}": 1' if _ATEN in nodes else "",
    )
    stored = (numpy_helper.from_array(_of_type(value, element), name) for name, value in constants.items())
    original.graph.initializer.extend(stored)
    return original, lower(original, target="ascend950" if case.op == AVERAGE_2D else "atlas-a2", forward=False).model


def _of_type(value: Any, element: int) -> Any:
    array = np.asarray(value)
    return array.astype(helper.tensor_dtype_to_np_dtype(element)) if array.dtype.kind == "f" else array


def _last(sizes: list[Any]) -> list[Any]:
    return [sizes[0], *sizes[2:], sizes[1]]


def _training(case: AverageCase) -> Original:
    """onnxruntime-training's operator, with the forward pool."""
    attributes = (
        f"kernel_shape = {[*case.ksize]}, strides = {[*case.strides]}, pads = {[*case.pads, *case.pads]},"
        f" count_include_pad = {int(case.count_include_pad)}, ceil_mode = {int(case.ceil_mode)}"
    )
    gradient = f'["pool_Grad/AveragePoolGrad_0"] dx = AveragePoolGrad <{attributes}> (dy)'
    return f"[pool] y = AveragePool <{attributes}> (x) {gradient}", {}


def _aten_operands(case: AverageCase) -> tuple[str, str, dict[str, Any]]:
    rank = len(case.x_shape) - 2
    if case.output_size:
        return f"_adaptive_avg_pool{rank}d_backward", "dy, x", {}
    constants: dict[str, Any] = {
        "kernel": np.array(case.ksize, np.int64),
        "stride": np.array(case.strides, np.int64),
        "padding": np.array(case.pads, np.int64),
        "ceil": np.array(case.ceil_mode),
        "counts": np.array(case.count_include_pad),
    }
    divisor = {"divisor": np.array(case.divisor_override, np.int64)} if case.divisor_override else {}
    inputs = ", ".join(["dy", "x", *constants, next(iter(divisor), '""')])
    return f"avg_pool{rank}d_backward", inputs, constants | divisor


def _aten(case: AverageCase) -> Original:
    """ORTModule's node, with the operator as an attribute."""
    operator, inputs, constants = _aten_operands(case)
    return f'dx = {_ATEN}.ATen <operator = "{operator}"> ({inputs})', constants


def _named(case: AverageCase) -> Original:
    """The operator by its own name."""
    operator, inputs, constants = _aten_operands(case)
    return f"dx = {_ATEN}.{operator} ({inputs})", constants


def _tensorflow(case: AverageCase) -> Original:
    """TensorFlow's operator as tf2onnx leaves it."""
    padding = "SAME" if any(case.pads) else "VALID"
    windows = f"ksize = {[1, *case.ksize, 1]}, strides = {[1, *case.strides, 1]}"
    gradient = f'dx = AvgPoolGrad <{windows}, padding = "{padding}", data_format = "NHWC"> (shape, dy)'
    return f"shape = Shape (x) {gradient}", {}


def _decomposed(case: AverageCase, *, operator: str = "Div") -> Original:
    """PyTorch's decomposition of a pool without padding whose windows have one size: Div and ConvTranspose."""
    channels, number = case.x_shape[1], np.float32(np.prod(case.ksize))
    pairs = zip(case.x_shape[2:], case.grad_shape[2:], case.strides, case.ksize, strict=True)
    ends = [size - (count - 1) * stride - kernel for size, count, stride, kernel in pairs]
    attributes = f"strides = {[*case.strides]}, group = {channels}, output_padding = {ends}"
    return f"means = {operator} (dy, number) dx = ConvTranspose <{attributes}> (means, ones)", {
        "number": number if operator == "Div" else np.float32(1) / number,
        "ones": np.ones([channels, 1, *case.ksize], np.float32),
    }


def _reciprocal(case: AverageCase) -> Original:
    """The same with a Mul by the rounded reciprocal."""
    return _decomposed(case, operator="Mul")


ORIGINALS: dict[str, Callable[[AverageCase], Original]] = {
    "aten": _aten,
    "decomposed": _decomposed,
    "named": _named,
    "reciprocal": _reciprocal,
    "tensorflow": _tensorflow,
    "training": _training,
}


def site_node(model: ModelProto) -> NodeProto:
    """The node of the dialect."""
    return next(node for node in model.graph.node if node.domain == DOMAIN)


def changed(model: ModelProto, **attributes: Any) -> ModelProto:
    """The model with other attributes of the node of the dialect."""
    edited = deepcopy(model)
    node = site_node(edited)
    kept = [attribute for attribute in node.attribute if attribute.name not in attributes]
    del node.attribute[:]
    node.attribute.extend([*kept, *(helper.make_attribute(name, value) for name, value in attributes.items())])
    return edited


def with_sizes(model: ModelProto, sizes: Any) -> ModelProto:
    """The model with another constant for orig_input_shape."""
    edited = deepcopy(model)
    [constant] = [node for node in edited.graph.node if node.output[0] == site_node(edited).input[0]]
    constant.attribute[0].t.CopyFrom(numpy_helper.from_array(np.asarray(sizes)))
    return edited
