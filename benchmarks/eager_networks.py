# SPDX-License-Identifier: Apache-2.0

"""Networks of many kinds, written out with few channels, whose steps are measured beside eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.torch_step.networks import UNet, resnet_18


def _features(before: int, *blocks: tuple[int, int]) -> list[nn.Module]:
    """Return blocks of so many convolutions with so many channels, each block with a pool behind it."""
    layers: list[nn.Module] = []
    for count, channels in blocks:
        for _ in range(count):
            layers += [nn.Conv2d(before, channels, 3, padding=1), nn.ReLU()]
            before = channels
        layers.append(nn.MaxPool2d(2))
    return layers


def _digits() -> nn.Module:
    return nn.Sequential(
        *_features(1, (1, 16), (1, 32)), nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
    )


def _vgg() -> nn.Module:
    blocks = ((2, 32), (2, 64), (2, 128), (2, 128))
    return nn.Sequential(*_features(3, *blocks), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


class _Joined(nn.Module):
    """Layers whose result is added to their input."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = x + self.layers(x)
        return found


class _Permuted(nn.Module):
    """Layers over images whose channels are the last axis."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layers(x.permute(0, 2, 3, 1))
        return found.permute(0, 3, 1, 2)


def _convnext(classes: int = 10) -> nn.Module:
    def block(channels: int) -> nn.Module:
        return _Joined(
            nn.Conv2d(channels, channels, 7, padding=3, groups=channels),
            _Permuted(
                nn.LayerNorm(channels), nn.Linear(channels, 4 * channels), nn.GELU(), nn.Linear(4 * channels, channels)
            ),
        )

    def normed(channels: int) -> nn.Module:
        return _Permuted(nn.LayerNorm(channels))

    return nn.Sequential(
        nn.Conv2d(3, 24, 4, 4), normed(24), block(24), block(24), normed(24), nn.Conv2d(24, 48, 2, 2), block(48),
        block(48), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(48), nn.Linear(48, classes),
    )  # fmt: skip


class _Squeezed(nn.Module):
    """Squeeze and excitation: every channel times a factor from the means of all of them."""

    def __init__(self, channels: int, fewer: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, fewer, 1), nn.SiLU(), nn.Conv2d(fewer, channels, 1),
            nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = x * self.layers(x)
        return found


def _efficientnet(classes: int = 10) -> nn.Module:
    def block(before: int, after: int, kernel: int, stride: int) -> nn.Module:
        wide = 4 * before
        layers = (
            nn.Conv2d(before, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.SiLU(),
            nn.Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide, bias=False), nn.BatchNorm2d(wide),
            nn.SiLU(), _Squeezed(wide, before // 4), nn.Conv2d(wide, after, 1, bias=False), nn.BatchNorm2d(after),
        )  # fmt: skip
        return _Joined(*layers) if stride == 1 and before == after else nn.Sequential(*layers)

    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.SiLU(), nn.MaxPool2d(2), block(16, 16, 3, 1),
        block(16, 24, 5, 2), block(24, 24, 5, 1), block(24, 32, 3, 2), nn.Conv2d(32, 64, 1), nn.SiLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes),
    )  # fmt: skip


class _NestedUNet(nn.Module):
    """A U-Net++: every level has a row of blocks, each with the results of all blocks before it."""

    def __init__(self, levels: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.depth = len(levels)
        self.blocks = nn.ModuleDict()
        for row in range(self.depth):
            for column in range(self.depth - row):
                before = ([1, *levels][row] if column == 0 else levels[row] * column + levels[row + 1], levels[row])
                self.blocks[f"{row}_{column}"] = nn.Sequential(
                    nn.Conv2d(*before, 3, padding=1), nn.BatchNorm2d(levels[row]), nn.ReLU(),
                    nn.Conv2d(levels[row], levels[row], 3, padding=1), nn.BatchNorm2d(levels[row]), nn.ReLU(),
                )  # fmt: skip
        self.head = nn.Conv2d(levels[0], classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        rows: list[list[Tensor]] = []
        for row in range(self.depth):
            x = self.blocks[f"{row}_0"](functional.max_pool2d(x, 2) if row else x)
            rows.append([x])
        for column in range(1, self.depth):
            for row in range(self.depth - column):
                below = functional.interpolate(rows[row + 1][-1], scale_factor=2, mode="bilinear", align_corners=True)
                rows[row].append(self.blocks[f"{row}_{column}"](torch.cat([*rows[row], below], 1)))
        found: Tensor = self.head(rows[0][-1])
        return found


def _style() -> nn.Module:
    def layer(before: int, after: int, kernel: int, stride: int = 1) -> list[nn.Module]:
        return [nn.ReflectionPad2d(kernel // 2), nn.Conv2d(before, after, kernel, stride)]

    def normed(before: int, after: int, kernel: int, stride: int = 1) -> list[nn.Module]:
        return [*layer(before, after, kernel, stride), nn.InstanceNorm2d(after, affine=True), nn.ReLU()]

    return nn.Sequential(
        *normed(3, 8, 9), *normed(8, 16, 3, 2), *normed(16, 32, 3, 2), _Joined(*normed(32, 32, 3), *layer(32, 32, 3)),
        nn.Upsample(scale_factor=2), *normed(32, 16, 3), nn.Upsample(scale_factor=2), *normed(16, 8, 3),
        *layer(8, 3, 9),
    )  # fmt: skip


class _Transformer(nn.Module):
    """A ViT: an encoder over the patches of an image."""

    def __init__(self, size: int = 48, classes: int = 10) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, size, 8, 8)
        self.positions = nn.Parameter(torch.zeros(1, 16, size))
        layer = nn.TransformerEncoderLayer(size, 4, 4 * size, 0.0, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(size, classes)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        found: Tensor = self.head(self.encoder(patches).mean(1))
        return found


class _Recurrent(nn.Module):
    """A CRNN: an LSTM over the columns of an image."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.features = nn.Sequential(*_features(1, (1, 16), (1, 32)))
        self.lstm = nn.LSTM(32 * 4, 32, batch_first=True)
        self.head = nn.Linear(32, classes)

    def forward(self, x: Tensor) -> Tensor:
        columns, _ = self.lstm(self.features(x).permute(0, 3, 1, 2).flatten(2))
        found: Tensor = self.head(columns.mean(1))
        return found


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], tuple[int, ...], str]] = {
    "digits CNN": (_digits, (32, 1, 8, 8), (32,), "sgd"),
    "VGG-like": (_vgg, (4, 3, 96, 96), (4,), "sgd"),
    "ResNet-18": (partial(resnet_18, 64, 10), (4, 3, 112, 112), (4,), "sgd"),
    "U-Net": (partial(UNet, 2, (16, 32, 64, 128), 5), (2, 1, 96, 96), (2, 96, 96), "sgd"),
    "U-Net++, Adam": (partial(_NestedUNet, (16, 24, 32, 48), 5), (4, 1, 96, 96), (4, 96, 96), "adam"),
    "ConvNeXt-like, AdamW": (_convnext, (16, 3, 64, 64), (16,), "adamw"),
    "EfficientNet-like": (_efficientnet, (16, 3, 96, 96), (16,), "sgd"),
    "style network": (_style, (8, 3, 64, 64), (8, 3, 64, 64), "sgd"),
    "ViT, AdamW": (_Transformer, (16, 3, 32, 32), (16,), "adamw"),
    "CRNN, Adam": (_Recurrent, (16, 1, 16, 64), (16,), "adam"),
}
"""Per network the function that builds it, the shapes of its input and of its target, and the optimizer.

The elements of the target are classes, or numbers where it has the shape of the input.
"""


def make(name: str) -> tuple[nn.Module, Callable[[Tensor, Tensor], Tensor], tuple[Tensor, Tensor]]:
    """Return a network in train mode, its loss, and a batch."""
    build, shape, target, _ = NETWORKS[name]
    torch.manual_seed(0)
    if shape == target:
        return build(), functional.mse_loss, (torch.randn(shape), torch.randn(target))
    return build(), functional.cross_entropy, (torch.randn(shape), torch.randint(5, target))
