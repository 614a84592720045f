# SPDX-License-Identifier: Apache-2.0

"""The table of the dialect: the ops of domain `npu`, family by family.

Names, order and types are those of Ascend's operator definitions in CANN's ops-nn. Forward average pools stay nodes of
ONNX. Schemas, function bodies, the rewrite and the documentation read this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from onnx import AttributeProto, TensorProto

from poolgrad_lowering.dialect import aclnn_functions as aclnn
from poolgrad_lowering.dialect import average_pool, body_windows, inference, max_pool_bodies
from poolgrad_lowering.dialect.op import ASCEND_TYPES, Attribute, Body, Maximum, Op, Operand, Part, Prototype
from poolgrad_lowering.dialect.scalars import UNSQUEEZE_SCALARS

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


def _ints(name: str, doc: str, minimum: int, length: int | None = None) -> Attribute:
    return Attribute(name, AttributeProto.INTS, doc, minimum=minimum, length=length)


def _flag(name: str, doc: str, default: int | None) -> Attribute:
    return Attribute(name, AttributeProto.INT, doc, default=default, allowed=(0, 1))


def _fixed(name: str, doc: str, value: int | str) -> Attribute:
    """An attribute with one allowed value."""
    kind = AttributeProto.INT if isinstance(value, int) else AttributeProto.STRING
    return Attribute(name, kind, doc, default=value, allowed=(value,))


def _window(axes: str) -> tuple[Attribute, ...]:
    """Return the window attributes of a pool over `axes` ("DHW" or "HW"): ksize, strides, pads and dilation."""
    count, along = len(axes), f"along {', '.join(axes)}."
    return (
        _ints("ksize", f"Window size {along}", 1, count),
        _ints("strides", f"Window step {along}", 1, count),
        _ints("pads", f"Padding at each end {along}", 0, count),
        _ints("dilation", f"Spacing of the window's elements {along}", 1, count)._replace(default=(1,) * count),
    )


def _index_type(name: str) -> Attribute:
    text = "Ascend's number of argmax's type: 3 is int32, 9 is int64."
    return Attribute(name, AttributeProto.INT, text, default=3, allowed=tuple(ASCEND_TYPES))


_CEIL = _flag("ceil_mode", "1 if the pooled size was rounded up, 0 if down.", 0)
_LAYOUTS = {name: _fixed("data_format", "Layout of the tensors.", name) for name in ("NCHW", "NCDHW")}
_AS_IN_ONNX = "along each spatial axis of x, as in ONNX's MaxPool."
_ONNX_WINDOW = (
    _ints(body_windows.KERNEL, f"Window size {_AS_IN_ONNX}", 1),
    _ints(body_windows.STRIDES, f"Window step {_AS_IN_ONNX}", 1),
    _ints(body_windows.PADS, f"Padding before, then after x {_AS_IN_ONNX}", 0),
    _ints(body_windows.DILATIONS, f"Spacing of the window's elements {_AS_IN_ONNX}", 1),
    _flag(body_windows.CEIL, "The ceil_mode of ONNX's MaxPool.", None),
)
"""The same window as attributes of ONNX's MaxPool, for the body: one entry per spatial axis of x."""

_DTYPE = _index_type("dtype")
_OUTPUT_SIZE = _ints("output_size", "Size of y along D, H, W.", 1, 3)

_GRADIENT_BODY = {
    Maximum.SELECTED: Body(max_pool_bodies.gradient_text, max_pool_bodies.OLDEST_GRADIENT_OPSET, marker="argmax_planes")
}
_POOL_BODY = {
    Maximum.SELECTED: Body(
        max_pool_bodies.pool_text,
        max_pool_bodies.OLDEST_POOL_OPSET,
        frozenset((TensorProto.FLOAT, TensorProto.FLOAT16)),
    )
}
_WHERE_OF_BFLOAT16 = 16
_ADAPTIVE_BODIES = {
    Maximum.SELECTED: Body(max_pool_bodies.adaptive_pool_text, max_pool_bodies.OLDEST_ADAPTIVE_OPSET),
    Maximum.WHOLE: Body(max_pool_bodies.reduced_pool_text, max_pool_bodies.OLDEST_ADAPTIVE_OPSET),
    Maximum.GATHERED: Body(max_pool_bodies.gathered_pool_text, max_pool_bodies.OLDEST_ADAPTIVE_OPSET),
    Maximum.FILLED: Body(
        max_pool_bodies.filled_pool_text, max_pool_bodies.OLDEST_ADAPTIVE_OPSET, oldest_bfloat16=_WHERE_OF_BFLOAT16
    ),
}

_gradient = partial(
    Op, inputs=(_X, _GRAD, _ARGMAX), outputs=(_Y,), infer=inference.infer_gradient, bodies=_GRADIENT_BODY
)
_pool = partial(Op, inputs=(_POOL_X,), outputs=(_POOL_Y, _POOL_ARGMAX), infer=inference.infer_pool, bodies=_POOL_BODY)

_MAX_POOL_OPS = (
    _gradient(
        MAX_POOL_3D_GRAD,
        f"Gradient of a max pool over up to three spatial axes: {_SCATTER} {_LEADING_AXES}",
        attributes=(*_window("DHW"), _CEIL, _LAYOUTS["NCDHW"]),
        functions=dict.fromkeys((3, 4, 5), (aclnn.MAX_POOL_3D_BACKWARD,)),
        prototype=Prototype(5, "9.0.0", "NCDHW"),
    ),
    _gradient(
        MAX_POOL_2D_GRAD,
        f"Gradient of a max pool over two spatial axes: {_SCATTER}",
        attributes=(*_window("HW"), _DTYPE, _CEIL, _LAYOUTS["NCHW"]),
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
        attributes=(*_window("DHW"), _CEIL, _LAYOUTS["NCDHW"], _DTYPE, *_ONNX_WINDOW),
        functions=dict.fromkeys((3, 4, 5), (aclnn.MAX_POOL_3D_FUNCTION,)),
        prototype=Prototype(5, "9.0.0", "NCDHW"),
        index_type="dtype",
    ),
    _pool(
        MAX_POOL_2D,
        f"Max pool over two spatial axes. {_FIRST_WINS} {_ASCEND_NAN} Padding is never the maximum.",
        attributes=(*_window("HW"), _DTYPE, _CEIL, _LAYOUTS["NCHW"], *_ONNX_WINDOW),
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
        infer=inference.infer_adaptive_pool,
        bodies=_ADAPTIVE_BODIES,
        index_type="indices_dtype",
    ),
)


AVERAGE_3D_GRAD = "AvgPool3DGrad"
AVERAGE_2D_GRAD = "AvgPoolV2Grad"
ADAPTIVE_AVERAGE_GRAD = "AdaptiveAvgPool3dGrad"
ADAPTIVE_AVERAGE_2D_GRAD = "AdaptiveAvgPool2dGrad"

_SIZES = Operand("orig_input_shape", Part.SIZES, "The shape of x, the pooled input: (N, C, spatial axes).")

_MEAN = (
    "each element of the incoming gradient is divided by the number of elements that its window counts, and is added "
    "to the elements of x that its window contains, accumulated in float32 and cast once at the end."
)
_ADAPTIVE_WINDOWS = "On an axis of size I pooled to size O, window o spans floor(o·I/O) … ceil((o+1)·I/O) − 1:"
_BITS = (
    "Ascend's operators may add in another order, or multiply by the reciprocal of the number: results differ in the "
    "last bits."
)


def _grad(name: str) -> Operand:
    return _GRAD._replace(name=name)


def _result(name: str) -> Operand:
    return Operand(name, Part.Y, "The gradient of x, in x's shape.")


_OVERRIDE_TEXT = "The divisor of all windows; 0 if each window is counted."
_OVERRIDE = Attribute("divisor_override", AttributeProto.INT, _OVERRIDE_TEXT, default=0, minimum=0)

_AXIS = "along each spatial axis of x"
_BODY_WINDOW = (
    _ints(body_windows.KERNEL, f"Window size {_AXIS}, for the function body.", 1),
    _ints(body_windows.STRIDES, f"Window step {_AXIS}, for the function body.", 1),
    _ints(body_windows.PADS, f"Padding before x, then 0, {_AXIS}: pads of the body's ConvTranspose.", 0),
    _ints(body_windows.OUTPUT_PADDING, f"Window step − 1 {_AXIS}: of the body's ConvTranspose.", 0),
    _ints(body_windows.COUNTED, f"Padding that windows count, before, then after x, {_AXIS}.", 0),
    _ints(body_windows.UNCOUNTED, f"Padding that windows do not count, before, then after x, {_AXIS}.", 0),
    Attribute(body_windows.DIVISOR, AttributeProto.FLOAT, "divisor_override, as the body reads it.", default=0.0),
)


def _windowed_body(grad: str, y: str) -> dict[Maximum, Body]:
    text = partial(average_pool.windowed_average_text, grad=grad, y=y)
    return {Maximum.SELECTED: Body(text, average_pool.OLDEST_AVERAGE_OPSET, marker="own_terms")}


def _adaptive_body(grad: str, y: str, shape: str, oldest: int) -> dict[Maximum, Body]:
    text = partial(average_pool.adaptive_average_text, grad=grad, y=y, shape=shape)
    return {Maximum.SELECTED: Body(text, oldest, marker="own_terms")}


_AVERAGE_POOL_OPS = (
    Op(
        AVERAGE_3D_GRAD,
        f"Gradient of an average pool over up to three spatial axes: {_MEAN} {_BITS} {_LEADING_AXES}",
        inputs=(_SIZES, _grad("grads")),
        outputs=(_result("output"),),
        attributes=(
            _ints("ksize", "Window size along D, H, W.", 1, 3),
            _ints("strides", "Window step along D, H, W.", 1, 3),
            _ints("pads", "Padding before and after x along D, then H, then W; both are equal.", 0, 6),
            _CEIL,
            _flag("count_include_pad", "1 if a window counts its elements in the padding, 0 if not.", 1),
            _OVERRIDE,
            _LAYOUTS["NCDHW"],
            *_BODY_WINDOW,
        ),
        functions={**dict.fromkeys((3, 4), (aclnn.AVG_POOL_2D_BACKWARD,)), 5: (aclnn.AVG_POOL_3D_BACKWARD,)},
        prototype=Prototype(5, "8.5.0", "ND"),
        infer=inference.infer_windowed_average,
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
            _LAYOUTS["NCHW"],
            _fixed("global_pooling", "Whether one window is the whole plane, whatever ksize says.", 0),
            _CEIL,
            _flag("exclusive", "0 if a window counts its elements in the padding, 1 if not.", 1),
            _OVERRIDE,
            *_BODY_WINDOW,
        ),
        functions={4: (aclnn.AVG_POOL_2D_BACKWARD,)},
        prototype=Prototype(4, "9.0.0", "ND"),
        infer=inference.infer_windowed_average,
        bodies=_windowed_body("input_grad", "out_grad"),
    ),
    Op(
        ADAPTIVE_AVERAGE_GRAD,
        f"Gradient of an adaptive average pool over up to three spatial axes. {_ADAPTIVE_WINDOWS} {_MEAN} {_BITS}",
        inputs=(_grad("y_grad"), _X),
        outputs=(_result("x_grad"),),
        attributes=(_LAYOUTS["NCDHW"],),
        functions={
            **dict.fromkeys((3, 4), (aclnn.ADAPTIVE_AVG_POOL_2D_BACKWARD,)),
            5: (aclnn.ADAPTIVE_AVG_POOL_3D_BACKWARD,),
        },
        # On Atlas A2 and A3, and on Ascend 950 before 9.1.0, it takes a gradient of (D, H, W, N·C) only.
        prototype=Prototype(5, "9.1.0", "ND", ("Ascend950",)),
        infer=inference.infer_adaptive_average,
        bodies=_adaptive_body("y_grad", "x_grad", "Shape(x)", average_pool.OLDEST_AVERAGE_OPSET),
    ),
    Op(
        ADAPTIVE_AVERAGE_2D_GRAD,
        f"Gradient of an adaptive average pool over two spatial axes, of an x of known shape. {_ADAPTIVE_WINDOWS} "
        f"{_MEAN} {_BITS}",
        inputs=(_grad("input_grad"),),
        outputs=(_result("output_grad"),),
        attributes=(_ints("orig_input_shape", "The shape of x, the pooled input.", 1, 4),),
        functions={4: (aclnn.ADAPTIVE_AVG_POOL_2D_BACKWARD,)},
        prototype=Prototype(4, "9.1.0", "ND"),
        infer=inference.infer_shaped_adaptive_average,
        bodies=_adaptive_body(
            "input_grad",
            "output_grad",
            "Constant<value_ints: ints = @orig_input_shape>()",
            average_pool.OLDEST_NUMBERS_OPSET,
        ),
    ),
)


OPS: Mapping[str, Op] = MappingProxyType({op.name: op for op in (*_MAX_POOL_OPS, *_AVERAGE_POOL_OPS)})

PROVIDER_OPERATORS = frozenset((*OPS, UNSQUEEZE_SCALARS))
"""The operators of the domain for which the execution provider has kernels; a test compares the runtime's routes."""
