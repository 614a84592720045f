# SPDX-License-Identifier: Apache-2.0

"""Quantization-aware training: what is quantized and back, and the observers that choose scales, beside torch's own."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.ao import quantization

from poolgrad_lowering import export_cann
from poolgrad_lowering.torch import TorchExportError, export_training_step
from poolgrad_lowering.torch.operators.quantization import QUANTIZATIONS

aten = torch.ops.aten
SCALES, ZEROS = torch.tensor([0.05, 0.1, 0.3, 0.07]), torch.tensor([0, 1, -3, 2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_what_is_quantized_and_back(dtype: torch.dtype) -> None:
    x = torch.linspace(-3, 3, 401).to(dtype)
    operator = aten.fake_quantize_per_tensor_affine_cachemask.default
    for numbers in ((0.05, 0, -8, 7), (0.3, 3, 0, 15)):
        assert all(map(torch.equal, QUANTIZATIONS[operator](x, *numbers), operator(x, *numbers)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_channels_that_are_quantized_and_back(dtype: torch.dtype) -> None:
    x = torch.linspace(-3, 3, 1604).reshape(401, 4).to(dtype)
    operator = aten.fake_quantize_per_channel_affine_cachemask.default
    arguments = x, SCALES, ZEROS.int(), 1, -8, 7
    assert all(map(torch.equal, QUANTIZATIONS[operator](*arguments), operator(*arguments)))
    assert QUANTIZATIONS[operator](x, SCALES, ZEROS.float(), 1, -8, 7) is NotImplemented


@pytest.mark.parametrize("by_channel", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
def test_scales_of_what_is_observed(by_channel: bool, symmetric: bool) -> None:
    """To a rounding: torch computes a scale in float64."""
    operator = aten._fused_moving_avg_obs_fq_helper.default
    numbers = torch.randn(4, 5), torch.rand(4, 5), -torch.rand(4, 5), torch.randn(4, 5) * 1e-6, torch.zeros(4, 5)
    for x, bounds, is_first, switches in product(
        numbers, ((0, 255), (-128, 127), (0, 127)), (True, False), ((1, 1), (1, 0), (0, 1))
    ):
        results = []
        for run in (operator, QUANTIZATIONS[operator]):
            count = 4 if by_channel else 1
            ranges = [torch.full((count,), end) for end in ((torch.inf, -torch.inf) if is_first else (-0.3, 0.4))]
            state = [*ranges, torch.ones(count), torch.zeros(count, dtype=torch.int32)]
            found = run(x, *map(torch.tensor, switches), *state, 0.01, *bounds, 0, by_channel, symmetric)
            results.append([*found, *state])
        for found, wanted in zip(*results, strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-7)


class Net(nn.Module):
    def __init__(self, channels: int = 4) -> None:
        super().__init__()
        self.enter, self.leave = quantization.QuantStub(), quantization.DeQuantStub()
        self.conv, self.norm, self.relu = nn.Conv2d(3, channels, 3), nn.BatchNorm2d(channels), nn.ReLU()
        self.head = nn.Linear(channels, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.norm(self.conv(self.enter(x)))).amax((2, 3))
        found: Tensor = self.leave(self.head(y))
        return found


def prepared(backend: str) -> nn.Module:
    net = Net().train()
    net.qconfig = quantization.get_default_qat_qconfig(backend)
    fused: nn.Module = quantization.fuse_modules_qat(net, [["conv", "norm", "relu"]])
    return quantization.prepare_qat(fused)


X = torch.randn(2, 3, 5, 5)


def squares(y: Tensor, target: Tensor) -> Tensor:
    return (y - target).square().mean()


@pytest.mark.parametrize("backend", ["x86", "qnnpack"])
@pytest.mark.filterwarnings("ignore:.*torch.ao.quantization:DeprecationWarning")
def test_a_step_with_observers(backend: str) -> None:
    net = prepared(backend)
    if backend == "x86":  # whose observers are those of channels
        with pytest.raises(TorchExportError, match="has seen nothing: run the model once before the export"):
            export_training_step(net, squares, (X, torch.zeros(1)))
        net(X)
    step = export_training_step(net, squares, (X, torch.ones(1)), optimizer="sgd")
    step.check(steps=3)
    assert not export_cann(step.model).report.obstacles
    assert any("activation_post_process" in name for name in step.outputs)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "per channel": lambda x: torch.fake_quantize_per_channel_affine(x, SCALES, ZEROS.int(), 1, -8, 7),
    "per tensor": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 1, -8, 7),
}


class Quantized(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.weight, self._function = nn.Parameter(torch.randn(4, 4)), function

    def forward(self, x: Tensor) -> Tensor:
        return x @ self._function(self.weight)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_step_with_a_quantized_weight(name: str) -> None:
    step = export_training_step(
        Quantized(FUNCTIONS[name]), squares, (torch.randn(3, 4), torch.ones(1)), optimizer="sgd"
    )
    step.check(steps=3)
    assert not export_cann(step.model).report.obstacles
