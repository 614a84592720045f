# SPDX-License-Identifier: Apache-2.0

"""Normalizations as sums and products, against torch's own, and in steps of mixed precision."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from typing import Any

import onnx
import pytest
import torch
from torch import Tensor, nn

from poolgrad_lowering.torch import export_training_step
from poolgrad_lowering.torch.operators.decompositions import decompositions
from poolgrad_lowering.torch.operators.normalization import group_norm, layer_norm

aten = torch.ops.aten
layer_norm_backward = decompositions("matmul")[aten.native_layer_norm_backward.default]
batch_norm_backward = decompositions("matmul")[aten.native_batch_norm_backward.default]

AUTOCASTS = {"float32": nullcontext} | {
    str(dtype).removeprefix("torch."): lambda dtype=dtype: torch.autocast("cpu", dtype)
    for dtype in (torch.float16, torch.bfloat16)
}


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def assert_close(found: Tensor, expected: Tensor) -> None:
    """Sums of at most 60 float64 of order 1, in another order, through one division by a deviation of order 1."""
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("sizes", [(), (5,), (3, 4)])
def test_the_gradient_of_batch_norm(sizes: tuple[int, ...], affine: bool, training: bool) -> None:
    x, dy, running = drawn(4, 3, *sizes), drawn(4, 3, *sizes), (drawn(3), drawn(3).exp())
    weight, bias = (drawn(3), drawn(3)) if affine else (None, None)
    _, *saved = aten.native_batch_norm(x, weight, bias, *map(torch.clone, running), training, 0.1, 1e-5)
    for mask in itertools.product((False, True), (False, affine), (False, affine)):
        arguments = (dy, x, weight, *running, *saved, training, 1e-5, list(mask))
        for is_wanted, one, other in zip(
            mask, batch_norm_backward(*arguments), aten.native_batch_norm_backward(*arguments), strict=True
        ):
            assert (one is not None) == is_wanted
            if is_wanted:
                assert_close(one, other)


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("outer", [(), (2,), (2, 3)])
@pytest.mark.parametrize("shape", [(7,), (4, 5)])
def test_layer_norm(shape: tuple[int, ...], outer: tuple[int, ...], affine: bool) -> None:
    x, dy = drawn(*outer, *shape), drawn(*outer, *shape)
    weight, bias = (drawn(*shape), drawn(*shape)) if affine else (None, None)
    found, expected = (operator(x, shape, weight, bias, 1e-5) for operator in (layer_norm, aten.native_layer_norm))
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other)
    _, mean, inverse = expected
    for mask in itertools.product((False, True), (False, affine), (False, affine)):
        arguments = (dy, x, shape, mean, inverse, weight, bias, list(mask))
        for one, other in zip(
            layer_norm_backward(*arguments), aten.native_layer_norm_backward(*arguments), strict=True
        ):
            assert (one is None) == (other is None)
            if one is not None:
                assert_close(one, other)


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("sizes", [(), (5,), (3, 4)])
def test_group_norm(sizes: tuple[int, ...], affine: bool) -> None:
    x = drawn(2, 6, *sizes)
    weight, bias = (drawn(6), drawn(6)) if affine else (None, None)
    arguments = (x, weight, bias, 2, 6, x[0, 0].numel(), 3, 1e-5)
    for one, other in zip(group_norm(*arguments), aten.native_group_norm(*arguments), strict=True):
        assert_close(one, other)


LAYERS = {
    "layer": lambda: nn.LayerNorm([4, 6, 6]),
    "layer, not affine": lambda: nn.LayerNorm(6, elementwise_affine=False),
    "group": lambda: nn.GroupNorm(2, 4),
    "instance": lambda: nn.InstanceNorm2d(4, affine=True),
}


@pytest.mark.parametrize("precision", AUTOCASTS)
@pytest.mark.parametrize("layer", LAYERS)
def test_steps(layer: str, precision: str) -> None:
    """Valid ONNX in mixed precision too, without an operator of a normalization."""
    model: Any = nn.Sequential(
        nn.Conv2d(3, 4, 3), LAYERS[layer](), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 2)
    )
    with AUTOCASTS[precision]():
        step = export_training_step(
            model, nn.functional.cross_entropy, (torch.randn(4, 3, 8, 8), torch.tensor([0, 1, 1, 0]))
        )
    onnx.checker.check_model(step.model, full_check=True)
    assert not [node.op_type for node in step.model.graph.node if node.op_type.endswith("Normalization")]
    step.check()


@pytest.mark.parametrize("precision", AUTOCASTS)
def test_an_average_of_all_batches(precision: str) -> None:
    """It begins with the number of batches that the layer had; its weight of a batch is no constant of the step."""
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3, momentum=None), nn.ReLU(), nn.Flatten())
    x = torch.randn(4, 2, 6, 6)
    net(x)
    with AUTOCASTS[precision]():
        step = export_training_step(net, lambda y, _: y.float().pow(2).mean(), (x, torch.zeros(1)), optimizer="sgd")
    assert step.values["buffer.1.num_batches_tracked"] == 1
    assert net[1].momentum is None
    step.check(steps=4)
