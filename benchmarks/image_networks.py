# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: D102, D103 - architectures by their names, and their forward passes

"""Networks of images of many kinds, written out with few channels."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm

from tests.torch_step.architectures import Dense


def features(before: int, *blocks: tuple[int, int]) -> list[nn.Module]:
    """Return blocks of so many convolutions with so many channels, each block with a pool behind it."""
    layers: list[nn.Module] = []
    for count, channels in blocks:
        for _ in range(count):
            layers += [nn.Conv2d(before, channels, 3, padding=1), nn.ReLU()]
            before = channels
        layers.append(nn.MaxPool2d(2))
    return layers


def digits() -> nn.Module:
    return nn.Sequential(*features(1, (1, 16), (1, 32)), nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))


def vgg() -> nn.Module:
    blocks = ((2, 32), (2, 64), (2, 128), (2, 128))
    return nn.Sequential(*features(3, *blocks), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


class Joined(nn.Module):
    """Layers whose result is added to their input."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = x + self.layers(x)
        return found


class Permuted(nn.Module):
    """Layers over images whose channels are the last axis."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layers(x.permute(0, 2, 3, 1))
        return found.permute(0, 3, 1, 2)


def convnext(classes: int = 10) -> nn.Module:
    def block(channels: int) -> nn.Module:
        return Joined(
            nn.Conv2d(channels, channels, 7, padding=3, groups=channels),
            Permuted(
                nn.LayerNorm(channels), nn.Linear(channels, 4 * channels), nn.GELU(), nn.Linear(4 * channels, channels)
            ),
        )

    def normed(channels: int) -> nn.Module:
        return Permuted(nn.LayerNorm(channels))

    return nn.Sequential(
        nn.Conv2d(3, 24, 4, 4), normed(24), block(24), block(24), normed(24), nn.Conv2d(24, 48, 2, 2), block(48),
        block(48), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(48), nn.Linear(48, classes),
    )  # fmt: skip


class Squeezed(nn.Module):
    """Squeeze and excitation: every channel times a factor from the means of all of them."""

    def __init__(self, channels: int, fewer: int, inner: nn.Module, outer: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, fewer, 1), inner, nn.Conv2d(fewer, channels, 1), outer
        )

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = x * self.layers(x)
        return found


def normed(
    before: int, after: int, kernel: int = 3, stride: int = 1, *, groups: int = 1, then: nn.Module | None = None
) -> list[nn.Module]:
    """Return a convolution that keeps sizes or halves them, a BatchNorm, and what comes then."""
    convolution = nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(after), *([] if then is None else [then])]


def inverted(
    channels: tuple[int, int, int], kernel: int, stride: int, squeezed: nn.Module, then: Callable[[], nn.Module]
) -> nn.Module:
    """Return an inverted residual block: a wide depthwise convolution, squeezed, between two pointwise ones."""
    before, wide, after = channels
    layers = (
        *normed(before, wide, 1, then=then()), *normed(wide, wide, kernel, stride, groups=wide, then=then()), squeezed,
        *normed(wide, after, 1),
    )  # fmt: skip
    return Joined(*layers) if stride == 1 and before == after else nn.Sequential(*layers)


def efficientnet(classes: int = 10) -> nn.Module:
    def block(before: int, after: int, kernel: int, stride: int) -> nn.Module:
        squeezed = Squeezed(4 * before, before // 4, nn.SiLU(), nn.Sigmoid())
        return inverted((before, 4 * before, after), kernel, stride, squeezed, nn.SiLU)

    return nn.Sequential(
        *normed(3, 16, 3, 2, then=nn.SiLU()), nn.MaxPool2d(2), block(16, 16, 3, 1), block(16, 24, 5, 2),
        block(24, 24, 5, 1), block(24, 32, 3, 2), nn.Conv2d(32, 64, 1), nn.SiLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(64, classes),
    )  # fmt: skip


def mobilenet_v3(classes: int = 10) -> nn.Module:
    def block(channels: tuple[int, int, int], kernel: int, stride: int, then: Callable[[], nn.Module]) -> nn.Module:
        wide = channels[1]
        squeezed = Squeezed(wide, wide // 4, nn.ReLU(), nn.Hardsigmoid()) if kernel == 5 else nn.Identity()
        return inverted(channels, kernel, stride, squeezed, then)

    return nn.Sequential(
        *normed(3, 16, 3, 2, then=nn.Hardswish()), block((16, 16, 16), 3, 1, nn.ReLU),
        block((16, 64, 24), 3, 2, nn.ReLU),
        block((24, 72, 24), 3, 1, nn.ReLU), block((24, 72, 40), 5, 2, nn.Hardswish),
        block((40, 120, 40), 5, 1, nn.Hardswish), *normed(40, 120, 1, then=nn.Hardswish()), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(120, 64), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(64, classes),
    )  # fmt: skip


def densenet(growth: int = 8, classes: int = 10) -> nn.Module:
    layers: list[nn.Module] = [*normed(3, 16, 7, 2, then=nn.ReLU()), nn.MaxPool2d(3, 2, 1)]
    channels = 16
    for number in range(3):
        layers += [Dense(channels + growth * place, growth) for place in range(3)]
        channels += 3 * growth
        layers += [nn.BatchNorm2d(channels), nn.ReLU()]
        if number < 2:
            layers += [nn.Conv2d(channels, channels // 2, 1, bias=False), nn.AvgPool2d(2)]
            channels //= 2
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


class NestedUNet(nn.Module):
    """A U-Net++: every level has a row of blocks, each with the results of all blocks before it."""

    def __init__(self, levels: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.depth = len(levels)
        self.blocks = nn.ModuleDict()
        for row in range(self.depth):
            for column in range(self.depth - row):
                before = ([1, *levels][row] if column == 0 else levels[row] * column + levels[row + 1], levels[row])
                self.blocks[f"{row}_{column}"] = nn.Sequential(
                    *normed(*before, then=nn.ReLU()), *normed(levels[row], levels[row], then=nn.ReLU())
                )
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


def style() -> nn.Module:
    def layer(before: int, after: int, kernel: int, stride: int = 1) -> list[nn.Module]:
        return [nn.ReflectionPad2d(kernel // 2), nn.Conv2d(before, after, kernel, stride)]

    def instanced(before: int, after: int, kernel: int, stride: int = 1) -> list[nn.Module]:
        return [*layer(before, after, kernel, stride), nn.InstanceNorm2d(after, affine=True), nn.ReLU()]

    return nn.Sequential(
        *instanced(3, 8, 9), *instanced(8, 16, 3, 2), *instanced(16, 32, 3, 2),
        Joined(*instanced(32, 32, 3), *layer(32, 32, 3)),
        nn.Upsample(scale_factor=2), *instanced(32, 16, 3), nn.Upsample(scale_factor=2), *instanced(16, 8, 3),
        *layer(8, 3, 9),
    )  # fmt: skip


class VisionTransformer(nn.Module):
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


class Recurrent(nn.Module):
    """A CRNN: an LSTM over the columns of an image."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.features = nn.Sequential(*features(1, (1, 16), (1, 32)))
        self.lstm = nn.LSTM(32 * 4, 32, batch_first=True)
        self.head = nn.Linear(32, classes)

    def forward(self, x: Tensor) -> Tensor:
        columns, _ = self.lstm(self.features(x).permute(0, 3, 1, 2).flatten(2))
        found: Tensor = self.head(columns.mean(1))
        return found


class SegNet(nn.Module):
    """Max pools down, whose places their unpools up have."""

    def __init__(self, levels: tuple[int, ...] = (16, 32, 48), classes: int = 5) -> None:
        super().__init__()
        pairs = list(zip((3, *levels), levels, strict=False))
        self.down = nn.ModuleList(nn.Sequential(*normed(*pair, then=nn.ReLU())) for pair in pairs)
        up = [(after, before if number else after) for number, (before, after) in enumerate(pairs)]
        self.up = nn.ModuleList(nn.Sequential(*normed(*pair, then=nn.ReLU())) for pair in reversed(up))
        self.head = nn.Conv2d(levels[0], classes, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        places = []
        for down in self.down:
            x, place = functional.max_pool2d(down(x), 2, return_indices=True)
            places.append(place)
        for up in self.up:
            x = up(functional.max_unpool2d(x, places.pop(), 2))
        found: Tensor = self.head(x)
        return found


class DeepLab(nn.Module):
    """DeepLabV3: dilated convolutions of several rates over the features, raised to the size of the image."""

    def __init__(self, channels: int = 32, classes: int = 5) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            *normed(3, 16, 3, 2, then=nn.ReLU()), nn.MaxPool2d(3, 2, 1), *normed(16, 48, then=nn.ReLU())
        )
        rates = [nn.Conv2d(48, channels, 3, padding=rate, dilation=rate, bias=False) for rate in (2, 4, 6)]
        self.branches = nn.ModuleList(
            nn.Sequential(convolution, nn.BatchNorm2d(channels), nn.ReLU())
            for convolution in (nn.Conv2d(48, channels, 1, bias=False), *rates)
        )
        self.whole = nn.Sequential(nn.AdaptiveAvgPool2d(1), *normed(48, channels, 1, then=nn.ReLU()))
        self.head = nn.Sequential(*normed(5 * channels, channels, 1, then=nn.ReLU()), nn.Conv2d(channels, classes, 1))

    def forward(self, x: Tensor) -> Tensor:
        features = self.stem(x)
        whole = functional.interpolate(self.whole(features), features.shape[2:], mode="bilinear", align_corners=False)
        found = self.head(torch.cat([*(branch(features) for branch in self.branches), whole], 1))
        return functional.interpolate(found, x.shape[2:], mode="bilinear", align_corners=False)


class Windows(nn.Module):
    """A block of Swin: attention in windows, shifted or not, with a bias by relative position; then an MLP."""

    def __init__(self, size: int, side: int, *, window: int = 4, shift: int = 0, heads: int = 4) -> None:
        super().__init__()
        self.window, self.shift, self.heads = window, shift, heads
        self.norm, self.after = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.mlp = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))
        self.bias = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        places = torch.cartesian_prod(torch.arange(window), torch.arange(window))
        apart = places[:, None] - places[None] + window - 1
        self.register_buffer("index", apart[..., 0] * (2 * window - 1) + apart[..., 1])
        part = torch.arange(side).ge(side - window).long() + torch.arange(side).ge(side - shift).long()
        parts = self._windows((3 * part[:, None] + part[None])[None, :, :, None])[..., 0]
        apart_from = parts[:, None, :] != parts[:, :, None]
        self.register_buffer("mask", torch.zeros(apart_from.shape).masked_fill(apart_from, -100.0)[:, None])

    def _windows(self, x: Tensor) -> Tensor:
        batch, height, width, size = x.shape
        x = x.view(batch, height // self.window, self.window, width // self.window, self.window, size)
        return x.transpose(2, 3).reshape(-1, self.window**2, size)

    def forward(self, x: Tensor) -> Tensor:
        batch, height, width, size = x.shape
        windows = self._windows(torch.roll(self.norm(x), (-self.shift, -self.shift), (1, 2)))
        q, k, v = self.qkv(windows).view(*windows.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mask = self.bias[self.index.flatten()].view(*self.index.shape, -1).permute(2, 0, 1) + self.mask.repeat(
            batch, 1, 1, 1
        )
        found = functional.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).reshape(windows.shape)
        found = self.out(found).view(batch, height // self.window, width // self.window, self.window, self.window, size)
        found = found.transpose(2, 3).reshape(x.shape)
        x = x + torch.roll(found, (self.shift, self.shift), (1, 2))
        result: Tensor = x + self.mlp(self.after(x))
        return result


class Merged(nn.Module):
    """Joins the channels of each square of four positions."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm, self.fewer = nn.LayerNorm(4 * size), nn.Linear(4 * size, 2 * size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        squares = [x[:, row::2, column::2] for column in (0, 1) for row in (0, 1)]
        found: Tensor = self.fewer(self.norm(torch.cat(squares, -1)))
        return found


class Swin(nn.Module):
    """Windowed attention at two sizes."""

    def __init__(self, size: int = 32, classes: int = 10) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, size, 4, 4)
        self.blocks = nn.Sequential(
            Windows(size, 16), Windows(size, 16, shift=2), Merged(size), Windows(2 * size, 8),
            Windows(2 * size, 8, shift=2), nn.LayerNorm(2 * size),
        )  # fmt: skip
        self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(2 * size, classes)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.blocks(self.patches(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        result: Tensor = self.head(self.pool(found).flatten(1))
        return result


def r2plus1d(classes: int = 10) -> nn.Module:
    """Return a video network whose convolutions in space and in time are apart."""

    def block(before: int, after: int, stride: int = 1) -> list[nn.Module]:
        return [
            nn.Conv3d(before, after, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False), nn.BatchNorm3d(after),
            nn.ReLU(), nn.Conv3d(after, after, (3, 1, 1), (stride, 1, 1), (1, 0, 0), bias=False),
            nn.BatchNorm3d(after), nn.ReLU(),
        ]  # fmt: skip

    return nn.Sequential(
        *block(3, 16, 2), nn.MaxPool3d((1, 2, 2)), Joined(*block(16, 16)), *block(16, 32, 2), Joined(*block(32, 32)),
        nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(32, classes),
    )  # fmt: skip


class Variational(nn.Module):
    """A VAE: its loss is the error of the images that it makes, and the divergence of its normal distributions."""

    def __init__(self, size: int = 16) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 4, 2, 1), nn.ReLU(), nn.Flatten(),
            nn.Linear(32 * 64, 2 * size),
        )  # fmt: skip
        self.decoder = nn.Sequential(
            nn.Linear(size, 32 * 64), nn.ReLU(), nn.Unflatten(1, (32, 8, 8)), nn.ConvTranspose2d(32, 16, 4, 2, 1),
            nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        mean, log_variance = self.encoder(x).chunk(2, 1)
        made = self.decoder(mean + torch.randn_like(mean) * (0.5 * log_variance).exp())
        divergence = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum(1).mean()
        error = functional.binary_cross_entropy_with_logits(made, x.sigmoid(), reduction="sum") / len(x)
        return error + divergence


def discriminator() -> nn.Module:
    """Return a discriminator of a GAN, with spectral norms."""
    layers: list[nn.Module] = []
    for before, after in ((3, 16), (16, 32), (32, 64)):
        layers += [spectral_norm(nn.Conv2d(before, after, 4, 2, 1)), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Flatten(), spectral_norm(nn.Linear(64 * 16, 1)), nn.Flatten(0))


class Siamese(nn.Module):
    """One network for anchors, positives and negatives, whose vectors have length 1."""

    def __init__(self, size: int = 32) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *features(1, (1, 16), (1, 32), (1, 32)), nn.Flatten(), nn.Linear(32 * 16, 64), nn.PReLU(),
            nn.Linear(64, size),
        )  # fmt: skip

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        vectors = [functional.normalize(self.layers(x)) for x in (anchor, positive, negative)]
        return functional.triplet_margin_loss(vectors[0], vectors[1], vectors[2])


class Momentum(nn.Module):
    """MoCo: an encoder, one that follows it, and a queue of the keys of earlier batches."""

    def __init__(self, size: int = 32, queue: int = 128) -> None:
        super().__init__()

        def encoder() -> nn.Module:
            return nn.Sequential(
                *normed(3, 16, 3, 2, then=nn.ReLU()), nn.MaxPool2d(2), *normed(16, 32, then=nn.ReLU()),
                nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, size),
            )  # fmt: skip

        self.query, self.key = encoder(), encoder()
        self.key.load_state_dict(self.query.state_dict())
        self.key.requires_grad_(False)
        self.register_buffer("queue", functional.normalize(torch.randn(queue, size)))

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        q = functional.normalize(self.query(x))
        with torch.no_grad():
            for mine, theirs in zip(self.key.parameters(), self.query.parameters(), strict=True):
                mine.mul_(0.99).add_(theirs, alpha=0.01)
            k = functional.normalize(self.key(other))
        scores = torch.cat([(q * k).sum(1, keepdim=True), q @ self.queue.clone().T], 1) / 0.2
        self.queue.copy_(torch.cat([k, self.queue[: -len(k)]]))
        return functional.cross_entropy(scores, x.new_zeros(len(x), dtype=torch.long))
