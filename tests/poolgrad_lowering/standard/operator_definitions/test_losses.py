# SPDX-License-Identifier: Apache-2.0

"""Losses of labels and their gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.oracles import run_ort, run_reference
from tests.oracles import training_operators as oracle
from tests.poolgrad_lowering.standard.operator_definitions.cases import (
    F16,
    F32,
    F64,
    check,
    integers,
    normal,
    positive,
    prepared,
)
from tests.poolgrad_lowering.standard.standard_models import Array, one_node


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 2), (2, 3, 2, 2)], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignored", [None, 1, -100])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none", None])
def test_losses(reduction: str | None, ignored: int | None, weighted: bool, shape: tuple[int, ...]) -> None:
    """The loss and its gradient, with the label that is left out as an attribute and as an operand."""
    of_attribute: dict[str, Any] = {} if reduction is None else {"reduction": reduction}
    reduction = reduction or "mean"
    x, weight = normal(*shape), positive(3) if weighted else None
    label = integers(0, 3, shape[0], *shape[2:], seed=5)
    if ignored is not None and ignored < 0:
        label.reshape(-1)[1:3] = ignored
    expected, log_prob = oracle.loss(x, label, weight, ignored, reduction)
    given = None if ignored is None else np.array(ignored)
    feeds = {"X": x, "label": label, "weight": weight, "ignore_index": given}
    check("SoftmaxCrossEntropyLossInternal", feeds, {"Y": expected, "log_prob": log_prob}, **of_attribute)
    dy = normal(*expected.shape, seed=7)
    gradient = oracle.loss_grad(dy, log_prob, label, weight, ignored, reduction)
    feeds = {"dY": dy, "log_prob": log_prob.astype(F32), "label": label, "weight": weight}
    number = {} if ignored is None else {"ignore_index": ignored}
    check("SoftmaxCrossEntropyLossGrad", feeds, {"dX": gradient}, **number, **of_attribute)
    feeds["ignore_index"] = given
    check("SoftmaxCrossEntropyLossInternalGrad", feeds, {"dX": gradient}, **of_attribute)


SCORES = {
    "no label counts": (normal(4, 3), [-1, -1, -1, -1], None),
    "weights of zeros": (normal(4, 3), [0, -1, 2, 1], [0.0, 0.0, 0.0]),
    "a class without weight": (normal(4, 3), [1, -1, 1, 1], [np.nan, 1.0, 2.0]),
    "-inf for another class": (np.array([[1, -np.inf, 2], [0, 1, -np.inf]], F32), [0, 1], None),
    "-inf for the class": (np.array([[1, -np.inf, 2], [0, 1, -np.inf]], F32), [1, 0], None),
    "NaN beside a label that does not count": (np.array([[1, np.nan, 2], [0, 1, 3]], F32), [-1, 1], None),
}


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("row", SCORES.values(), ids=SCORES)
def test_losses_at_the_edges(row: tuple[Array, list[int], list[float] | None], reduction: str, named: bool) -> None:
    """Label -1 does not count, whether a node says so or nothing."""
    x, label, weight = row[0], np.array(row[1]), None if row[2] is None else np.array(row[2], F32)
    with np.errstate(all="ignore"):
        expected, log_prob = oracle.loss(x, label, weight, -1, reduction)
        dy = normal(*expected.shape, seed=7)
        gradient = oracle.loss_grad(dy, log_prob, label, weight, -1, reduction)
    options: dict[str, Any] = {"reduction": reduction, **({"ignore_index": -1} if named else {})}
    feeds = {"X": x, "label": label, "weight": weight}
    outputs = {"Y": expected.astype(F32), "log_prob": x}
    model = one_node("SoftmaxCrossEntropyLoss", feeds, outputs, domain="", **options)
    found = run_ort(prepared(model), {name: array for name, array in feeds.items() if array is not None})
    np.testing.assert_allclose(found["Y"], expected, rtol=2e-5)  # sums in another order than float64
    np.testing.assert_allclose(found["log_prob"], log_prob, rtol=2e-5)
    feeds = {"dY": dy, "log_prob": log_prob.astype(F32), "label": label, "weight": weight}
    model = one_node("SoftmaxCrossEntropyLossGrad", feeds, {"dX": x}, **options)
    found = run_ort(prepared(model), {name: array for name, array in feeds.items() if array is not None})
    np.testing.assert_allclose(found["dX"], gradient, rtol=2e-5, atol=1e-7)  # differences of numbers near 1


@pytest.mark.parametrize("operator", ["SoftmaxCrossEntropyLossGrad", "SoftmaxCrossEntropyLossInternalGrad"])
def test_gradient_of_a_loss_with_a_bias(operator: str) -> None:
    log_prob, label, dy, bias = oracle.log_softmax(normal(4, 3)), integers(0, 3, 4), normal(), normal(4, 3, seed=2)
    feeds = {"dY": dy, "log_prob": log_prob.astype(F32), "label": label, "weight": None, "bias": bias}
    if operator.endswith("InternalGrad"):
        feeds = {**{name: feeds[name] for name in list(feeds)[:4]}, "ignore_index": None, "bias": bias}
    check(operator, feeds, {"dX": oracle.loss_grad(dy, log_prob, label) + bias})


def test_labels_of_int32() -> None:
    x, label = normal(4, 3), np.array([0, 2, 1, 1], np.int32)
    expected, log_prob = oracle.loss(x, label, None, 1)
    feeds = {"X": x, "label": label, "weight": None, "ignore_index": np.array(1)}
    check("SoftmaxCrossEntropyLossInternal", feeds, {"Y": expected, "log_prob": log_prob})
    dy = normal()
    feeds = {"dY": dy, "log_prob": log_prob.astype(F32), "label": label}
    check("SoftmaxCrossEntropyLossGrad", feeds, {"dX": oracle.loss_grad(dy, log_prob, label, None, 1)}, ignore_index=1)


def test_losses_in_float16_count_in_float32() -> None:
    """In float16 a count of labels would end at 65504, and a sum of ones at 2048."""
    shape = (1, 2, 70000)
    x, label = np.zeros(shape, F16), np.zeros((1, 70000), np.int64)
    label[:, ::2] = 1
    log_prob = np.full(shape, math.log(0.5), F16)
    # −log ½ is rounded to float16 once.
    check(
        "SoftmaxCrossEntropyLossInternal",
        {"X": x, "label": label},
        {"Y": np.array(math.log(2)), "log_prob": log_prob.astype(F64)},
        dtype=F16,
        run=run_reference,
        tolerance=2**-11,
    )
    dy = np.array(2.0**14, F16)
    difference = np.where(label[:, None] == np.array([0, 1]).reshape(1, 2, 1), -0.5, 0.5)
    feeds = {"dY": dy, "log_prob": log_prob, "label": label}
    expected = {"dX": difference * 2.0**14 / 70000}
    check("SoftmaxCrossEntropyLossGrad", feeds, expected, dtype=F16, run=run_reference, tolerance=2**-11)


@pytest.mark.parametrize("types", [(F16, F32), (F32, F16)], ids=lambda pair: pair[0].__name__)
def test_losses_with_another_type_of_results(types: tuple[Any, Any]) -> None:
    x, label, dy = normal(4, 3, dtype=types[0]), integers(0, 3, 4), normal(dtype=types[0])
    kind = {F16: TensorProto.FLOAT16, F32: TensorProto.FLOAT}[types[1]]
    expected, log_prob = oracle.loss(x, label)
    check(
        "SoftmaxCrossEntropyLossInternal",
        {"X": x, "label": label},
        {"Y": expected, "log_prob": log_prob},
        dtype=types[1],
        tolerance=6e-3,  # half of the model is float16
        output_type=kind,
    )
    check(
        "SoftmaxCrossEntropyLossInternalGrad",
        {"dY": dy, "log_prob": log_prob.astype(types[0]), "label": label},
        {"dX": oracle.loss_grad(dy, log_prob, label)},
        dtype=types[1],
        tolerance=6e-3,
        output_type=kind,
    )
