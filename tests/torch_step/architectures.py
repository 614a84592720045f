# SPDX-License-Identifier: Apache-2.0

"""Public architectures, written out with few channels."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Residual(nn.Module):
    """The basic block of ResNet-18."""

    def __init__(self, before: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = nn.Identity()
        if stride != 1 or before != channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(before, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        deep = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(deep + self.downsample(x))


def resnet_18(width: int = 8, classes: int = 5) -> nn.Module:
    blocks: list[nn.Module] = []
    before = width
    for number, channels in enumerate((width, 2 * width, 4 * width, 8 * width)):
        blocks += [Residual(before, channels, 1 if number == 0 else 2), Residual(channels, channels, 1)]
        before = channels
    return nn.Sequential(
        nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes),
    )  # fmt: skip


def vgg_11(width: int = 8, classes: int = 5) -> nn.Module:
    layers: list[nn.Module] = []
    before = 3
    for channels, pooled in ((1, 1), (2, 1), (4, 0), (4, 1), (8, 0), (8, 1), (8, 0), (8, 1)):
        layers += [nn.Conv2d(before, channels * width, 3, padding=1), nn.ReLU(), *[nn.MaxPool2d(2)] * pooled]
        before = channels * width
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 16), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(16, classes),
    )  # fmt: skip


class Inverted(nn.Module):
    """The inverted residual block of MobileNetV2, with a depthwise convolution."""

    def __init__(self, before: int, channels: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = before * expansion
        self.joins = stride == 1 and before == channels
        self.layers = nn.Sequential(
            nn.Conv2d(before, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(),
            nn.Conv2d(hidden, channels, 1, bias=False), nn.BatchNorm2d(channels),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layers(x)
        return x + found if self.joins else found


def mobilenet_v2(classes: int = 5) -> nn.Module:
    """With a max pool behind its stem, which the original does not have."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6(), nn.MaxPool2d(3, 2, 1),
        Inverted(8, 8, 1, 1), Inverted(8, 12, 2, 6), Inverted(12, 12, 1, 6), Inverted(12, 16, 2, 6),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(16, classes),
    )  # fmt: skip


class UNet(nn.Module):
    """A U-Net of two or three axes: levels of two convolutions, max pools down, transposed convolutions up."""

    def __init__(self, axes: int, levels: tuple[int, ...], classes: int) -> None:
        super().__init__()
        conv = {2: nn.Conv2d, 3: nn.Conv3d}[axes]
        norm = {2: nn.BatchNorm2d, 3: nn.BatchNorm3d}[axes]
        raised = {2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}[axes]

        def double(before: int, after: int) -> nn.Module:
            return nn.Sequential(
                conv(before, after, 3, padding=1), norm(after), nn.ReLU(), conv(after, after, 3, padding=1), nn.ReLU()
            )

        self.pool = {2: nn.MaxPool2d, 3: nn.MaxPool3d}[axes](2)
        pairs = list(zip((1, *levels), levels, strict=False))
        self.down = nn.ModuleList(double(before, after) for before, after in pairs)
        self.up = nn.ModuleList(raised(below, here, 2, 2) for here, below in pairs[1:])
        self.join = nn.ModuleList(double(2 * here, here) for here, _ in pairs[1:])
        self.head = conv(levels[0], classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        skipped = []
        for number, level in enumerate(self.down):
            x = level(self.pool(x) if number else x)
            skipped.append(x)
        for up, join, skip in zip(reversed(self.up), reversed(self.join), reversed(skipped[:-1]), strict=True):
            x = join(torch.cat([skip, up(x)], 1))
        found: Tensor = self.head(x)
        return found


class TextCNN(nn.Module):
    """Kim's CNN for sentences: convolutions of three lengths over embeddings, each pooled over the sentence."""

    def __init__(self, words: int = 30, size: int = 8, channels: int = 6, classes: int = 5) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, size)
        self.branches = nn.ModuleList(nn.Conv1d(size, channels, length) for length in (3, 4, 5))
        self.classify = nn.Linear(3 * channels, classes)

    def forward(self, words: Tensor) -> Tensor:
        x = self.embedding(words).transpose(1, 2)
        found = [functional.relu(branch(x)) for branch in self.branches]
        pooled = [functional.max_pool1d(one, one.shape[2]).squeeze(2) for one in found]
        result: Tensor = self.classify(functional.dropout(torch.cat(pooled, 1), 0.5, self.training))
        return result


class Sentences(nn.Module):
    """An encoder layer over pairs of words, each the maximum of a convolution."""

    def __init__(self, words: int = 30, size: int = 8, classes: int = 5) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, size)
        self.convolution = nn.Conv1d(size, size, 3, padding=1)
        self.encoder = nn.TransformerEncoderLayer(size, 2, 2 * size, dropout=0.0, batch_first=True)
        self.classify = nn.Linear(size, classes)

    def forward(self, words: Tensor) -> Tensor:
        x = functional.relu(self.convolution(self.embedding(words).transpose(1, 2)))
        result: Tensor = self.classify(self.encoder(functional.max_pool1d(x, 2).transpose(1, 2)).mean(1))
        return result


class LanguageModel(nn.Module):
    """A transformer layer over tokens with learned positions, which gives scores of the next token."""

    def __init__(self, words: int = 5, size: int = 8, longest: int = 16) -> None:
        super().__init__()
        self.embedding, self.positions = nn.Embedding(words, size), nn.Parameter(torch.randn(longest, size))
        self.layer = nn.TransformerEncoderLayer(size, 2, 2 * size, dropout=0.1, batch_first=True)
        self.scores = nn.Linear(size, words)

    def forward(self, words: Tensor) -> Tensor:
        length = words.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        scores: Tensor = self.scores(self.layer(self.embedding(words) + self.positions[:length], mask))
        return scores


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.LazyLinear(24), nn.ReLU(), nn.Linear(24, 5),
    )  # fmt: skip


def recognizer() -> nn.Module:
    """Scores of letters over time, of which a pool leaves half."""
    return nn.Sequential(
        nn.Conv1d(3, 8, 3, padding=1), nn.BatchNorm1d(8), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(8, 5, 3, padding=1)
    )


def vgg_bn(width: int = 8, classes: int = 5) -> nn.Module:
    layers: list[nn.Module] = []
    before = 3
    for channels in (width, 2 * width, 4 * width):
        layers += [nn.Conv2d(before, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(), nn.MaxPool2d(2)]
        before = channels
    return nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(16), nn.ReLU(), nn.Linear(16, classes))


class Inception(nn.Module):
    """The module of GoogLeNet, with one more branch, of an average pool."""

    def __init__(self, before: int, each: int) -> None:
        super().__init__()

        def convolved(kernel: int) -> nn.Module:
            return nn.Sequential(
                nn.Conv2d(before, each, 1), nn.ReLU(), nn.Conv2d(each, each, kernel, padding=kernel // 2), nn.ReLU()
            )

        self.branches = nn.ModuleList(
            [
                nn.Sequential(nn.Conv2d(before, each, 1), nn.ReLU()),
                convolved(3),
                convolved(5),
                nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(before, each, 1), nn.ReLU()),
                nn.Sequential(nn.AvgPool2d(3, 1, 1), nn.Conv2d(before, each, 1), nn.ReLU()),
            ]
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def inception(classes: int = 5) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True), Inception(8, 4),
        nn.MaxPool2d(3, 2, ceil_mode=True), Inception(20, 6), nn.AvgPool2d(3, 2, 1, count_include_pad=False),
        nn.Flatten(), nn.Dropout(0.4), nn.LazyLinear(classes),
    )  # fmt: skip


class Dense(nn.Module):
    """A layer of a block of DenseNet."""

    def __init__(self, before: int, growth: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm2d(before), nn.ReLU(), nn.Conv2d(before, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth), nn.ReLU(), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.layers(x)], 1)


def densenet(classes: int = 5) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        Dense(8, 4), Dense(12, 4), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 1, bias=False), nn.AvgPool2d(2),
        Dense(8, 4), Dense(12, 4), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(16, classes),
    )  # fmt: skip


def video(classes: int = 5) -> nn.Module:
    return nn.Sequential(
        nn.Conv3d(1, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU(), nn.MaxPool3d((1, 2, 2)),
        nn.Conv3d(4, 8, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2), nn.AvgPool3d(3, 2, 1), nn.Flatten(),
        nn.LazyLinear(classes),
    )  # fmt: skip


class Attention(nn.Module):
    """An encoder layer of a transformer over the positions of a CNN's last image."""

    def __init__(self, classes: int = 5) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.GELU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 16, 3, padding=1), nn.GELU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.encoder = nn.TransformerEncoderLayer(16, 4, 32, 0.1, "gelu", batch_first=True, norm_first=True)
        self.norm = nn.LayerNorm(16)
        self.classify = nn.Linear(16, classes)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.classify(self.norm(self.encoder(self.stem(x).flatten(2).transpose(1, 2))).mean(1))
        return found


def dropped() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Dropout2d(0.2), nn.MaxPool2d(2), nn.Dropout(0.3), nn.Flatten(),
        nn.LazyLinear(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 5),
    )  # fmt: skip


class Normalized(nn.Module):
    """A temporal CNN with weight_norm over sequences, a spectral norm, and classes by the cosine of vectors."""

    def __init__(self, channels: int = 8, classes: int = 5) -> None:
        super().__init__()
        parametrizations = nn.utils.parametrizations
        self.first = parametrizations.weight_norm(nn.Conv1d(3, channels, 3, padding=2, dilation=2))
        self.second = parametrizations.spectral_norm(nn.Conv1d(channels, channels, 3, padding=4, dilation=4))
        self.classes = nn.Parameter(torch.randn(classes, channels))

    def forward(self, x: Tensor) -> Tensor:
        x = functional.max_pool1d(functional.relu(self.second(functional.relu(self.first(x)))), 2)
        sizes = torch.linalg.vector_norm(x, 1, -1)  # type: ignore[attr-defined]
        return 5 * functional.normalize(sizes) @ functional.normalize(self.classes).T


class Drawn(nn.Module):
    """A CNN with random numbers of constants: DropPath, and noise in the shape of numbers."""

    def __init__(self, classes: int = 5) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.head = nn.Linear(6, classes)

    def forward(self, x: Tensor) -> Tensor:
        deep = functional.max_pool2d(functional.relu(self.conv(x)), 2)
        kept = x.new_empty((len(x), 1, 1, 1)).bernoulli_(0.8) / 0.8
        noise = torch.randn(len(x), 6) * torch.rand(6) + torch.bernoulli(torch.full((len(x), 6), 0.5))
        return self.head((deep * kept).mean((2, 3)) + 0.01 * noise)


class Unpooled(nn.Module):
    """A SegNet: what its max pools pick is put back to its place."""

    def __init__(self, channels: int = 6, classes: int = 5) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, channels, 3, padding=1)
        self.deep = nn.Conv2d(channels, channels, 3, padding=1)
        self.up = nn.Conv2d(channels, classes, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        pooled, places = functional.max_pool2d(functional.relu(self.down(x)), 2, return_indices=True)
        return self.up(functional.max_unpool2d(functional.relu(self.deep(pooled)), places, 2))


class Pyramid(nn.Module):
    """Spatial pyramid pooling: the maxima of one, four and nine windows, and of dilated ones."""

    def __init__(self, channels: int = 4, classes: int = 5) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, channels, 3, padding=1)
        self.head = nn.Linear((1 + 4 + 9) * channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.max_pool2d(functional.relu(self.conv(x)), 3, 1, 1, dilation=2)
        return self.head(torch.cat([functional.adaptive_max_pool2d(x, size).flatten(1) for size in (1, 2, 3)], 1))


class Tokens(nn.Module):
    """Two encoder layers of a transformer over the patches of an image and a token of the class."""

    def __init__(self, size: int = 8, classes: int = 5) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, size, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, size))
        layer = nn.TransformerEncoderLayer(size, 2, 2 * size, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(size, classes)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(x.shape[0], -1, -1), patches], 1)
        return self.head(self.encoder(tokens)[:, 0])
