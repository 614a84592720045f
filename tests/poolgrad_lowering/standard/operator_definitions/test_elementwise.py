# SPDX-License-Identifier: Apache-2.0

"""Activations, arithmetic, products of matrices, and operators with an activation behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.oracles import run_reference
from tests.oracles import training_operators as oracle
from tests.poolgrad_lowering.standard.operator_definitions.cases import F16, F32, F64, check, integers, normal, positive
from tests.poolgrad_lowering.standard.standard_models import Array

UNARY: dict[str, Callable[[Array, Array], Array]] = {
    "BiasFastGeluGrad_dX": oracle.fast_gelu_grad,
    "BiasGeluGrad_dX": oracle.gelu_grad,
    "FastGeluGrad": oracle.fast_gelu_grad,
    "GeluGrad": oracle.gelu_grad,
    "LeakyReluGrad": lambda dy, y: np.where(y > 0, dy, 0.01 * dy.astype(F64)),
    "LogSoftmaxGrad_13": lambda dy, y: oracle.log_softmax_grad(dy, y, (-1,)),
    "QuickGeluGrad": lambda dy, x: oracle.quick_gelu_grad(dy, x, 1.702),
    "ReluGrad": lambda dy, y: np.where(y > 0, dy, 0).astype(F64),
    "SigmoidGrad": lambda dy, y: dy.astype(F64) * y * (1 - y.astype(F64)),
    "SoftmaxGrad_13": lambda dy, y: oracle.softmax_grad(dy, y, (-1,)),
    "TanhGrad": lambda dy, y: dy * (1 - y.astype(F64) ** 2),
}
"""The gradients of functions of one operand, with their attributes left out."""
CONSTANTS_OF_FLOAT32 = {"LeakyReluGrad": 1e-7, "QuickGeluGrad": 1e-7}
"""An attribute of float32 has 24 bits, whatever the operands have."""


NO_KERNEL = "onnxruntime's CPU provider has no Erf for doubles"


@pytest.mark.parametrize("dtype", [F16, F32, F64])
@pytest.mark.parametrize("operator", UNARY)
def test_gradients_of_functions_of_one_operand(operator: str, dtype: Any) -> None:
    if dtype == F64 and operator in ("BiasGeluGrad_dX", "GeluGrad"):
        pytest.skip(NO_KERNEL)
    dy, x = normal(3, 2, 5, dtype=dtype), normal(3, 2, 5, dtype=dtype, seed=1)
    feeds = {"dY": dy, "X": x}
    if operator.startswith("Bias"):
        feeds["B"] = np.zeros(5, dtype)
    tolerance = CONSTANTS_OF_FLOAT32.get(operator) if dtype == F64 else None
    check(operator, feeds, {"dX": UNARY[operator](dy, x)}, dtype=dtype, tolerance=tolerance)


FORWARD: dict[str, Callable[[Array], Array]] = {
    "BiasGelu": oracle.gelu,
    "FastGelu": oracle.fast_gelu,
    "Gelu": oracle.gelu,
    "QuickGelu": lambda x: oracle.quick_gelu(x, 1.702),
}


@pytest.mark.parametrize("dtype", [F16, F32, F64])
@pytest.mark.parametrize("operator", FORWARD)
def test_functions_of_one_operand(operator: str, dtype: Any) -> None:
    if dtype == F64 and operator in ("BiasGelu", "Gelu"):
        pytest.skip(NO_KERNEL)
    x = normal(3, 2, 5, dtype=dtype)
    feeds = {"X": x, "B": np.zeros(5, dtype)} if operator == "BiasGelu" else {"X": x}
    tolerance = 1e-7 if operator == "QuickGelu" and dtype == F64 else None
    check(operator, feeds, {"Y": FORWARD[operator](x.astype(F64))}, dtype=dtype, tolerance=tolerance)


def test_fast_gelu_with_a_bias() -> None:
    x, b = normal(3, 4), normal(4)
    check("FastGelu", {"X": x, "B": b}, {"Y": oracle.fast_gelu(x + b)})


@pytest.mark.parametrize("y", [0.0, -0.0, np.nan, np.inf])
def test_masks_at_the_edges(y: float) -> None:
    """Zero and NaN are not above zero."""
    dy = np.array([1, -2, np.inf], F32)
    expected = np.where(y > 0, dy, F32(0))
    for domain in ("", "com.microsoft"):
        check("ReluGrad", {"dY": dy, "Y": np.full(3, y, F32)}, {"dX": expected}, domain=domain)


@pytest.mark.parametrize("operator", ["SoftmaxGrad", "LogSoftmaxGrad", "SoftmaxGrad_13", "LogSoftmaxGrad_13"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3, None])
def test_gradients_of_softmax(operator: str, axis: int | None) -> None:
    """Before opset 13 a softmax was over all axes from one on, and by default from the second."""
    dy, y = normal(2, 3, 4), np.log(positive(2, 3, 4))
    whole = axis if axis is not None else -1 if operator.endswith("_13") else 1
    axes = (whole,) if operator.endswith("_13") else tuple(range(whole % 3, 3))
    function = oracle.log_softmax_grad if operator.startswith("Log") else oracle.softmax_grad
    check(operator, {"dY": dy, "Y": y}, {"dX": function(dy, y, axes)}, **({} if axis is None else {"axis": axis}))


def test_gradient_of_softmax_in_float16_sums_in_float32() -> None:
    """4096 terms of 1: in float16 the sum would stop at 2048."""
    dy, y = np.ones((1, 4096), F16), np.full((1, 4096), 2**-12, F16)
    check(
        "SoftmaxGrad_13", {"dY": dy, "Y": y}, {"dX": np.zeros((1, 4096))}, dtype=F16, run=run_reference, tolerance=1e-6
    )


DIVISIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "equal": ((3, 4), (3, 4)),
    "B lacks an axis": ((2, 3, 4), (3, 4)),
    "A lacks axes": ((4,), (2, 3, 4)),
    "B is a scalar": ((2, 3), ()),
    "A is a scalar": ((), (2, 3)),
    "ones in B": ((2, 3, 4), (2, 1, 4)),
    "ones in A": ((1, 3, 1), (2, 3, 4)),
    "both ways": ((2, 1, 4), (3, 1)),
    "all ones": ((1, 1), (1, 1)),
}


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("shapes", DIVISIONS.values(), ids=DIVISIONS)
def test_div_grad(shapes: tuple[tuple[int, ...], tuple[int, ...]], dtype: Any) -> None:
    a, b = normal(*shapes[0], dtype=dtype), positive(*shapes[1], dtype=dtype)
    dy = normal(*np.broadcast_shapes(*shapes), dtype=dtype, seed=2)
    da, db = oracle.div_grad(dy, a, b)
    check("DivGrad", {"dY": dy, "A": a, "B": b}, {"dA": da, "dB": db}, dtype=dtype)


def test_div_grad_with_a_symbolic_batch() -> None:
    a, b, dy = normal(2, 4), positive(4), normal(2, 4, seed=2)
    da, db = oracle.div_grad(dy, a, b)
    shapes = {name: ["N", 4] for name in ("dY", "A", "dA")}
    check("DivGrad", {"dY": dy, "A": a, "B": b}, {"dA": da, "dB": db}, shapes=shapes)


@pytest.mark.parametrize("dtype", [F16, F32])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("training", [None, True, False])
@pytest.mark.parametrize("ratio", [None, 0.0, 0.3])
def test_dropout_grad(ratio: float | None, training: bool | None, constant: bool, dtype: Any) -> None:
    """Without a ratio it is 0.5; outside of training nothing is dropped."""
    mask = np.ones((3, 4), np.bool_) if training is False else integers(0, 2, 3, 4).astype(np.bool_)
    feeds = {
        "dY": normal(3, 4, dtype=dtype),
        "mask": mask,
        "ratio": None if ratio is None else np.array(ratio, F32),
        "training_mode": None if training is None else np.array(training),
    }
    dropped = 0.0 if training is False else 0.5 if ratio is None else ratio
    expected = np.where(mask, feeds["dY"].astype(F64) / (1 - dropped), 0)  # type: ignore[union-attr]
    constants = ["ratio", "training_mode"] if constant else []
    check("DropoutGrad", feeds, {"dX": expected}, dtype=dtype, constants=constants)


@pytest.mark.parametrize("down", [0, 1])
@pytest.mark.parametrize("scale", [np.array(3, np.int64), np.array(3, F32), np.array(3, F16)], ids=lambda s: s.dtype)
@pytest.mark.parametrize("dtype", [F16, F32, F64])
def test_scale(dtype: Any, scale: Array, down: int) -> None:
    x = normal(3, 4, dtype=dtype)
    expected = x.astype(F64) / 3 if down else x.astype(F64) * 3
    check("Scale", {"X": x, "scale": scale}, {"Y": expected}, dtype=dtype, scale_down=down)


@pytest.mark.without_kernel
@pytest.mark.parametrize("count", [2, 3])
def test_scaled_sum(count: int) -> None:
    feeds = {name: normal(3, 4, seed=number) for number, name in enumerate("ABC"[:count])}
    scales = {f"scale_{number}": 0.25 * (number + 1) for number in range(count)}
    expected = sum(scale * array.astype(F64) for scale, array in zip(scales.values(), feeds.values(), strict=True))
    check("ScaledSum", feeds, {"Y": np.asarray(expected)}, **scales)


MATRICES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any], str]] = {
    "plain": ((3, 4), (4, 5), {}, "ik,kj->ij"),
    "transA": ((4, 3), (4, 5), {"transA": 1}, "ki,kj->ij"),
    "transB": ((3, 4), (5, 4), {"transB": 1}, "ik,jk->ij"),
    "both": ((2, 4, 3), (2, 5, 4), {"transA": 1, "transB": 1, "alpha": 0.5}, "bki,bjk->bij"),
    "transBatchA": ((3, 2, 4), (2, 4, 5), {"transBatchA": 1}, "ibk,bkj->bij"),
    "transBatchB": ((2, 3, 4), (4, 2, 5), {"transBatchB": 1}, "bik,kbj->bij"),
    "transBatchA and transA": ((4, 2, 3), (2, 4, 5), {"transBatchA": 1, "transA": 1}, "kbi,bkj->bij"),
    "all": (
        (4, 2, 3),
        (5, 2, 4),
        {"transBatchA": 1, "transA": 1, "transBatchB": 1, "transB": 1},
        "kbi,jbk->bij",
    ),
    "broadcast": ((2, 1, 3, 4), (1, 6, 5, 4), {"transB": 1}, "aoik,pcjk->acij"),
    "a vector": ((4,), (4, 5), {"transA": 1}, "k,kj->j"),
}


@pytest.mark.parametrize("row", MATRICES.values(), ids=MATRICES)
def test_fused_mat_mul(row: tuple[tuple[int, ...], tuple[int, ...], dict[str, Any], str]) -> None:
    a, b = normal(*row[0]), normal(*row[1], seed=1)
    expected = np.einsum(row[3], a, b, dtype=F64)
    check("FusedMatMul", {"A": a, "B": b}, {"Y": expected * row[2].get("alpha", 1)}, **row[2])


ACTIVATIONS: dict[str, tuple[dict[str, Any], Callable[[Array], Array]]] = {
    "Relu": ({}, lambda x: np.maximum(x, 0)),
    "Sigmoid": ({}, lambda x: 1 / (1 + np.exp(-x))),
    "Tanh": ({}, np.tanh),
    "LeakyRelu": ({"alpha": 0.2}, lambda x: np.where(x < 0, 0.2 * x, x)),
    "HardSigmoid": ({"alpha": 0.3, "beta": 0.4}, lambda x: np.clip(0.3 * x + 0.4, 0, 1)),
    "Clip": ({"min": -0.5, "max": 0.75}, lambda x: np.clip(x, -0.5, 0.75)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_fused_conv(name: str) -> None:
    parameters, function = ACTIVATIONS[name]
    x, w, b = normal(2, 4, 6, 5), normal(6, 2, 3, 2, seed=1), normal(6, seed=2)
    linear = oracle.conv(x, w, strides=[2, 1], begins=[1, 0], counts=[3, 4], group=2) + b.reshape(1, 6, 1, 1)
    given = {"activation_params": list(parameters.values())} if parameters else {}
    for added in (None, normal(*linear.shape, seed=3)):
        check(
            "FusedConv",
            {"X": x, "W": w, "B": b, "Z": added},
            {"Y": function(linear if added is None else linear + added)},
            activation=name,
            group=2,
            strides=[2, 1],
            pads=[1, 0, 1, 0],
            **given,
        )


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", [name for name in ACTIVATIONS if name != "Clip"])
def test_fused_gemm(name: str, bias: bool) -> None:
    parameters, function = ACTIVATIONS[name]
    a, b, c = normal(3, 2), normal(4, 3, seed=1), normal(4, seed=2)
    linear = 0.5 * a.astype(F64).T @ b.T + (2 * c if bias else 0)
    check(
        "FusedGemm",
        {"A": a, "B": b, "C": c if bias else None},
        {"Y": function(linear)},
        activation=name,
        alpha=0.5,
        beta=2.0,
        transA=1,
        transB=1,
        **{f"activation_{parameter}": value for parameter, value in parameters.items()},
    )


@pytest.mark.parametrize("dtype", [F16, F32])
@pytest.mark.parametrize("count", [1, 3])
def test_reduce_all_l2(count: int, dtype: Any) -> None:
    feeds = {name: normal(2, 3 + number, dtype=dtype) for number, name in enumerate("ABC"[:count])}
    check("ReduceAllL2", feeds, {"Y": oracle.reduce_all_l2(*feeds.values())})


def test_accumulator_without_a_flag() -> None:
    buffer, value = normal(4), normal(4, seed=1)
    check("InPlaceAccumulatorV2", {"buffer": buffer, "value": value}, {"new": buffer + value})


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_accumulator(shape: tuple[int, ...], flag: bool) -> None:
    """A parameter may be a scalar, the flag is a vector of one element; the gradient may be of fewer bits."""
    buffer, value = normal(*shape), normal(*shape, dtype=F16, seed=1)
    expected = value.astype(F32) if flag else buffer + value.astype(F32)
    check("InPlaceAccumulatorV2", {"buffer": buffer, "value": value, "reset": np.array([flag])}, {"new": expected})


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("operator", ["DropoutGrad", "FakeQuantGrad"])
def test_what_a_mask_drops_is_a_product_with_zero(operator: str, value: float) -> None:
    """As in onnxruntime's kernels: a gradient that is not finite stays visible."""
    feeds = {"dY": np.array([value, 1, 2], F32), "mask": np.array([False, True, False])}
    check(operator, feeds, {"dX": np.array([np.nan, 2 if operator == "DropoutGrad" else 1, 0], F32)})


@pytest.mark.parametrize("scale", [np.array(2, F32), np.array([2], F32), np.array([2])], ids=["scalar", "one", "long"])
@pytest.mark.parametrize("shape", [(), (3,), (0, 2)], ids=str)
def test_scale_by_one_element(shape: tuple[int, ...], scale: Array) -> None:
    """A scalar stays one."""
    x = normal(*shape)
    check("Scale", {"X": x, "scale": scale}, {"Y": 2 * x})
