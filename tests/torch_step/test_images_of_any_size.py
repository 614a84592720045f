# SPDX-License-Identifier: Apache-2.0

"""Layers of images of which batch, height and width are symbolic: right for other sizes, and whole on the NPU."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.torch_step.symbolic_steps import Function, assert_whole, check_squared, squared


@pytest.mark.parametrize(
    ("layer", "is_mixed"),
    [
        (nn.PixelShuffle(2), False),
        (nn.PixelUnshuffle(2), True),
        (nn.GroupNorm(2, 8), True),
        (nn.Sequential(nn.GroupNorm(4, 8, affine=False), nn.PixelUnshuffle(2), nn.Conv2d(32, 4, 1)), False),
    ],
    ids=["shuffle", "unshuffle", "groups", "several"],
)
def test_images_of_any_size_are_no_obstacle_to_layers_of_channels(layer: nn.Module, *, is_mixed: bool) -> None:
    """torch's reshape planes, of which batch, height and width are three sizes that a Reshape cannot tell."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), layer, nn.Tanh())
    with torch.autocast("cpu", torch.float16, enabled=is_mixed):
        step = squared(model, torch.randn(2, 3, 6, 8), {"input": {0: "batch", 2: "2*height", 3: "2*width"}})
    assert_whole(step)
    check_squared(step, torch.randn(3, 3, 4, 10))


def test_one_window_of_the_sizes_of_the_image() -> None:
    """The way to write a global average pool that older models have."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3), Function(lambda y: functional.avg_pool2d(y, y.shape[2:])))
    step = squared(model, torch.randn(2, 3, 6, 8), {"input": {0: "batch", 2: "height", 3: "width"}})
    assert_whole(step)
    check_squared(step, torch.randn(3, 3, 4, 10))
