# SPDX-License-Identifier: Apache-2.0

"""Normalizations over the batch and over layers, forward and backward. Halves are computed in float32.

With x̂ = (X − μ) · σ⁻¹ over n elements, and A = dY · scale · σ⁻¹:

    dX = A − mean(A) − x̂ · mean(A · x̂),  dscale = Σ dY · x̂,  dbias = Σ dY

The products are in the order of onnxruntime's kernels, so that they overflow for the same operands.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx import TensorProto

from poolgrad_lowering.standard.definition import Call, Definition, converted, in_float32
from poolgrad_lowering.standard.nodes import cast, reduce, reshape, scalar, scalars

EPSILON = 1e-5


def _batch_norm_internal(call: Call) -> str:
    """BatchNormalization in training; the running variance takes in the population's variance, as in onnxruntime."""
    rank = call.rank("X")
    if not call.attribute("training_mode", 1):
        raise call.refuse("a BatchNormInternal outside of training")
    kept = call.attribute("momentum", 0.9)
    axes = [0, *range(2, rank)]
    body = (
        reduce("ReduceMean", "centre", "X_wide", axes, keep=True)
        + "deviation = Sub(X_wide, centre)\nsquares = Mul(deviation, deviation)\n"
        + reduce("ReduceMean", "variance", "squares", axes, keep=True)
        + scalar("epsilon", call.attribute("epsilon", EPSILON), call.computed_type("X"))
        + "raised = Add(variance, epsilon)\nspread = Sqrt(raised)\ninverse = Reciprocal(spread)\n"
        + "normal = Mul(deviation, inverse)\n"
        + _by_channel("factor", "scale_wide", rank)
        + _by_channel("offset", "B_wide", rank)
        + "scaled = Mul(normal, factor)\nY_wide = Add(scaled, offset)\n"
        + reshape("saved_mean_wide", "centre", [-1])
        + reshape("saved_inv_std_wide", "inverse", [-1])
        + reshape("flat_variance", "variance", [-1])
        + scalars(call.computed_type("mean"), kept=kept, taken=1 - kept)
        + "old_mean = Mul(mean_wide, kept)\nnew_mean = Mul(saved_mean_wide, taken)\n"
        + "running_mean_wide = Add(old_mean, new_mean)\n"
        + "old_var = Mul(var_wide, kept)\nnew_var = Mul(flat_variance, taken)\n"
        + "running_var_wide = Add(old_var, new_var)\n"
    )
    outputs = {"Y": "X", "running_mean": "mean", "running_var": "var", "saved_mean": "mean", "saved_inv_std": "var"}
    return in_float32(call, body, ("X", "scale", "B", "mean", "var"), outputs)


def _by_channel(result: str, source: str, rank: int) -> str:
    return reshape(result, source, [1, -1, *[1] * (rank - 2)])


def _batch_normalization_grad(call: Call) -> str:
    rank = call.rank("X")
    axes = [0, *range(2, rank)]
    body = (
        _by_channel("centre", "mean_wide", rank)
        + _by_channel("inverse", "inv_std_wide", rank)
        + _by_channel("factor", "scale_wide", rank)
        + "deviation = Sub(X_wide, centre)\nnormal = Mul(deviation, inverse)\n"
        + reduce("ReduceSum", "dB_wide", "dY_wide", axes)
        + "product_ = Mul(dY_wide, normal)\n"
        + reduce("ReduceSum", "dscale_wide", "product_", axes)
        + reduce("ReduceMean", "mean_dy", "dY_wide", axes, keep=True)
        + reduce("ReduceMean", "mean_product", "product_", axes, keep=True)
        + "along = Mul(normal, mean_product)\ncentred = Sub(dY_wide, mean_dy)\nacross = Sub(centred, along)\n"
        + "slope = Mul(factor, inverse)\ndX_wide = Mul(across, slope)\n"
    )
    outputs = {"dX": "X", "dscale": "scale", "dB": "scale"}
    return in_float32(call, body, ("dY", "X", "scale", "mean", "inv_std"), outputs)


def _layer_normalization(call: Call, *, centred: bool = True) -> str:
    rank = call.rank("X")
    axes = range(call.axis(rank, -1), rank)
    body = "deviation = Identity(X_wide)\n"
    if centred:
        body = reduce("ReduceMean", "mean_wide", "X_wide", axes, keep=True) + "deviation = Sub(X_wide, mean_wide)\n"
    body += (
        "squares = Mul(deviation, deviation)\n"
        + reduce("ReduceMean", "variance", "squares", axes, keep=True)
        + scalar("epsilon", call.attribute("epsilon", EPSILON), call.computed_type("X"))
        + "raised = Add(variance, epsilon)\nspread = Sqrt(raised)\ninv_std_wide = Reciprocal(spread)\n"
        + "normal = Mul(deviation, inv_std_wide)\n"
    )
    if call.has("B"):
        body += "scaled = Mul(normal, scale_wide)\nY_wide = Add(scaled, B_wide)\n"
    else:
        body += "Y_wide = Mul(normal, scale_wide)\n"
    wide = in_float32(call, body, ("X", "scale", "B"), {"Y": "X"})
    # The statistics are float32 whatever X is.
    if call.computed_type("X") == TensorProto.FLOAT:
        return wide.replace("mean_wide", "mean").replace("inv_std_wide", "inv_std")
    means = cast("mean", "mean_wide", TensorProto.FLOAT) if centred else ""
    return wide + means + cast("inv_std", "inv_std_wide", TensorProto.FLOAT)


def _layer_normalization_grad(call: Call, *, centred: bool = True) -> str:
    # The mean and the inverse deviation may have another type than X.
    body = converted(call, "centre", "mean", call.computed_type("X")) if centred else ""
    body += converted(call, "inverse", "inv_std", call.computed_type("X"))
    body += "deviation = Sub(X_wide, centre)\n" if centred else "deviation = Identity(X_wide)\n"
    return _of_normal(call, "X", body + "normal = Mul(deviation, inverse)\n", ("scale",), centred=centred)


def _invertible_layer_normalization_grad(call: Call) -> str:
    """x̂ from the result: (Y − B) / scale."""
    body = converted(call, "inverse", "inv_std", call.computed_type("Y"))
    body += "shifted = Sub(Y_wide, B_wide)\nnormal = Div(shifted, scale_wide)\n"
    return _of_normal(call, "Y", body, ("scale", "B"))


def _of_normal(call: Call, source: str, body: str, read: Sequence[str], *, centred: bool = True) -> str:
    """The gradients of a layer normalization, behind nodes that compute x̂ as `normal`, and σ⁻¹ as `inverse`."""
    rank = call.rank(source)
    axis = call.axis(rank, -1)
    inner, outer = range(axis, rank), range(axis)
    body += (
        "by_scale = Mul(dY_wide, scale_wide)\nscaled = Mul(by_scale, inverse)\nproduct_ = Mul(scaled, normal)\n"
        + reduce("ReduceMean", "mean_product", "product_", inner, keep=True)
        + "along = Mul(normal, mean_product)\n"
    )
    if centred:
        body += reduce("ReduceMean", "mean_scaled", "scaled", inner, keep=True) + "rest = Sub(scaled, mean_scaled)\n"
    else:
        body += "rest = Identity(scaled)\n"
    body += (
        "dX_wide = Sub(rest, along)\nproduct_scale = Mul(dY_wide, normal)\n"
        + reduce("ReduceSum", "dscale_wide", "product_scale", outer)
        + reduce("ReduceSum", "dB_wide", "dY_wide", outer)
    )
    outputs = {"dX": source, "dscale": "scale", "dB": "scale"}
    return in_float32(call, body, ("dY", source, *read), outputs)


DEFINITIONS = (
    Definition(
        "BatchNormInternal",
        _batch_norm_internal,
        "scale · (X − μ) · σ⁻¹ + B; running statistics from the mean and the population's variance of the batch",
    ),
    Definition(
        "BatchNormalizationGrad",
        _batch_normalization_grad,
        "dX = scale · σ⁻¹ · (dY − mean(dY) − x̂ · mean(dY · x̂)); dscale = Σ dY · x̂; dB = Σ dY",
    ),
    Definition(
        "InvertibleLayerNormalizationGrad",
        _invertible_layer_normalization_grad,
        "as LayerNormalizationGrad, with x̂ = (Y − B) / scale",
    ),
    Definition("LayerNormalization", _layer_normalization, "scale · (X − μ) · σ⁻¹ + B", domain=""),
    Definition(
        "LayerNormalizationGrad",
        _layer_normalization_grad,
        "dX = A − mean(A) − x̂ · mean(A · x̂), A = dY · scale · σ⁻¹; dscale = Σ dY · x̂; dB = Σ dY",
    ),
    Definition(
        "SimplifiedLayerNormalization",
        lambda call: _layer_normalization(call, centred=False),
        "scale · X · σ⁻¹, with the mean of the squares as σ²",
        domain="",
    ),
    Definition(
        "SimplifiedLayerNormalizationGrad",
        lambda call: _layer_normalization_grad(call, centred=False),
        "dX = A − x̂ · mean(A · x̂), A = dY · scale · σ⁻¹; dscale = Σ dY · x̂",
    ),
)
