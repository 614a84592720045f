# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: D102 - architectures by their names, and their forward passes

"""Networks of sequences, points, graphs and tables, written out with few channels."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

from benchmarks.image_networks import Joined


class Chomp(nn.Module):
    """Leaves the last elements out."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, : -self.count].contiguous()


def temporal(channels: int = 32, classes: int = 10) -> nn.Module:
    """Return a TCN: causal convolutions, dilated more and more, with weight norms."""

    def block(before: int, dilation: int) -> list[nn.Module]:
        padding = 2 * dilation
        convolution = nn.Conv1d(before, channels, 3, padding=padding, dilation=dilation)
        return [weight_norm(convolution), Chomp(padding), nn.ReLU(), nn.Dropout(0.1)]

    return nn.Sequential(
        *block(4, 1), *(Joined(*block(channels, 2**n), *block(channels, 2**n)) for n in range(1, 4)),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(channels, classes),
    )  # fmt: skip


def audio(classes: int = 10) -> nn.Module:
    """Return an M5: one-dimensional convolutions over samples of sound."""
    layers: list[nn.Module] = [nn.Conv1d(1, 16, 80, 4), nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(4)]
    for before, after in ((16, 16), (16, 32), (32, 32)):
        layers += [nn.Conv1d(before, after, 3), nn.BatchNorm1d(after), nn.ReLU(), nn.MaxPool1d(4)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, classes))


def _pointwise(*channels: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in pairwise(channels):
        layers += [nn.Conv1d(before, after, 1), nn.BatchNorm1d(after), nn.ReLU()]
    return nn.Sequential(*layers)


class PointNet(nn.Module):
    """Points, turned by a matrix of their own, and the maxima of their features."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.turn, self.turns = _pointwise(3, 32, 64), nn.Linear(64, 9)
        self.features = _pointwise(3, 32, 64, 128)
        self.head = nn.Sequential(nn.Linear(128, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, classes))

    def forward(self, points: Tensor) -> Tensor:
        matrix = self.turns(self.turn(points).max(2).values).view(-1, 3, 3) + torch.eye(3)
        found: Tensor = self.head(self.features(torch.bmm(matrix, points)).max(2).values)
        return found


class Graph(nn.Module):
    """Two layers in which each node gets the mean of the messages of its edges."""

    def __init__(self, features: int = 16, size: int = 48, classes: int = 7) -> None:
        super().__init__()
        sizes = (features, size, size)
        self.own = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(sizes))
        self.messages = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(sizes))
        self.head = nn.Linear(size, classes)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges
        degree = x.new_zeros(len(x)).scatter_add(0, target, x.new_ones(len(target))).clamp(min=1)
        for own, message in zip(self.own, self.messages, strict=True):
            sums = x.new_zeros(len(x), own.out_features).index_add(0, target, message(x)[source])
            x = functional.relu(own(x) + sums / degree[:, None])
        found: Tensor = self.head(x)
        return found


class Causal(nn.Module):
    """A block of a GPT."""

    def __init__(self, size: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.after = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.mlp = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(approximate="tanh"), nn.Linear(4 * size, size))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (each.unflatten(2, (self.heads, -1)).transpose(1, 2) for each in self.qkv(self.norm(x)).chunk(3, -1))
        found = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.out(found)
        result: Tensor = x + self.mlp(self.after(x))
        return result


class Gpt(nn.Module):
    """A decoder whose embedding is the matrix of its scores too. It computes the loss of the next token."""

    def __init__(self, tokens: int = 128, size: int = 64, length: int = 64) -> None:
        super().__init__()
        self.embedding, self.positions = nn.Embedding(tokens, size), nn.Embedding(length, size)
        self.blocks = nn.Sequential(Causal(size), Causal(size), nn.LayerNorm(size))
        self.head = nn.Linear(size, tokens, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1]))
        scores = self.head(self.blocks(x))
        return functional.cross_entropy(scores[:, :-1].flatten(0, 1), tokens[:, 1:].flatten(), label_smoothing=0.1)


class Tagger(nn.Module):
    """A bidirectional LSTM over words, of which those behind the end of a sentence do not count."""

    def __init__(self, words: int = 200, size: int = 32, classes: int = 9) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, size, padding_idx=0)
        self.lstm = nn.LSTM(size, size, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * size, classes)

    def forward(self, words: Tensor) -> Tensor:
        found: Tensor = self.head(self.lstm(self.embedding(words))[0])
        return found.transpose(1, 2)


class Experts(nn.Module):
    """A layer of experts, of which each token has the two that its gate scores highest."""

    def __init__(self, size: int, count: int = 4) -> None:
        super().__init__()
        self.gate = nn.Linear(size, count)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(size, 2 * size), nn.SiLU(), nn.Linear(2 * size, size)) for _ in range(count)
        )

    def forward(self, x: Tensor) -> Tensor:
        best, places = self.gate(x).topk(2, -1)
        weights = torch.zeros(*x.shape[:-1], len(self.experts)).scatter(-1, places, best.softmax(-1))
        return torch.stack([expert(x) for expert in self.experts], -2).mul(weights.unsqueeze(-1)).sum(-2)


class Mixture(nn.Module):
    """Attention and a layer of experts, over vectors with positions as sines."""

    def __init__(self, size: int = 48, classes: int = 10) -> None:
        super().__init__()
        angles = torch.arange(32)[:, None] * torch.exp(torch.arange(0, size, 2) * (-math.log(1e4) / size))
        self.register_buffer("positions", torch.stack([angles.sin(), angles.cos()], -1).flatten(1))
        self.attention = nn.MultiheadAttention(size, 4, batch_first=True)
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(2))
        self.experts, self.head = Experts(size), nn.Linear(size, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.positions
        x = self.norms[0](x + self.attention(x, x, x, need_weights=False)[0])
        found: Tensor = self.head(self.norms[1](x + self.experts(x)).mean(1))
        return found


class Recommender(nn.Module):
    """A DLRM: bags of an item's features, numbers, and the products of all their vectors."""

    def __init__(self, size: int = 16, features: tuple[int, ...] = (1000, 500, 200)) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(count, size, mode="sum") for count in features)
        self.numbers = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, size), nn.ReLU())
        pairs = len(features) * (len(features) + 1) // 2
        self.head = nn.Sequential(nn.Linear(pairs + size, 64), nn.ReLU(), nn.Linear(64, 1), nn.Flatten(0))
        self.register_buffer("pairs", torch.tril_indices(len(features) + 1, len(features) + 1, -1))

    def forward(self, numbers: Tensor, items: Tensor) -> Tensor:
        dense = self.numbers(numbers)
        vectors = torch.stack([dense, *(bag(items[:, place]) for place, bag in enumerate(self.bags))], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        found: Tensor = self.head(torch.cat([dense, products], 1))
        return found
