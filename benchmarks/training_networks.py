# SPDX-License-Identifier: Apache-2.0

"""The networks of training_steps.py in PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


def convolutions(kind: type[nn.Module], before: int, *channels: int) -> list[nn.Module]:
    """Convolutions with kernels of 3 along each axis that keep the sizes, each followed by a ReLU."""
    layers: list[nn.Module] = []
    for after in channels:
        layers += [kind(before, after, 3, padding=1), nn.ReLU()]
        before = after
    return layers


class Level(nn.Module):
    """A level of a U-Net: convolutions, then a pool, the levels below, upsampling and the skip connection."""

    def __init__(self, before: int, channels: int, below: nn.Module | None) -> None:
        super().__init__()
        self.down = nn.Sequential(*convolutions(nn.Conv2d, before, channels, channels))
        self.below = below
        if below is not None:
            self.pool = nn.MaxPool2d(2)
            self.up = nn.Sequential(*convolutions(nn.Conv2d, 3 * channels, channels))

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor with `channels` channels and the spatial sizes of x."""
        here: Tensor = self.down(x)
        if self.below is None:
            return here
        deep = self.below(self.pool(here))
        raised: Tensor = self.up(torch.cat([here, deep.repeat_interleave(2, 2).repeat_interleave(2, 3)], 1))
        return raised


def resnet_stem() -> nn.Module:
    """The stem of a ResNet, with stride 1 in its convolution."""
    return nn.Sequential(nn.Conv2d(3, 64, 7, padding=3), nn.ReLU(), nn.MaxPool2d(3, 2, 1))


def vgg_16() -> nn.Module:
    """The features of VGG-16."""
    layers: list[nn.Module] = []
    before = 3
    for count, channels in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
        layers += [*convolutions(nn.Conv2d, before, *[channels] * count), nn.MaxPool2d(2)]
        before = channels
    return nn.Sequential(*layers)


def unet() -> nn.Module:
    """A U-Net of four levels."""
    level: Level | None = None
    for before, channels in ((256, 512), (128, 256), (64, 128), (1, 64)):
        level = Level(before, channels, level)
    assert level is not None
    return level


def c3d() -> nn.Module:
    """The first three blocks of C3D."""
    return nn.Sequential(
        *convolutions(nn.Conv3d, 3, 64), nn.MaxPool3d((1, 2, 2)),
        *convolutions(nn.Conv3d, 64, 128), nn.MaxPool3d(2),
        *convolutions(nn.Conv3d, 128, 256, 256), nn.MaxPool3d(2),
    )  # fmt: skip


def normalized(before: int, after: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """A convolution that keeps the sizes apart from its stride, and a batch normalization."""
    convolution = nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(after)]


class Residual(nn.Module):
    """A basic block of a ResNet."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*normalized(before, after, 3, stride), nn.ReLU(), *normalized(after, after, 3))
        is_same = before == after and stride == 1
        self.skip = nn.Identity() if is_same else nn.Sequential(*normalized(before, after, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor with `after` channels and the spatial sizes of x divided by `stride`."""
        return torch.relu(self.body(x) + self.skip(x))


def resnet_18() -> nn.Module:
    """The features of ResNet-18."""
    layers = [*normalized(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    for before, after, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)):
        layers += [Residual(before, after, stride), Residual(after, after, 1)]
    return nn.Sequential(*layers)


def mobilenet() -> nn.Module:
    """The first blocks of MobileNet, with depthwise convolutions."""
    layers = [*normalized(3, 32, 3, 2), nn.ReLU6(), nn.MaxPool2d(2)]
    for before, after in ((32, 64), (64, 128), (128, 128), (128, 256)):
        layers += [*normalized(before, before, 3, groups=before), nn.ReLU6(), *normalized(before, after, 1), nn.ReLU6()]
    return nn.Sequential(*layers)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "ResNet-50": resnet_stem,
    "VGG-16": vgg_16,
    "U-Net": unet,
    "C3D": c3d,
    "ResNet-18": resnet_18,
    "MobileNet": mobilenet,
}
"""The functions that build the networks, by the name of the step."""
