# SPDX-License-Identifier: Apache-2.0

"""The gradients of average pools.

Names, order and types are those of Ascend's operator definitions in CANN's ops-nn. Forward pools stay nodes of ONNX.
"""

from __future__ import annotations

from functools import partial

from onnx import AttributeProto

from poolgrad_lowering.dialect import aclnn_functions as aclnn
from poolgrad_lowering.dialect import average_window
from poolgrad_lowering.dialect.average_inference import (
    infer_adaptive_average,
    infer_shaped_adaptive_average,
    infer_windowed_average,
)
from poolgrad_lowering.dialect.average_pool import (
    OLDEST_AVERAGE_OPSET,
    OLDEST_NUMBERS_OPSET,
    adaptive_average_text,
    windowed_average_text,
)
from poolgrad_lowering.dialect.op import Attribute, Body, Maximum, Op, Operand, Part, Prototype

_INT, _INTS, _STRING, _FLOAT = AttributeProto.INT, AttributeProto.INTS, AttributeProto.STRING, AttributeProto.FLOAT

AVERAGE_3D_GRAD = "AvgPool3DGrad"
AVERAGE_2D_GRAD = "AvgPoolV2Grad"
ADAPTIVE_AVERAGE_GRAD = "AdaptiveAvgPool3dGrad"
ADAPTIVE_AVERAGE_2D_GRAD = "AdaptiveAvgPool2dGrad"

_SIZES = Operand("orig_input_shape", Part.SIZES, "The shape of x, the pooled input: (N, C, spatial axes).")
_X = Operand("x", Part.X, "The pooled input, (N, C, spatial axes); only its shape and type are used.")

_MEAN = (
    "each element of the incoming gradient is divided by the number of elements that its window counts, and is added "
    "to the elements of x that its window contains, accumulated in float32 and cast once at the end."
)
_ADAPTIVE = "On an axis of size I pooled to size O, window o spans floor(o·I/O) … ceil((o+1)·I/O) − 1:"
_BITS = (
    "Ascend's operators may add in another order, or multiply by the reciprocal of the number: results differ in the "
    "last bits."
)


def _grad(name: str) -> Operand:
    return Operand(name, Part.GRAD, "The gradient of the pooled output, (N, C, spatial axes).")


def _result(name: str) -> Operand:
    return Operand(name, Part.Y, "The gradient of x, in x's shape.")


def _flag(name: str, doc: str, default: int) -> Attribute:
    return Attribute(name, _INT, doc, default=default, allowed=(0, 1))


def _fixed(name: str, doc: str, value: int | str) -> Attribute:
    """An attribute with one allowed value."""
    return Attribute(name, _INT if isinstance(value, int) else _STRING, doc, default=value, allowed=(value,))


def _ints(name: str, doc: str, minimum: int, length: int | None = None) -> Attribute:
    return Attribute(name, _INTS, doc, minimum=minimum, length=length)


_CEIL = _flag("ceil_mode", "1 if the pooled size was rounded up, 0 if down.", 0)
_OVERRIDE = Attribute(
    "divisor_override", _INT, "The divisor of all windows; 0 if each window is counted.", default=0, minimum=0
)

_AXIS = "along each spatial axis of x"
_BODY_WINDOW = (
    _ints(average_window.KERNEL, f"Window size {_AXIS}, for the function body.", 1),
    _ints(average_window.STRIDES, f"Window step {_AXIS}, for the function body.", 1),
    _ints(average_window.PADS, f"Padding before x, then 0, {_AXIS}: pads of the body's ConvTranspose.", 0),
    _ints(average_window.OUTPUT_PADDING, f"Window step − 1 {_AXIS}: of the body's ConvTranspose.", 0),
    _ints(average_window.COUNTED, f"Padding that windows count, before, then after x, {_AXIS}.", 0),
    _ints(average_window.UNCOUNTED, f"Padding that windows do not count, before, then after x, {_AXIS}.", 0),
    Attribute(average_window.DIVISOR, _FLOAT, "divisor_override, as the body reads it.", default=0.0),
)


def _windowed_body(grad: str, y: str) -> dict[Maximum, Body]:
    text = partial(windowed_average_text, grad=grad, y=y)
    return {Maximum.SELECTED: Body(text, OLDEST_AVERAGE_OPSET, marker="own_terms")}


def _adaptive_body(grad: str, y: str, shape: str, oldest: int) -> dict[Maximum, Body]:
    text = partial(adaptive_average_text, grad=grad, y=y, shape=shape)
    return {Maximum.SELECTED: Body(text, oldest, marker="own_terms")}


AVERAGE_POOL_OPS = (
    Op(
        AVERAGE_3D_GRAD,
        f"Gradient of an average pool over up to three spatial axes: {_MEAN} {_BITS} "
        "Attributes always have entries for D, H and W; leading spatial axes that x does not have have size 1.",
        inputs=(_SIZES, _grad("grads")),
        outputs=(_result("output"),),
        attributes=(
            _ints("ksize", "Window size along D, H, W.", 1, 3),
            _ints("strides", "Window step along D, H, W.", 1, 3),
            _ints("pads", "Padding before and after x along D, then H, then W; both are equal.", 0, 6),
            _CEIL,
            _flag("count_include_pad", "1 if a window counts its elements in the padding, 0 if not.", 1),
            _OVERRIDE,
            _fixed("data_format", "Layout of the tensors.", "NCDHW"),
            *_BODY_WINDOW,
        ),
        functions={**dict.fromkeys((3, 4), (aclnn.AVG_POOL_2D_BACKWARD,)), 5: (aclnn.AVG_POOL_3D_BACKWARD,)},
        prototype=Prototype(5, "8.5.0", "ND"),
        infer=infer_windowed_average,
        bodies=_windowed_body("grads", "output"),
    ),
    Op(
        AVERAGE_2D_GRAD,
        f"Gradient of an average pool over two spatial axes: {_MEAN} {_BITS}",
        inputs=(_SIZES, _grad("input_grad")),
        outputs=(_result("out_grad"),),
        attributes=(
            _ints("ksize", "Window size along N, C, H, W.", 1, 4),
            _ints("strides", "Window step along N, C, H, W.", 1, 4),
            _fixed("padding_mode", "How the padding is given: by pads.", "CALCULATED"),
            _ints("pads", "Padding before and after x along H, then W; both are equal.", 0, 4),
            _fixed("data_format", "Layout of the tensors.", "NCHW"),
            _fixed("global_pooling", "Whether one window is the whole plane, whatever ksize says.", 0),
            _CEIL,
            _flag("exclusive", "0 if a window counts its elements in the padding, 1 if not.", 1),
            _OVERRIDE,
            *_BODY_WINDOW,
        ),
        functions={4: (aclnn.AVG_POOL_2D_BACKWARD,)},
        prototype=Prototype(4, "9.0.0", "ND"),
        infer=infer_windowed_average,
        bodies=_windowed_body("input_grad", "out_grad"),
    ),
    Op(
        ADAPTIVE_AVERAGE_GRAD,
        f"Gradient of an adaptive average pool over up to three spatial axes. {_ADAPTIVE} {_MEAN} {_BITS}",
        inputs=(_grad("y_grad"), _X),
        outputs=(_result("x_grad"),),
        attributes=(_fixed("data_format", "Layout of the tensors.", "NCDHW"),),
        functions={
            **dict.fromkeys((3, 4), (aclnn.ADAPTIVE_AVG_POOL_2D_BACKWARD,)),
            5: (aclnn.ADAPTIVE_AVG_POOL_3D_BACKWARD,),
        },
        # On Atlas A2 and A3, and on Ascend 950 before 9.1.0, it takes a gradient of (D, H, W, N·C) only.
        prototype=Prototype(5, "9.1.0", "ND", ("Ascend950",)),
        infer=infer_adaptive_average,
        bodies=_adaptive_body("y_grad", "x_grad", "Shape(x)", OLDEST_AVERAGE_OPSET),
    ),
    Op(
        ADAPTIVE_AVERAGE_2D_GRAD,
        f"Gradient of an adaptive average pool over two spatial axes, of an x of known shape. {_ADAPTIVE} {_MEAN} "
        f"{_BITS}",
        inputs=(_grad("input_grad"),),
        outputs=(_result("output_grad"),),
        attributes=(_ints("orig_input_shape", "The shape of x, the pooled input.", 1, 4),),
        functions={4: (aclnn.ADAPTIVE_AVG_POOL_2D_BACKWARD,)},
        prototype=Prototype(4, "9.1.0", "ND"),
        infer=infer_shaped_adaptive_average,
        bodies=_adaptive_body(
            "input_grad", "output_grad", "Constant<value_ints: ints = @orig_input_shape>()", OLDEST_NUMBERS_OPSET
        ),
    ),
)
