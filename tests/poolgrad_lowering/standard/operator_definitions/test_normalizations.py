# SPDX-License-Identifier: Apache-2.0

"""Normalizations over batches and layers, and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.oracles import run_ort, run_reference
from tests.oracles import training_operators as oracle
from tests.poolgrad_lowering.standard.operator_definitions.cases import F16, F32, F64, check, normal, positive, prepared
from tests.poolgrad_lowering.standard.standard_models import Array, assert_close, one_node


def statistics(channels: int, dtype: Any) -> dict[str, Array]:
    return {
        "scale": positive(channels, dtype=dtype),
        "B": normal(channels, dtype=dtype, seed=2),
        "mean": normal(channels, dtype=dtype, seed=3),
        "var": positive(channels, dtype=dtype, seed=4),
    }


@pytest.mark.parametrize("dtype", [F16, F32, F64])
@pytest.mark.parametrize("shape", [(5, 3), (4, 3, 2), (2, 3, 4, 2), (2, 3, 2, 2, 3)], ids=str)
def test_batch_norm(shape: tuple[int, ...], dtype: Any) -> None:
    feeds = {"X": normal(*shape, dtype=dtype), **statistics(3, dtype)}
    options = {"epsilon": 0.01, "momentum": 0.7}
    results = oracle.batch_norm(*feeds.values(), **options)
    names = ("Y", "running_mean", "running_var", "saved_mean", "saved_inv_std")
    expected = dict(zip(names, results, strict=True))
    # Attributes are of float32, also where the operands are of float64.
    tolerance = 1e-6 if dtype == F64 else None
    check("BatchNormInternal", feeds, expected, dtype=dtype, tolerance=tolerance, training_mode=1, **options)


@pytest.mark.parametrize("dtype", [F16, F32, F64])
@pytest.mark.parametrize("shape", [(5, 3), (4, 3, 2), (2, 3, 4, 2), (2, 3, 2, 2, 3)], ids=str)
def test_batch_norm_grad(shape: tuple[int, ...], dtype: Any) -> None:
    x, dy = normal(*shape, dtype=dtype), normal(*shape, dtype=dtype, seed=1)
    around = tuple(axis for axis in range(len(shape)) if axis != 1)
    feeds = {
        "dY": dy,
        "X": x,
        "scale": positive(3, dtype=dtype),
        "mean": x.astype(F64).mean(around).astype(dtype),
        "inv_std": (1 / x.astype(F64).std(around)).astype(dtype),
    }
    expected = dict(zip(("dX", "dscale", "dB"), oracle.batch_norm_grad(*feeds.values()), strict=True))
    check("BatchNormalizationGrad", feeds, expected, dtype=dtype, epsilon=1e-5)


def check_mixed(operator: str, feeds: dict[str, Array], expected: dict[str, tuple[Array, Any]], **options: Any) -> None:
    """As `check`, with a type for each result."""
    outputs = {name: array.astype(dtype) for name, (array, dtype) in expected.items()}
    found = run_ort(prepared(one_node(operator, feeds, outputs, **options)), feeds)
    for name, (array, dtype) in expected.items():
        assert_close(found[name], array, dtype, 6e-3)  # as results of float16, which a part of the operands is


def test_normalizations_with_two_types() -> None:
    """Under mixed precision X is of float16, and the parameters and the statistics are of float32."""
    x, dy = normal(4, 3, 5, dtype=F16), normal(4, 3, 5, dtype=F16, seed=1)
    feeds = {"X": x, **statistics(3, F32)}
    results = oracle.batch_norm(*feeds.values(), epsilon=1e-5, momentum=0.9)
    names = ("Y", "running_mean", "running_var", "saved_mean", "saved_inv_std")
    types = (F16, F32, F32, F32, F32)
    expected = dict(zip(names, zip(results, types, strict=True), strict=True))
    check_mixed("BatchNormInternal", feeds, expected, epsilon=1e-5, momentum=0.9, training_mode=1)
    feeds = {"dY": dy, "X": x, "scale": positive(3), "mean": normal(3), "inv_std": positive(3)}
    grads = zip(oracle.batch_norm_grad(*feeds.values()), (F16, F32, F32), strict=True)
    expected = dict(zip(("dX", "dscale", "dB"), grads, strict=True))
    check_mixed("BatchNormalizationGrad", feeds, expected, epsilon=1e-5)


LAYERS = [((4, 5), -1), ((4, 5), 0), ((2, 3, 4), 1), ((2, 3, 4), -1), ((2, 3, 2, 3), 2), ((2, 3, 2, 3), -3)]


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("dtype", [F16, F32, F64])
@pytest.mark.parametrize(("shape", "axis"), LAYERS, ids=str)
def test_layer_norm(shape: tuple[int, ...], axis: int, dtype: Any, biased: bool) -> None:
    """The statistics are of float32 whatever the operands are."""
    x, scale = normal(*shape, dtype=dtype), positive(*shape[axis % len(shape) :], dtype=dtype)
    b = normal(*scale.shape, dtype=dtype, seed=2) if biased else None
    y, mean, inv_std = oracle.layer_norm(x, scale, b, axis=axis % len(shape), epsilon=0.01)
    feeds = {"X": x, "scale": scale} | ({} if b is None else {"B": b})
    expected = {"Y": (y, dtype), "mean": (mean, F32), "inv_std": (inv_std, F32)}
    check_mixed("LayerNormalization", feeds, expected, axis=axis, epsilon=0.01, domain="")
    y, _, inv_std = oracle.layer_norm(x, scale, None, axis=axis % len(shape), epsilon=0.01, centred=False)
    expected = {"Y": (y, dtype), "inv_std": (inv_std, F32)}
    check_mixed("SimplifiedLayerNormalization", {"X": x, "scale": scale}, expected, axis=axis, epsilon=0.01, domain="")


@pytest.mark.parametrize("dtype", [F16, F32, F64])
@pytest.mark.parametrize(("shape", "axis"), LAYERS, ids=str)
def test_layer_norm_grad(shape: tuple[int, ...], axis: int, dtype: Any) -> None:
    at = axis % len(shape)
    x, dy, scale = (
        normal(*shape, dtype=dtype),
        normal(*shape, dtype=dtype, seed=1),
        positive(*shape[at:], dtype=dtype),
    )
    b = normal(*scale.shape, dtype=dtype, seed=2)
    lead = (*shape[:at], *[1] * (len(shape) - at))
    mean, inv_std = normal(*lead, seed=3) * F32(0.1), positive(*lead)
    names = ("dX", "dscale", "dB")
    expected = dict(zip(names, oracle.layer_norm_grad(dy, x, scale, mean, inv_std, axis=at), strict=True))
    feeds = {"dY": dy, "X": x, "scale": scale, "mean": mean, "inv_std": inv_std}
    check("LayerNormalizationGrad", feeds, expected, dtype=dtype, axis=axis)
    expected = dict(zip(names[:2], oracle.layer_norm_grad(dy, x, scale, None, inv_std, axis=at)[:2], strict=True))
    del feeds["mean"]
    check("SimplifiedLayerNormalizationGrad", feeds, expected, dtype=dtype, axis=axis)
    normal_x = (x.astype(F64) - b) / scale / inv_std
    results = oracle.layer_norm_grad(dy, normal_x, scale, np.zeros(lead), inv_std, axis=at)
    feeds = {"dY": dy, "Y": x, "scale": scale, "B": b, "inv_std": inv_std}
    check("InvertibleLayerNormalizationGrad", feeds, dict(zip(names, results, strict=True)), dtype=dtype, axis=axis)


def test_normalization_in_float16_sums_in_float32() -> None:
    """The mean of 4096 times 100, and the squares of 300, are beyond float16."""
    x = np.where(np.arange(4096) % 2, 300, -100).astype(F16).reshape(1, -1)
    scale = np.ones(4096, F16)
    y, _, _ = oracle.layer_norm(x, scale, None, axis=1, epsilon=1e-5)
    feeds = {"X": x, "scale": scale}
    check("LayerNormalization", feeds, {"Y": y}, dtype=F16, run=run_reference, tolerance=2**-10, axis=-1, domain="")
