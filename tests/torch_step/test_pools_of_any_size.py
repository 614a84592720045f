# SPDX-License-Identifier: Apache-2.0

"""Pools over symbolic heights, widths and lengths: right for other sizes, lowered, or no obstacle to graph mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

from poolgrad_lowering import lower, verify
from tests.torch_step.symbolic_steps import Function, assert_whole, check_for, check_squared, squared


class Pyramid(nn.Module):
    """Averages of each image in grids of several sizes, resized and joined, as in PSPNet."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(16, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        grids = [functional.adaptive_avg_pool2d(y, size) for size in (1, (2, 3), 3)]
        resized = [functional.interpolate(grid, y.shape[2:], mode="bilinear", align_corners=True) for grid in grids]
        scores: Tensor = self.head(torch.cat([y, *resized], 1))
        return scores


def test_adaptive_averages_of_images_of_any_size_are_no_obstacle() -> None:
    step = squared(Pyramid(), torch.randn(2, 3, 8, 9), {"x": {0: "batch", 2: "height", 3: "width"}})
    assert_whole(step)
    for sizes in ((3, 3, 11, 6), (1, 3, 3, 20)):
        check_squared(step, torch.randn(sizes))


def test_adaptive_averages_of_volumes_of_any_size_are_no_obstacle() -> None:
    model = nn.Sequential(nn.Conv3d(1, 2, 1), nn.AdaptiveAvgPool3d((2, 1, 3)), nn.Flatten(), nn.Linear(12, 2))
    sizes = {"input": {0: "batch", 2: "depth", 3: "height", 4: "width"}}
    step = squared(model, torch.randn(2, 1, 5, 4, 6), sizes)
    assert_whole(step)
    check_squared(step, torch.randn(3, 1, 4, 6, 7))


@pytest.mark.parametrize("is_mixed", [False, True])
def test_adaptive_averages_of_any_length_are_no_obstacle(is_mixed: bool) -> None:
    model = nn.Sequential(nn.Conv1d(3, 4, 3), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(16, 2))
    with torch.autocast("cpu", torch.bfloat16, enabled=is_mixed):
        step = squared(model, torch.randn(2, 3, 12), {"input": {0: "batch", 2: "time"}})
    if not is_mixed:
        assert_whole(step)
    check_squared(step, torch.randn(3, 3, 31))


def test_pools_of_what_layers_leave_of_a_length_are_lowered() -> None:
    """Which is a rounded quotient, and twice one: the gradient's shape is that of a tensor, not its own arithmetic."""
    layers = [nn.Conv1d(1, 4, 8, 3), nn.ReLU(), nn.MaxPool1d(4), nn.Conv1d(4, 4, 3), nn.MaxPool1d(3, 2), nn.Flatten(0)]
    step = squared(nn.Sequential(*layers), torch.randn(2, 1, 90), {"input": {0: "batch", 2: Dim("length", min=80)}})
    assert len(lower(step.model).report.lowered) == 2
    check_squared(step, torch.randn(3, 1, 131))


AVERAGES: dict[str, dict[str, Any]] = {
    "halves": {"kernel_size": 2},
    "overlapping": {"kernel_size": 3, "stride": 2, "padding": 1},
    "inside": {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
    "gaps": {"kernel_size": 2, "stride": 3},
    "by one": {"kernel_size": 3, "stride": 1, "padding": 1, "count_include_pad": False},
}


@pytest.mark.parametrize("name", AVERAGES)
@pytest.mark.parametrize("size", ["{}", "24*{}"])
def test_average_pools_of_symbolic_sizes(name: str, size: str) -> None:
    """Gradients are lowered over multiples of what the windows step over, and are no obstacle otherwise."""
    options = AVERAGES[name]
    model = nn.Sequential(nn.Conv2d(2, 3, 3, 2, padding=1), nn.AvgPool2d(**options), Function(lambda y: y.mean((2, 3))))
    shapes = {"input": {0: "batch", 2: size.format("height"), 3: size.format("width")}}
    step = squared(model, torch.randn(2, 2, 48, 72), shapes)
    assert_whole(step)
    lowered = lower(step.model)
    assert len(lowered.report.lowered) == (size != "{}" or options.get("stride") == 1)
    if lowered.report.lowered:
        assert verify(step.model, lowered.model).proven
    check_squared(step, torch.randn(1, 2, 24, 48) if size != "{}" else torch.randn(3, 2, 31, 50))


@pytest.mark.parametrize("pool", [nn.AvgPool1d, nn.MaxPool1d])
def test_gaps_between_the_windows_of_a_symbolic_length_in_ceil_mode(pool: Callable[..., nn.Module]) -> None:
    """Whether the last elements are in a gap or in one window more, the length decides."""
    layers = nn.Conv1d(2, 3, 1), pool(2, 3, ceil_mode=True), Function(lambda y: y.mean(2))
    step = squared(nn.Sequential(*layers), torch.randn(2, 2, 20), {"input": {2: "length"}})
    for length in (20, 21, 22):
        check_for(step, torch.randn(2, 2, length), torch.zeros(1))
