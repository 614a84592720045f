# SPDX-License-Identifier: Apache-2.0

"""The ops of max pools and their gradients.

Names, order and types are those of Ascend's operator definitions (CANN documentation of the `aclnn` pooling operators).
"""

from __future__ import annotations

from functools import partial

from onnx import AttributeProto, TensorProto

from poolgrad_lowering.dialect import aclnn_functions as aclnn
from poolgrad_lowering.dialect import onnx_window
from poolgrad_lowering.dialect.adaptive_pool import (
    OLDEST_ADAPTIVE_OPSET,
    adaptive_pool_text,
    filled_pool_text,
    gathered_pool_text,
)
from poolgrad_lowering.dialect.inference import infer_adaptive_pool, infer_gradient, infer_pool
from poolgrad_lowering.dialect.max_pool_gradient import OLDEST_GRADIENT_OPSET, gradient_text
from poolgrad_lowering.dialect.op import ASCEND_TYPES, Attribute, Body, Maximum, Op, Operand, Part, Prototype
from poolgrad_lowering.dialect.pool import OLDEST_POOL_OPSET, pool_text
from poolgrad_lowering.dialect.reduced_pool import reduced_pool_text

MAX_POOL_3D_GRAD = "MaxPool3DGradWithArgmax"
MAX_POOL_2D_GRAD = "MaxPoolGradWithArgmaxV3"
ADAPTIVE_GRAD = "AdaptiveMaxPool3DGrad"
MAX_POOL_3D = "MaxPool3DWithArgmaxV2"
MAX_POOL_2D = "MaxPoolWithArgmaxV3"
ADAPTIVE = "AdaptiveMaxPool3d"

_X = Operand("x", Part.X, "The pooled input, (N, C, spatial axes); only its shape and type are used.")
_POOL_X = Operand("x", Part.X, "The input, (N, C, spatial axes).")
_GRAD = Operand("grad", Part.GRAD, "The gradient of the pooled output, (N, C, spatial axes).")
_ARGMAX = Operand(
    "argmax",
    Part.ARGMAX,
    "For each element of grad, the row-major position of its maximum inside one (n, c) plane of the unpadded x; "
    "grad's shape, values in [0, plane).",
)
_Y = Operand("y", Part.Y, "The gradient of x, in x's shape and type.")
_POOL_Y = Operand("y", Part.Y, "The maximum of each window, (N, C, spatial axes), in x's type.")
_POOL_ARGMAX = Operand(
    "argmax",
    Part.ARGMAX,
    "For each element of y, the row-major position of the maximum inside one (n, c) plane of x; y's shape.",
)

_SCATTER = (
    "y is zero, then for every output position o in row-major order y[n, c].flat[argmax[n, c, o]] += grad[n, c, o], "
    "accumulated in float32 and cast once at the end."
)

_FIRST_WINS = "The first maximum of a window, in row-major order, is selected."
_NAN_WINS = "NaN is greater than every number, and the last NaN of a window is selected."
_ASCEND_NAN = f"On Ascend, {_NAN_WINS} The body is ONNX's MaxPool, with its behaviour for NaN."
_LEADING_AXES = "Attributes always have entries for D, H and W; leading spatial axes that x does not have have size 1."


_INT = AttributeProto.INT


def _window(axes: str) -> tuple[Attribute, ...]:
    """Return the window attributes of a pool over `axes` ("DHW" or "HW"): ksize, strides, pads and dilation."""
    count = len(axes)

    def each(name: str, doc: str, minimum: int, default: tuple[int, ...] | None = None) -> Attribute:
        text = f"{doc} along {', '.join(axes)}."
        return Attribute(name, AttributeProto.INTS, text, default, count, minimum)

    return (
        each("ksize", "Window size", 1),
        each("strides", "Window step", 1),
        each("pads", "Padding at each end", 0),
        each("dilation", "Spacing of the window's elements", 1, (1,) * count),
    )


def _layout(name: str) -> tuple[Attribute, ...]:
    """Return the attributes for output rounding and for the layout of the tensors, which has one allowed value."""
    return (
        Attribute("ceil_mode", _INT, "1 if the pooled size was rounded up, 0 if down.", default=0, allowed=(0, 1)),
        Attribute("data_format", AttributeProto.STRING, "Layout of the tensors.", default=name, allowed=(name,)),
    )


def _index_type(name: str) -> Attribute:
    text = "Ascend's number of argmax's type: 3 is int32, 9 is int64."
    return Attribute(name, _INT, text, default=3, allowed=tuple(ASCEND_TYPES))


def _onnx_window() -> tuple[Attribute, ...]:
    """Return the same window as attributes of ONNX's MaxPool, for the body: one entry per spatial axis of x."""

    def ints(name: str, doc: str, minimum: int) -> Attribute:
        text = f"{doc} along each spatial axis of x, as in ONNX's MaxPool."
        return Attribute(name, AttributeProto.INTS, text, minimum=minimum)

    return (
        ints(onnx_window.KERNEL, "Window size", 1),
        ints(onnx_window.STRIDES, "Window step", 1),
        ints(onnx_window.PADS, "Padding before, then after x", 0),
        ints(onnx_window.DILATIONS, "Spacing of the window's elements", 1),
        Attribute(onnx_window.CEIL, _INT, "The ceil_mode of ONNX's MaxPool.", allowed=(0, 1)),
    )


_DTYPE = _index_type("dtype")
_OUTPUT_SIZE = Attribute("output_size", AttributeProto.INTS, "Size of y along D, H, W.", length=3, minimum=1)

_GRADIENT_BODY = {Maximum.SELECTED: Body(gradient_text, OLDEST_GRADIENT_OPSET, marker="argmax_planes")}
_POOL_BODY = {Maximum.SELECTED: Body(pool_text, OLDEST_POOL_OPSET, frozenset((TensorProto.FLOAT, TensorProto.FLOAT16)))}
_WHERE_OF_BFLOAT16 = 16
_ADAPTIVE_BODIES = {
    Maximum.SELECTED: Body(adaptive_pool_text, OLDEST_ADAPTIVE_OPSET),
    Maximum.WHOLE: Body(reduced_pool_text, OLDEST_ADAPTIVE_OPSET),
    Maximum.GATHERED: Body(gathered_pool_text, OLDEST_ADAPTIVE_OPSET),
    Maximum.FILLED: Body(filled_pool_text, OLDEST_ADAPTIVE_OPSET, oldest_bfloat16=_WHERE_OF_BFLOAT16),
}

_gradient = partial(Op, inputs=(_X, _GRAD, _ARGMAX), outputs=(_Y,), infer=infer_gradient, bodies=_GRADIENT_BODY)
_pool = partial(Op, inputs=(_POOL_X,), outputs=(_POOL_Y, _POOL_ARGMAX), infer=infer_pool, bodies=_POOL_BODY)

MAX_POOL_OPS = (
    _gradient(
        MAX_POOL_3D_GRAD,
        f"Gradient of a max pool over up to three spatial axes: {_SCATTER} {_LEADING_AXES}",
        attributes=(*_window("DHW"), *_layout("NCDHW")),
        functions=dict.fromkeys((3, 4, 5), (aclnn.MAX_POOL_3D_BACKWARD,)),
        prototype=Prototype(5, "9.0.0", "NCDHW"),
    ),
    _gradient(
        MAX_POOL_2D_GRAD,
        f"Gradient of a max pool over two spatial axes: {_SCATTER}",
        attributes=(*_window("HW"), _DTYPE, *_layout("NCHW")),
        functions={4: (aclnn.MAX_POOL_2D_BACKWARD, aclnn.MAX_POOL_3D_BACKWARD)},
        prototype=Prototype(4, "8.5.0", "NCHW"),
        index_type="dtype",
    ),
    _gradient(
        ADAPTIVE_GRAD,
        f"Gradient of an adaptive max pool over up to three spatial axes: {_SCATTER}",
        attributes=(),
        functions={
            **dict.fromkeys((3, 4), (aclnn.ADAPTIVE_MAX_POOL_2D_BACKWARD,)),
            5: (aclnn.ADAPTIVE_MAX_POOL_3D_BACKWARD,),
        },
        prototype=None,
    ),
    _pool(
        MAX_POOL_3D,
        f"Max pool over up to three spatial axes. {_FIRST_WINS} {_ASCEND_NAN} Padding is never the maximum. "
        f"{_LEADING_AXES}",
        attributes=(*_window("DHW"), *_layout("NCDHW"), _DTYPE, *_onnx_window()),
        functions=dict.fromkeys((3, 4, 5), (aclnn.MAX_POOL_3D_FUNCTION,)),
        prototype=Prototype(5, "9.0.0", "NCDHW"),
        index_type="dtype",
    ),
    _pool(
        MAX_POOL_2D,
        f"Max pool over two spatial axes. {_FIRST_WINS} {_ASCEND_NAN} Padding is never the maximum.",
        attributes=(*_window("HW"), _DTYPE, *_layout("NCHW"), *_onnx_window()),
        functions={4: (aclnn.MAX_POOL_2D_FUNCTION,)},
        prototype=Prototype(4, "8.5.0", "NCHW"),
        index_type="dtype",
    ),
    Op(
        ADAPTIVE,
        "Adaptive max pool over up to three spatial axes: on an axis of size I pooled to size O, window o spans "
        f"floor(o·I/O) … ceil((o+1)·I/O) − 1. {_FIRST_WINS} {_NAN_WINS} "
        "The body of a pool that was a ReduceMax and an ArgMax has their results for NaN and for zeros of both signs. "
        f"{_LEADING_AXES}",
        inputs=(_POOL_X,),
        outputs=(_POOL_Y, _POOL_ARGMAX),
        attributes=(_OUTPUT_SIZE, _index_type("indices_dtype")),
        functions={
            **dict.fromkeys((3, 4), (aclnn.ADAPTIVE_MAX_POOL_3D_FUNCTION, aclnn.ADAPTIVE_MAX_POOL_2D_FUNCTION)),
            5: (aclnn.ADAPTIVE_MAX_POOL_3D_FUNCTION,),
        },
        prototype=Prototype(5, "9.0.0", "NCDHW", outputs=("y", "indices")),
        infer=infer_adaptive_pool,
        bodies=_ADAPTIVE_BODIES,
        index_type="indices_dtype",
    ),
)
