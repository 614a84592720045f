# SPDX-License-Identifier: Apache-2.0

"""Activations, softmax, dropout, and arithmetic: forward operators of onnxruntime's own, and gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import TensorProto

from poolgrad_lowering.model.diagnostics.codes import Refuse
from poolgrad_lowering.model.diagnostics.definition_codes import DefinitionCode
from poolgrad_lowering.model.facts.shape_rules import common_shape
from poolgrad_lowering.model.ir.bodies import Tensor, where
from poolgrad_lowering.standard.definition import Call, defines

_TANH_SCALE = math.sqrt(2 / math.pi)
_TANH_CUBE = 0.044715
"""The polynomial of FastGelu: the argument of tanh is √(2/π) · (x + 0.044715 · x³)."""


@defines("ReluGrad", "dY where Y > 0, else 0")
@defines("ReluGrad", "dY where Y > 0, else 0", domain="")
def _relu_grad(call: Call) -> Tensor:
    """Of onnxruntime, and of TensorFlow as tf2onnx leaves it."""
    y, dy = call.typed("Y"), call.tensor("dY")
    zero = y.constant(0)
    return where(y.op("Greater", zero), dy, zero)


@defines("LeakyReluGrad", "dY where Y > 0, else alpha · dY")
def _leaky_relu_grad(call: Call) -> Tensor:
    y, dy = call.typed("Y"), call.tensor("dY")
    return where(y.op("Greater", 0), dy, dy * y.constant(call.attribute("alpha", 0.01)))


@defines("SigmoidGrad", "dY · Y · (1 − Y)")
def _sigmoid_grad(call: Call) -> Tensor:
    y = call.typed("Y")
    return call.tensor("dY") * y * (1 - y)


@defines("TanhGrad", "dY · (1 − Y²)")
def _tanh_grad(call: Call) -> Tensor:
    y = call.typed("Y")
    return call.tensor("dY") * (1 - y * y)


def _gelu_input(call: Call) -> Tensor:
    """X, or X + B in the operators of a sum."""
    x = call.typed("X")
    return x + call.tensor("B") if call.has("B") else x


@defines("BiasGelu", "(X + B) · Φ(X + B)")
@defines("Gelu", "X · Φ(X)")
def _gelu(call: Call) -> Tensor:
    """x · Φ(x), with Φ(x) = (1 + erf(x / √2)) / 2."""
    x = _gelu_input(call)
    return x * _normal(x * math.sqrt(0.5))


def _normal(scaled: Tensor) -> Tensor:
    return (scaled.op("Erf") + 1) * 0.5


@defines("BiasGeluGrad_dX", "GeluGrad(dY, X + B)")
@defines("GeluGrad", "dY · (Φ(X) + X · φ(X))")
def _gelu_grad(call: Call) -> Tensor:
    """dY · slope, the slope is Φ(x) + x · φ(x), with φ(x) = exp(−x² / 2) / √(2π)."""
    x = _gelu_input(call)
    scaled = x * math.sqrt(0.5)
    phi = _normal(scaled)
    density = (-(scaled * scaled)).op("Exp") * (1 / math.sqrt(2 * math.pi))
    return call.tensor("dY") * (phi + x * density)


@defines("FastGelu", "X · (1 + tanh(√(2/π) · (X + 0.044715 · X³))) / 2")
def _fast_gelu(call: Call) -> Tensor:
    x = _gelu_input(call)
    tanh, _ = _tanh_of_cube(x)
    return x * ((tanh + 1) * 0.5)


def _tanh_of_cube(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return t = tanh(a·x + b·x³), and b·x²."""
    quadratic = x * x * (_TANH_SCALE * _TANH_CUBE)
    return (x * (quadratic + _TANH_SCALE)).op("Tanh"), quadratic


@defines("BiasFastGeluGrad_dX", "FastGeluGrad(dY, X + B)")
@defines("FastGeluGrad", "dY by the slope of FastGelu at X")
def _fast_gelu_grad(call: Call) -> Tensor:
    """dY · slope, the slope is (1 + t) / 2 + x · (1 − t²) / 2 · (a + 3 b · x²), with t = tanh(a·x + b·x³)."""
    x = _gelu_input(call)
    tanh, quadratic = _tanh_of_cube(x)
    phi = (tanh + 1) * 0.5
    outer = (1 - tanh * tanh) * (quadratic * 3 + _TANH_SCALE)
    return call.tensor("dY") * (phi + x * outer * 0.5)


@defines("QuickGelu", "X · sigmoid(alpha · X)")
def _quick_gelu(call: Call) -> Tensor:
    x = call.typed("X")
    scaled: Tensor = x * call.attribute("alpha", 1.702)
    return x * scaled.op("Sigmoid")


@defines("QuickGeluGrad", "dY · s · (1 + alpha · X · (1 − s)), s = sigmoid(alpha · X)")
def _quick_gelu_grad(call: Call) -> Tensor:
    scaled: Tensor = call.typed("X") * call.attribute("alpha", 1.702)
    gate = scaled.op("Sigmoid")
    return call.tensor("dY") * (gate * (scaled * (1 - gate) + 1))


def _softmax_axes(call: Call, *, coerced: bool) -> list[int]:
    """Return the axes of a softmax: one, or in the form of opsets below 13 all axes from that one on."""
    rank = call.rank("Y")
    axis = call.axis(rank, 1 if coerced else -1)
    return list(range(axis, rank)) if coerced else [axis]


@defines("SoftmaxGrad", "Y · (dY − Σ dY · Y)", coerced=True)
@defines("SoftmaxGrad_13", "Y · (dY − Σ dY · Y)")
def _softmax_grad(call: Call, *, coerced: bool = False) -> Tensor:
    dy, y = call.widened("dY", "Y")
    total = (dy * y).reduced("ReduceSum", _softmax_axes(call, coerced=coerced), keep=True)
    return call.narrowed((dy - total) * y, "dY")


@defines("LogSoftmaxGrad", "dY − exp(Y) · Σ dY", coerced=True)
@defines("LogSoftmaxGrad_13", "dY − exp(Y) · Σ dY")
def _log_softmax_grad(call: Call, *, coerced: bool = False) -> Tensor:
    dy, y = call.widened("dY", "Y")
    total = dy.reduced("ReduceSum", _softmax_axes(call, coerced=coerced), keep=True)
    return call.narrowed(dy - y.op("Exp") * total, "dY")


@defines("DropoutGrad", "dY · mask / (1 − ratio)")
def _dropout_grad(call: Call) -> Tensor:
    """dY · mask / (1 − ratio). Outside of training the ratio is 0 and the mask is set everywhere."""
    dy = call.typed("dY")
    ratio, training = _constant(call, "ratio", 0.5), _constant(call, "training_mode", 1.0)
    if training == 0:
        return dy
    if ratio is not None and not 0 <= ratio < 1:
        raise call.refuse(f"ratio {ratio}")
    kept = call.tensor("mask").cast(dy.element_type)
    if ratio is not None and training is not None:
        return dy * kept * float(np.float32(1) / (np.float32(1) - np.float32(ratio)))
    dropped = call.converted("ratio", dy.element_type) if call.has("ratio") else dy.constant(0.5)
    if training is None:
        dropped = call.tensor("training_mode").op("Where", dropped, dy.constant(0), element_type=dy.element_type)
    factor = (1 - dropped).op("Reciprocal").reshape([])
    return dy * kept * factor


def _constant(call: Call, name: str, absent: float) -> float | None:
    """Return the value of a scalar operand, None if it is computed."""
    return call.number(name) if call.has(name) else absent


@defines("FakeQuantGrad", "dY · mask")
def _fake_quant_grad(call: Call) -> Tensor:
    dy = call.typed("dY")
    return dy * call.tensor("mask").cast(dy.element_type)


@defines("Scale", "X · scale, or X / scale if scale_down")
def _scale(call: Call) -> Tensor:
    x = call.typed("X")
    factor = call.converted("scale", x.element_type)
    factor = factor if call.facts.shape(call.operand("scale")) == () else factor.reshape([])
    return x / factor if call.attribute("scale_down", 0) else x * factor


@defines("ScaledSum", "the sum of scale_i · X_i")
def _scaled_sum(call: Call) -> Tensor:
    first, *others = (
        call.typed(name).op("Mul", call.attribute(f"scale_{number}", 1.0))
        for number, name in enumerate(call.all_inputs())
    )
    return first.op("Sum", *others)


@defines("DivGrad", "dA = dY / B; dB = −dY · A / B², summed where they were broadcast")
def _div_grad(call: Call) -> dict[str, Tensor]:
    a, b, dy = map(call.tensor, ("A", "B", "dY"))
    results = {}
    if call.wants("dA"):
        results["dA"] = _summed(call, "A", "B", dy / b)
    if call.wants("dB"):
        results["dB"] = _summed(call, "B", "A", -(dy * (a / b / b)))
    return results


def _summed(call: Call, name: str, other: str, whole: Tensor) -> Tensor:
    """Return the sum of a gradient over the axes on which an operand was broadcast."""
    own = call.shape(name)
    common = common_shape(None, own, call.shape(other))
    if common is None:
        raise Refuse(DefinitionCode.UNKNOWN_SIZES, "it is not known on which axes {} is broadcast", name)
    missing = len(common) - len(own)
    axes = [axis for axis, size in enumerate(common) if axis < missing or own[axis - missing] != size]
    if not axes:
        return whole
    return whole.reduced("ReduceSum", axes).op("Reshape", call.tensor(name).op("Shape"))


@defines("FusedMatMul", "alpha · A · B, with axes of A and B exchanged")
def _fused_mat_mul(call: Call) -> Tensor:
    a, b, alpha = _operand(call, "A"), _operand(call, "B"), call.attribute("alpha", 1.0)
    return a @ b if alpha == 1 else (a @ b) * call.typed("A").constant(alpha)


def _operand(call: Call, name: str) -> Tensor:
    """An operand of FusedMatMul: its last two axes are exchanged, or its first axis comes before the last one."""
    matrix, batch = call.attribute(f"trans{name}", 0), call.attribute(f"transBatch{name}", 0)
    rank = call.rank(name) if matrix or batch else 0
    if (not matrix and not batch) or rank < 2:
        return call.tensor(name)
    order = [*range(1, rank - 1), 0, rank - 1] if batch else list(range(rank))
    if matrix:
        order[-2:] = order[-1], order[-2]
    return call.tensor(name).transpose(order)


_ACTIVATIONS = {"Relu": "", "Sigmoid": "", "Tanh": "", "LeakyRelu": "alpha", "HardSigmoid": "alpha beta"}
"""The activations of FusedConv and FusedGemm, with the attributes that their parameters are."""


def _activated(call: Call, source: Tensor) -> Tensor:
    """Return the result of the activation that a fused node names."""
    name = call.attribute("activation", "")
    parameters = call.attribute("activation_params") or [
        call.attribute(f"activation_{wanted}") for wanted in _ACTIVATIONS.get(name, "").split()
    ]
    if name == "Clip" and len(parameters) == 2:
        operand = call.typed("X" if call.has("X") else "A")
        return source.op("Clip", *map(operand.constant, parameters))
    if name not in _ACTIVATIONS or None in parameters:
        raise call.refuse(f"activation {name}")
    attributes: dict[str, Any] = dict(zip(_ACTIVATIONS[name].split(), map(float, parameters), strict=False))
    return source.op(name, **attributes)


@defines("FusedGemm", "activation(Gemm(A, B, C))")
def _fused_gemm(call: Call) -> Tensor:
    factors = {name: call.attribute(name, 1.0) for name in ("alpha", "beta")}
    flags = {name: call.attribute(name, 0) for name in ("transA", "transB")}
    a, *others = map(call.tensor, call.all_inputs())
    return _activated(call, a.op("Gemm", *others, **factors, **flags))


@defines("FusedConv", "activation(Conv(X, W, B) + Z)")
def _fused_conv(call: Call) -> Tensor:
    lists = ("kernel_shape", "strides", "dilations", "pads")
    written = {name: given for name in lists if (given := call.attribute(name, []))}
    written |= {"auto_pad": call.attribute("auto_pad", "NOTSET"), "group": call.attribute("group", 1)}
    x, *others = (call.tensor(name) for name in ("X", "W", "B") if call.has(name))
    linear = x.op("Conv", *others, **written)
    return _activated(call, linear + call.tensor("Z") if call.has("Z") else linear)


@defines("ReduceAllL2", "the root of the sum of all squares")
def _reduce_all_l2(call: Call) -> Tensor:
    wide = [call.tensor(name).cast(TensorProto.FLOAT) for name in call.all_inputs()]
    first, *others = ((each * each).total() for each in wide)
    return first.op("Sum", *others).op("Sqrt")


@defines("InPlaceAccumulatorV2", "value if reset, else buffer + value; the output is the new buffer")
def _in_place_accumulator(call: Call) -> Tensor:
    """The output is the new buffer; the operator itself writes over the buffer that it reads, and gives a flag."""
    given = call.node.output(0)
    if call.node.scope.parent is not None or (given is not None and given.uses):
        raise call.refuse("an output that a node reads, or that is one of a subgraph")
    term = call.converted("value", call.element_type("buffer"))
    total = call.tensor("buffer") + term
    if not call.has("reset"):
        return total
    flag = call.tensor("reset")
    return where(flag if call.facts.shape(call.operand("buffer")) else flag.reshape([]), term, total)
