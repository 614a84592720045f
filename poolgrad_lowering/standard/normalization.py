# SPDX-License-Identifier: Apache-2.0

"""Normalizations over the batch and over layers, forward and backward. Halves are computed in float32.

With x̂ = (X − μ) · σ⁻¹ over n elements, and A = dY · scale · σ⁻¹:

    dX = A − mean(A) − x̂ · mean(A · x̂),  dscale = Σ dY · x̂,  dbias = Σ dY

The products are in the order of onnxruntime's kernels, so that they overflow for the same operands.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx import TensorProto

from poolgrad_lowering.model.ir.bodies import Tensor
from poolgrad_lowering.standard.definition import Call, defines

EPSILON = 1e-5


@defines(
    "BatchNormInternal",
    "scale · (X − μ) · σ⁻¹ + B; running statistics from the mean and the population's variance of the batch",
)
def _batch_norm_internal(call: Call) -> dict[str, Tensor]:
    """BatchNormalization in training; the running variance takes in the population's variance, as in onnxruntime."""
    rank = call.rank("X")
    if not call.attribute("training_mode", 1):
        raise call.refuse("a BatchNormInternal outside of training")
    kept = call.attribute("momentum", 0.9)
    axes = [0, *range(2, rank)]
    x, scale, b, mean, var = call.widened("X", "scale", "B", "mean", "var")
    centre = x.reduced("ReduceMean", axes, keep=True)
    deviation = x - centre
    variance, inverse = _spread(call, deviation, axes)
    normal = deviation * inverse
    factor, offset = _by_channel(scale, rank), _by_channel(b, rank)
    y = normal * factor + offset
    saved_mean, saved_inv_std, flat_variance = (each.reshape([-1]) for each in (centre, inverse, variance))
    call.element_type("mean")
    kept_part, taken_part = mean.constant(kept), mean.constant(1 - kept)
    return {
        "Y": call.narrowed(y, "X"),
        "running_mean": call.narrowed(mean * kept_part + saved_mean * taken_part, "mean"),
        "running_var": call.narrowed(var * kept_part + flat_variance * taken_part, "var"),
        "saved_mean": call.narrowed(saved_mean, "mean"),
        "saved_inv_std": call.narrowed(saved_inv_std, "var"),
    }


def _spread(call: Call, deviation: Tensor, axes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The mean of the squares of a deviation, and σ⁻¹."""
    variance = (deviation * deviation).reduced("ReduceMean", axes, keep=True)
    return variance, (variance + call.attribute("epsilon", EPSILON)).op("Sqrt").op("Reciprocal")


def _by_channel(source: Tensor, rank: int) -> Tensor:
    return source.reshape([1, -1, *[1] * (rank - 2)])


@defines(
    "BatchNormalizationGrad", "dX = scale · σ⁻¹ · (dY − mean(dY) − x̂ · mean(dY · x̂)); dscale = Σ dY · x̂; dB = Σ dY"
)
def _batch_normalization_grad(call: Call) -> dict[str, Tensor]:
    rank = call.rank("X")
    axes = [0, *range(2, rank)]
    dy, x, *of_channels = call.widened("dY", "X", "scale", "mean", "inv_std")
    factor, centre, inverse = (_by_channel(each, rank) for each in of_channels)
    normal = (x - centre) * inverse
    d_b = dy.reduced("ReduceSum", axes)
    product = dy * normal
    d_scale = product.reduced("ReduceSum", axes)
    mean_dy, mean_product = (each.reduced("ReduceMean", axes, keep=True) for each in (dy, product))
    along = normal * mean_product
    d_x = (dy - mean_dy - along) * (factor * inverse)
    return {"dX": call.narrowed(d_x, "X"), "dscale": call.narrowed(d_scale, "scale"), "dB": call.narrowed(d_b, "scale")}


@defines("LayerNormalization", "scale · (X − μ) · σ⁻¹ + B", domain="")
@defines(
    "SimplifiedLayerNormalization", "scale · X · σ⁻¹, with the mean of the squares as σ²", domain="", centred=False
)
def _layer_normalization(call: Call, *, centred: bool = True) -> dict[str, Tensor]:
    rank = call.rank("X")
    axes = range(call.axis(rank, -1), rank)
    x, scale, *b = call.widened("X", "scale", *(["B"] if call.has("B") else []))
    mean = x.reduced("ReduceMean", axes, keep=True)
    deviation = x - mean if centred else x
    _, inverse = _spread(call, deviation, axes)
    y = deviation * inverse * scale
    y = call.narrowed(y + b[0] if b else y, "X")
    # The statistics are float32 whatever X is.
    statistics = {"mean": mean, "inv_std": inverse}
    if x.element_type != TensorProto.FLOAT:
        statistics = {name: each.cast(TensorProto.FLOAT) for name, each in statistics.items()}
    return {"Y": y, **statistics}


@defines(
    "LayerNormalizationGrad", "dX = A − mean(A) − x̂ · mean(A · x̂), A = dY · scale · σ⁻¹; dscale = Σ dY · x̂; dB = Σ dY"
)
@defines(
    "SimplifiedLayerNormalizationGrad",
    "dX = A − x̂ · mean(A · x̂), A = dY · scale · σ⁻¹; dscale = Σ dY · x̂",
    centred=False,
)
def _layer_normalization_grad(call: Call, *, centred: bool = True) -> dict[str, Tensor]:
    dy, x, scale = call.widened("dY", "X", "scale")
    # The mean and the inverse deviation may have another type than X.
    centre = call.converted("mean", x.element_type) if centred else None
    inverse = call.converted("inv_std", x.element_type)
    normal = (x if centre is None else x - centre) * inverse
    return _of_normal(call, "X", (dy, scale, normal, inverse), centred=centred)


@defines("InvertibleLayerNormalizationGrad", "as LayerNormalizationGrad, with x̂ = (Y − B) / scale")
def _invertible_layer_normalization_grad(call: Call) -> dict[str, Tensor]:
    dy, y, scale, b = call.widened("dY", "Y", "scale", "B")
    inverse = call.converted("inv_std", y.element_type)
    return _of_normal(call, "Y", (dy, scale, (y - b) / scale, inverse))


def _of_normal(
    call: Call, source: str, operands: tuple[Tensor, Tensor, Tensor, Tensor], *, centred: bool = True
) -> dict[str, Tensor]:
    """The gradients of a layer normalization from dY, scale, x̂ and σ⁻¹."""
    rank = call.rank(source)
    axis = call.axis(rank, -1)
    inner, outer = range(axis, rank), range(axis)
    dy, scale, normal, inverse = operands
    scaled = dy * scale * inverse
    along = normal * (scaled * normal).reduced("ReduceMean", inner, keep=True)
    rest = scaled - scaled.reduced("ReduceMean", inner, keep=True) if centred else scaled
    return {
        "dX": call.narrowed(rest - along, source),
        "dscale": call.narrowed((dy * normal).reduced("ReduceSum", outer), "scale"),
        "dB": call.narrowed(dy.reduced("ReduceSum", outer), "scale"),
    }
