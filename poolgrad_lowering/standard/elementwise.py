# SPDX-License-Identifier: Apache-2.0

"""Activations, softmax, dropout, and arithmetic: forward operators of onnxruntime's own, and gradients."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from onnx import TensorProto

from poolgrad_lowering.model.diagnostics.codes import Refuse
from poolgrad_lowering.model.diagnostics.definition_codes import DefinitionCode
from poolgrad_lowering.model.facts.shape_rules import common_shape
from poolgrad_lowering.model.ir.dims import Shape
from poolgrad_lowering.standard.definition import Call, Definition, converted, in_float32
from poolgrad_lowering.standard.nodes import as_scalar, cast, reduce, scalar, scalars, transpose

_TANH_SCALE = math.sqrt(2 / math.pi)
_TANH_CUBE = 0.044715
"""The polynomial of FastGelu: the argument of tanh is √(2/π) · (x + 0.044715 · x³)."""


def relu_grad(call: Call) -> str:
    """Return the body of ReluGrad."""
    return scalar("zero", 0, call.element_type("Y")) + "active = Greater(Y, zero)\ndX = Where(active, dY, zero)\n"


def _leaky_relu_grad(call: Call) -> str:
    return (
        scalars(call.element_type("Y"), zero=0, alpha=call.attribute("alpha", 0.01))
        + "active = Greater(Y, zero)\nleaked = Mul(dY, alpha)\ndX = Where(active, dY, leaked)\n"
    )


def _sigmoid_grad(call: Call) -> str:
    return scalar("one", 1, call.element_type("Y")) + "part = Mul(dY, Y)\nrest = Sub(one, Y)\ndX = Mul(part, rest)\n"


def _tanh_grad(call: Call) -> str:
    return (
        scalar("one", 1, call.element_type("Y")) + "square = Mul(Y, Y)\nslope = Sub(one, square)\ndX = Mul(dY, slope)\n"
    )


def _gelu(call: Call, source: str = "X") -> str:
    """x · Φ(x), with Φ(x) = (1 + erf(x / √2)) / 2."""
    return _normal(call, source) + f"Y = Mul({source}, phi)\n"


def _normal(call: Call, source: str) -> str:
    return (
        scalars(call.element_type("X"), half=0.5, one=1, root=math.sqrt(0.5))
        + f"scaled = Mul({source}, root)\nerror = Erf(scaled)\nabove = Add(error, one)\nphi = Mul(above, half)\n"
    )


def _gelu_grad(call: Call, source: str = "X") -> str:
    """dY · slope, the slope is Φ(x) + x · φ(x), with φ(x) = exp(−x² / 2) / √(2π)."""
    return (
        _normal(call, source)
        + scalar("density", 1 / math.sqrt(2 * math.pi), call.element_type("X"))
        + f"square = Mul(scaled, scaled)\nnegative = Neg(square)\nbell = Exp(negative)\n"
        f"dense = Mul(bell, density)\npart = Mul({source}, dense)\nslope = Add(phi, part)\ndX = Mul(dY, slope)\n"
    )


def _fast_gelu(call: Call, source: str = "X") -> str:
    return _tanh_of_cube(call, source) + f"phi = Mul(above, half)\nY = Mul({source}, phi)\n"


def _tanh_of_cube(call: Call, source: str) -> str:
    return (
        scalars(call.element_type("X"), half=0.5, one=1, linear=_TANH_SCALE, cubic=_TANH_SCALE * _TANH_CUBE)
        + f"square = Mul({source}, {source})\nquadratic = Mul(square, cubic)\ninner = Add(quadratic, linear)\n"
        f"argument = Mul({source}, inner)\ntanh = Tanh(argument)\nabove = Add(tanh, one)\n"
    )


def _fast_gelu_grad(call: Call, source: str = "X") -> str:
    """dY · slope, the slope is (1 + t) / 2 + x · (1 − t²) / 2 · (a + 3 b · x²), with t = tanh(a·x + b·x³)."""
    return (
        _tanh_of_cube(call, source)
        + scalar("three", 3, call.element_type("X"))
        + "phi = Mul(above, half)\ntanh_square = Mul(tanh, tanh)\ntanh_slope = Sub(one, tanh_square)\n"
        "triple = Mul(quadratic, three)\ninner_slope = Add(triple, linear)\nouter = Mul(tanh_slope, inner_slope)\n"
        f"product = Mul({source}, outer)\npart = Mul(product, half)\nslope = Add(phi, part)\ndX = Mul(dY, slope)\n"
    )


def _quick_gelu(call: Call) -> str:
    return (
        scalar("alpha", call.attribute("alpha", 1.702), call.element_type("X"))
        + "scaled = Mul(X, alpha)\ngate = Sigmoid(scaled)\nY = Mul(X, gate)\n"
    )


def _quick_gelu_grad(call: Call) -> str:
    return (
        scalars(call.element_type("X"), alpha=call.attribute("alpha", 1.702), one=1)
        + "scaled = Mul(X, alpha)\ngate = Sigmoid(scaled)\nrest = Sub(one, gate)\nbent = Mul(scaled, rest)\n"
        "above = Add(bent, one)\nslope = Mul(gate, above)\ndX = Mul(dY, slope)\n"
    )


def _of_sum(write: Callable[[Call, str], str]) -> Callable[[Call], str]:
    """Return how a body for X + B is written, from how one for X is."""
    return lambda call: "sum = Add(X, B)\n" + write(call, "sum")


def _softmax_axes(call: Call, *, coerced: bool) -> list[int]:
    """Return the axes of a softmax: one, or in the form of opsets below 13 all axes from that one on."""
    rank = call.rank("Y")
    axis = call.axis(rank, 1 if coerced else -1)
    return list(range(axis, rank)) if coerced else [axis]


def _softmax_grad(call: Call, *, coerced: bool = False) -> str:
    """Y · (dY − Σ dY · Y)."""
    body = (
        "product_ = Mul(dY_wide, Y_wide)\n"
        + reduce("ReduceSum", "total", "product_", _softmax_axes(call, coerced=coerced), keep=True)
        + "centred = Sub(dY_wide, total)\ndX_wide = Mul(centred, Y_wide)\n"
    )
    return in_float32(call, body, ("dY", "Y"), {"dX": "dY"})


def _log_softmax_grad(call: Call, *, coerced: bool = False) -> str:
    """dY − exp(Y) · Σ dY."""
    body = (
        reduce("ReduceSum", "total", "dY_wide", _softmax_axes(call, coerced=coerced), keep=True)
        + "odds = Exp(Y_wide)\nshare = Mul(odds, total)\ndX_wide = Sub(dY_wide, share)\n"
    )
    return in_float32(call, body, ("dY", "Y"), {"dX": "dY"})


def _dropout_grad(call: Call) -> str:
    """dY · mask / (1 − ratio). Outside of training the ratio is 0 and the mask is set everywhere."""
    element_type = call.element_type("dY")
    ratio, training = _constant(call, "ratio", 0.5), _constant(call, "training_mode", 1.0)
    text = cast("kept_elements", "mask", element_type)
    if training == 0:
        return "dX = Identity(dY)\n"
    if ratio is not None and not 0 <= ratio < 1:
        raise call.refuse(f"ratio {ratio}")
    if ratio is not None and training is not None:
        text += scalar("factor", float(np.float32(1) / (np.float32(1) - np.float32(ratio))), element_type)
    else:
        text += scalar("one", 1, element_type)
        text += (
            converted(call, "given", "ratio", element_type) if call.has("ratio") else scalar("given", 0.5, element_type)
        )
        if training is None:
            text += scalar("zero", 0, element_type) + "dropped = Where(training_mode, given, zero)\n"
        else:
            text += "dropped = Identity(given)\n"
        text += "kept = Sub(one, dropped)\ninverse = Reciprocal(kept)\n" + as_scalar("factor", "inverse")
    return text + "part = Mul(dY, kept_elements)\ndX = Mul(part, factor)\n"


def _constant(call: Call, name: str, absent: float) -> float | None:
    """Return the value of a scalar operand, None if it is computed."""
    return call.number(name) if call.has(name) else absent


def _fake_quant_grad(call: Call) -> str:
    return cast("kept_elements", "mask", call.element_type("dY")) + "dX = Mul(dY, kept_elements)\n"


def _scale(call: Call) -> str:
    operator = "Div" if call.attribute("scale_down", 0) else "Mul"
    text = converted(call, "given", "scale", call.element_type("X"))
    is_scalar = call.facts.shape(call.operand("scale")) == ()
    return (
        text
        + ("factor = Identity(given)\n" if is_scalar else as_scalar("factor", "given"))
        + f"Y = {operator}(X, factor)\n"
    )


def _scaled_sum(call: Call) -> str:
    names = call.all_inputs()
    text = ""
    for number, name in enumerate(names):
        text += scalar(f"factor_{number}", call.attribute(f"scale_{number}", 1.0), call.element_type(name))
        text += f"term_{number} = Mul({name}, factor_{number})\n"
    return text + f"Y = Sum({', '.join(f'term_{number}' for number in range(len(names)))})\n"


def _div_grad(call: Call) -> str:
    """dA = dY / B, dB = −dY · A / B², each summed over the axes on which the operand was broadcast."""
    a, b = call.shape("A"), call.shape("B")
    text = ""
    if call.wants("dA"):
        text += "ratio_a = Div(dY, B)\n" + _summed(a, b, "A", "ratio_a")
    if call.wants("dB"):
        text += (
            "inverse = Div(A, B)\nratio_b = Div(inverse, B)\nproduct_b = Mul(dY, ratio_b)\nwhole_b = Neg(product_b)\n"
            + _summed(b, a, "B", "whole_b")
        )
    return text


def _summed(own: Shape, other: Shape, name: str, whole: str) -> str:
    """Return the nodes that sum a gradient over the axes on which an operand was broadcast, as d<name>."""
    common = common_shape(None, own, other)
    if common is None:
        raise Refuse(DefinitionCode.UNKNOWN_SIZES, "it is not known on which axes {} is broadcast", name)
    missing = len(common) - len(own)
    axes = [axis for axis, size in enumerate(common) if axis < missing or own[axis - missing] != size]
    if not axes:
        return f"d{name} = Identity({whole})\n"
    return (
        reduce("ReduceSum", f"sum_{name}", whole, axes)
        + f"shape_{name} = Shape({name})\nd{name} = Reshape(sum_{name}, shape_{name})\n"
    )


def _fused_mat_mul(call: Call) -> str:
    text, alpha = _operand(call, "A") + _operand(call, "B"), call.attribute("alpha", 1.0)
    if alpha == 1:
        return text + "Y = MatMul(left_A, left_B)\n"
    text += scalar("alpha", alpha, call.element_type("A"))
    return text + "product = MatMul(left_A, left_B)\nY = Mul(product, alpha)\n"


def _operand(call: Call, name: str) -> str:
    """An operand of FusedMatMul: its last two axes are exchanged, or its first axis comes before the last one."""
    matrix, batch = call.attribute(f"trans{name}", 0), call.attribute(f"transBatch{name}", 0)
    rank = call.rank(name) if matrix or batch else 0
    if (not matrix and not batch) or rank < 2:
        return f"left_{name} = Identity({name})\n"
    order = [*range(1, rank - 1), 0, rank - 1] if batch else list(range(rank))
    if matrix:
        order[-2:] = order[-1], order[-2]
    return transpose(f"left_{name}", name, order)


_ACTIVATIONS = {"Relu": "", "Sigmoid": "", "Tanh": "", "LeakyRelu": "alpha", "HardSigmoid": "alpha beta"}
"""The activations of FusedConv and FusedGemm, with the attributes that their parameters are."""


def activated(call: Call, source: str, result: str) -> str:
    """Return the node of the activation that a fused node names."""
    name = call.attribute("activation", "")
    parameters = call.attribute("activation_params") or [
        call.attribute(f"activation_{wanted}") for wanted in _ACTIVATIONS.get(name, "").split()
    ]
    if name == "Clip" and len(parameters) == 2:
        element_type = call.element_type("X" if call.has("X") else "A")
        low, high = parameters
        return scalars(element_type, low=low, high=high) + f"{result} = Clip({source}, low, high)\n"
    if name not in _ACTIVATIONS or None in parameters:
        raise call.refuse(f"activation {name}")
    pairs = zip(_ACTIVATIONS[name].split(), parameters, strict=False)
    written = ", ".join(f"{wanted} = {float(value)!r}" for wanted, value in pairs)
    return f"{result} = {name}{f'<{written}>' if written else ''}({source})\n"


def _fused_gemm(call: Call) -> str:
    alpha, beta = call.attribute("alpha", 1.0), call.attribute("beta", 1.0)
    flags = f"transA = {call.attribute('transA', 0)}, transB = {call.attribute('transB', 0)}"
    operands = "A, B, C" if call.has("C") else "A, B"
    return f"linear = Gemm<alpha = {alpha!r}, beta = {beta!r}, {flags}>({operands})\n" + activated(call, "linear", "Y")


def _fused_conv(call: Call) -> str:
    lists = ("kernel_shape", "strides", "dilations", "pads")
    written = [f"{name} = {given}" for name in lists if (given := call.attribute(name, []))]
    written += [f'auto_pad = "{call.attribute("auto_pad", "NOTSET")}"', f"group = {call.attribute('group', 1)}"]
    operands = "X, W, B" if call.has("B") else "X, W"
    text = f"linear = Conv<{', '.join(written)}>({operands})\n"
    text += "sum = Add(linear, Z)\n" if call.has("Z") else "sum = Identity(linear)\n"
    return text + activated(call, "sum", "Y")


def _reduce_all_l2(call: Call) -> str:
    names = call.all_inputs()
    text = ""
    for number, name in enumerate(names):
        text += cast(f"wide_{number}", name, TensorProto.FLOAT)
        text += f"square_{number} = Mul(wide_{number}, wide_{number})\n"
        text += f"part_{number} = ReduceSum<keepdims = 0>(square_{number})\n"
    return text + f"total = Sum({', '.join(f'part_{number}' for number in range(len(names)))})\nY = Sqrt(total)\n"


def _in_place_accumulator(call: Call) -> str:
    """The output is the new buffer; the operator itself writes over the buffer that it reads."""
    text = converted(call, "term", "value", call.element_type("buffer")) + "sum = Add(buffer, term)\n"
    if not call.has("reset"):
        return text + "new_buffer = Identity(sum)\n"
    if call.facts.shape(call.operand("buffer")):
        return text + "new_buffer = Where(reset, term, sum)\n"
    return text + as_scalar("flag", "reset") + "new_buffer = Where(flag, term, sum)\n"


DEFINITIONS = (
    Definition("BiasGelu", _of_sum(_gelu), "(X + B) · Φ(X + B)"),
    Definition("BiasGeluGrad_dX", _of_sum(_gelu_grad), "GeluGrad(dY, X + B)"),
    Definition("BiasFastGeluGrad_dX", _of_sum(_fast_gelu_grad), "FastGeluGrad(dY, X + B)"),
    Definition("DivGrad", _div_grad, "dA = dY / B; dB = −dY · A / B², summed where they were broadcast"),
    Definition("DropoutGrad", _dropout_grad, "dY · mask / (1 − ratio)"),
    Definition("FakeQuantGrad", _fake_quant_grad, "dY · mask"),
    Definition(
        "FastGelu",
        lambda call: _of_sum(_fast_gelu)(call) if call.has("B") else _fast_gelu(call),
        "X · (1 + tanh(√(2/π) · (X + 0.044715 · X³))) / 2",
    ),
    Definition("FastGeluGrad", _fast_gelu_grad, "dY by the slope of FastGelu at X"),
    Definition("FusedConv", _fused_conv, "activation(Conv(X, W, B) + Z)"),
    Definition("FusedGemm", _fused_gemm, "activation(Gemm(A, B, C))"),
    Definition("FusedMatMul", _fused_mat_mul, "alpha · A · B, with axes of A and B exchanged"),
    Definition("Gelu", _gelu, "X · Φ(X)"),
    Definition("GeluGrad", _gelu_grad, "dY · (Φ(X) + X · φ(X))"),
    Definition(
        "InPlaceAccumulatorV2",
        _in_place_accumulator,
        "value if reset, else buffer + value; the output is the new buffer",
    ),
    Definition("LeakyReluGrad", _leaky_relu_grad, "dY where Y > 0, else alpha · dY"),
    Definition("LogSoftmaxGrad", lambda call: _log_softmax_grad(call, coerced=True), "dY − exp(Y) · Σ dY"),
    Definition("LogSoftmaxGrad_13", _log_softmax_grad, "dY − exp(Y) · Σ dY"),
    Definition("QuickGelu", _quick_gelu, "X · sigmoid(alpha · X)"),
    Definition("QuickGeluGrad", _quick_gelu_grad, "dY · s · (1 + alpha · X · (1 − s)), s = sigmoid(alpha · X)"),
    Definition("ReduceAllL2", _reduce_all_l2, "the root of the sum of all squares"),
    Definition("ReluGrad", relu_grad, "dY where Y > 0, else 0"),
    Definition("Scale", _scale, "X · scale, or X / scale if scale_down"),
    Definition("ScaledSum", _scaled_sum, "the sum of scale_i · X_i"),
    Definition("SigmoidGrad", _sigmoid_grad, "dY · Y · (1 − Y)"),
    Definition("SoftmaxGrad", lambda call: _softmax_grad(call, coerced=True), "Y · (dY − Σ dY · Y)"),
    Definition("SoftmaxGrad_13", _softmax_grad, "Y · (dY − Σ dY · Y)"),
    Definition("TanhGrad", _tanh_grad, "dY · (1 − Y²)"),
)
