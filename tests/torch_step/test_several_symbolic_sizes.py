# SPDX-License-Identifier: Apache-2.0

"""Steps of which several sizes are symbolic: right for other sizes, lowered, and whole beside the CANN provider."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

from poolgrad_lowering import export_cann, lower
from poolgrad_lowering.torch import export_training_step
from tests.torch_step.symbolic_steps import Function, assert_whole, check_for, check_squared, squared


def test_masks_of_a_symbolic_size_are_no_obstacle() -> None:
    """Each mask computes its size for itself; onnxruntime joins what is equal, so no part needs numbers of another."""
    model = nn.Sequential(nn.Linear(4, 4), Function(lambda x: ((x @ x.T).triu(1) + torch.eye(len(x))).mean()))
    step = export_training_step(model, None, (torch.randn(6, 4),), dynamic_batch=True, optimizer="sgd")
    assert not export_cann(step.model).report.obstacles


class Attended(nn.Module):
    """Layers of sequences, of which batch and length are symbolic; the attention as it is often written."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16)), nn.Linear(16, 3)
        self.parts = nn.Linear(16, 48, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        of_heads = self.parts(y).view(*y.shape[:2], 3, 2, 8).permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(*of_heads, is_causal=True)
        scores: Tensor = self.head(y + found.transpose(1, 2).flatten(2)) @ torch.ones(3, 2)
        return scores


@pytest.mark.parametrize("is_mixed", [False, True])
def test_two_symbolic_sizes_are_no_obstacle(is_mixed: bool) -> None:
    with torch.autocast("cpu", torch.float16, enabled=is_mixed):
        step = squared(Attended(), torch.randn(2, 5, 8), {"x": {0: "batch", 1: "time"}})
    assert_whole(step)
    check_squared(step, torch.randn(3, 7, 8))


class OfPairs(nn.Module):
    """Attention from each sentence of a batch to each image of it."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        """(N, 5, 8)."""
        y = x.mean(1).expand(len(x), -1, -1)
        query, key = (
            layer(part).view(*part.shape[:2], -1, 4).transpose(1, 2) for layer, part in ((self.query, y), (self.key, x))
        )
        found = functional.scaled_dot_product_attention(query, key, key).transpose(1, 2)
        scores: Tensor = self.head(found.reshape(*y.shape[:2], -1))
        return scores


def test_the_square_of_a_size_is_no_obstacle() -> None:
    step = squared(OfPairs(), torch.randn(3, 5, 8), {"x": {0: "batch"}})
    assert_whole(step)
    check_squared(step, torch.randn(4, 5, 8))


class TokenByToken(nn.Module):
    """Layers of a batch and a length that are symbolic, which the model joins to rows and parts again."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        hidden = functional.dropout(functional.relu(self.first(x.flatten(0, 1))), 0.2)
        y = self.second(hidden * hidden.softmax(1)).view_as(x)
        attended: Tensor = self.attention(y, y, y, need_weights=False)[0]
        return self.layer(attended).flatten(0, 1)


def test_axes_that_are_joined_to_rows_are_no_obstacle() -> None:
    """Rows are computed before their axes are joined, also in the gradient of a loss of tokens."""
    step = export_training_step(
        TokenByToken(),
        lambda y, target: functional.cross_entropy(y, target.flatten()),
        (torch.randn(2, 5, 8), torch.randint(8, (2, 5))),
        dynamic_shapes={"x": {0: "batch", 1: "time"}, "target": {0: "batch", 1: "time"}},
        optimizer="sgd",
    )
    assert_whole(step)
    step.check(steps=2)
    check_for(step, torch.randn(3, 7, 8), torch.randint(8, (3, 7)))


class Summed(nn.Module):
    """Relative attention by einsum over (time, batch), as in XLNet."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ParameterList(torch.randn(8, 2, 4) / 3 for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        y = x.transpose(0, 1)
        query, value = (torch.einsum("ibh,hnd->ibnd", y, part) for part in (self.parts[0], self.parts[2]))
        key = torch.einsum("hnd,ibh->ibnd", self.parts[1], y)
        odds = torch.einsum("ibnd,jbnd->bnij", query, key).softmax(3)
        found = torch.einsum("ibnd,hnd->ibh", torch.einsum("bnij,jbnd->ibnd", odds, value), self.parts[3])
        return torch.einsum("ibh,ibh->bi", [found, y])


def test_sums_of_products_are_no_obstacle() -> None:
    step = squared(Summed(), torch.randn(2, 5, 8), {"x": {0: "batch", 1: "time"}})
    assert_whole(step)
    check_squared(step, torch.randn(3, 7, 8))


class Segmented(nn.Module):
    """A head of a fully convolutional network, which resizes features to the sizes of others."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.stem, self.deep = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, 2, padding=1)
        self.head, self.options = nn.Conv2d(8, 5, 1), options

    def forward(self, x: Tensor) -> Tensor:
        y = functional.max_pool2d(self.stem(x), 2)
        deep = self.deep(y)
        context = functional.interpolate(deep.mean((2, 3), keepdim=True), deep.shape[2:], **self.options)
        found = torch.cat([functional.interpolate(deep + context, y.shape[2:], **self.options), y], 1)
        return functional.interpolate(self.head(found), x.shape[2:], **self.options)


RESIZES: dict[str, dict[str, Any]] = {
    "bilinear": {"mode": "bilinear"},
    "corners": {"mode": "bilinear", "align_corners": True},
    "nearest": {"mode": "nearest"},
    "exact": {"mode": "nearest-exact"},
}


@pytest.mark.parametrize("name", RESIZES)
def test_images_of_any_size_are_resized_without_an_obstacle(name: str) -> None:
    height, width = "4*height", "4*width"
    step = export_training_step(
        Segmented(**RESIZES[name]),
        nn.CrossEntropyLoss(),
        (torch.randn(2, 3, 8, 12), torch.randint(5, (2, 8, 12))),
        dynamic_shapes={"x": {0: "batch", 2: height, 3: width}, "target": {0: "batch", 1: height, 2: width}},
        optimizer="sgd",
    )
    assert_whole(step)
    assert len(lower(step.model).report.lowered) == 1
    step.check(steps=2)
    check_for(step, torch.randn(3, 3, 16, 4), torch.randint(5, (3, 16, 4)))


STRIDED: dict[str, tuple[nn.Module, tuple[int, ...], tuple[int, ...]]] = {
    "image": (
        nn.Sequential(
            nn.Conv2d(3, 4, 3, 2, padding=1),
            nn.BatchNorm2d(4),
            nn.Conv2d(4, 4, (4, 3), (3, 1), padding=(0, 1), groups=4),
            nn.ReLU(),
            nn.MaxPool2d(2, ceil_mode=True),
            nn.Conv2d(4, 5, 1, 2, bias=False),
        ),
        (2, 3, 60, 47),
        (3, 3, 47, 62),
    ),
    "volume": (nn.Conv3d(1, 4, (1, 3, 3), (1, 2, 3), padding=(0, 1, 0)), (2, 1, 3, 9, 11), (1, 1, 2, 12, 10)),
    "picked": (
        nn.Sequential(nn.Conv1d(3, 4, 3, 2), Function(lambda y: torch.cat([y, y[:, :, :1]], 2))),
        (2, 3, 30),
        (3, 3, 41),
    ),
    "transposed": (
        nn.Sequential(nn.Conv1d(3, 4, 5, 4), nn.ConvTranspose1d(4, 2, 3, 2)),
        (2, 3, 30),
        (3, 3, 41),
    ),
}


@pytest.mark.parametrize("name", STRIDED)
def test_strided_convolutions_over_any_size_are_no_obstacle(name: str) -> None:
    """How many elements no window reaches, a tensor tells, and so of how many elements a mean is."""
    layers, shape, other = STRIDED[name]
    model = nn.Sequential(layers, Function(lambda y: y.mean(list(range(2, y.ndim)))))
    sizes = {axis: f"size{axis}" for axis in range(len(shape)) if axis != 1}
    step = squared(model, torch.randn(shape), {"input": sizes})
    assert_whole(step)
    assert len(lower(step.model).report.lowered) == (name == "image")
    check_squared(step, torch.randn(other))


class Causal(nn.Module):
    """Convolutions that read what is before, as in a TCN."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv1d(size, 4, 3, padding=2 * step, dilation=step) for size, step in [(3, 1), (4, 2)]
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = functional.relu(layer(x)[:, :, : -layer.padding[0]])
        return functional.pad(x[..., 1:], (1, 0)).mean(2)


def test_ends_that_are_cut_off_a_length_are_no_obstacle() -> None:
    step = squared(Causal(), torch.randn(2, 3, 9), {"x": {0: "batch", 2: "time"}})
    assert "ScatterElements" not in {node.op_type for node in step.model.graph.node}
    assert_whole(step)
    check_squared(step, torch.randn(3, 3, 12))


def test_zeros_of_a_symbolic_size_are_shared() -> None:
    step = export_training_step(
        nn.Sequential(nn.Linear(4, 4), Function(lambda y: y + torch.zeros(y.shape[0], 1, y.shape[2]))),
        lambda y, _: (y * y * torch.arange(4.0)).mean(),
        (torch.randn(2, 5, 4), torch.zeros(1)),
        dynamic_shapes={"input": {0: "lambda", 1: "time"}},
    )
    assert_whole(step)
    check_for(step, torch.randn(3, 7, 4), torch.zeros(1))


def test_rows_of_tensors_with_other_axes_are_rows() -> None:
    """Rows of (time, batch) and of (batch, time) are as many, and others."""
    step = export_training_step(
        nn.Sequential(nn.Linear(4, 3), Function(lambda y: (y.flatten(0, 1) * y.transpose(0, 1).flatten(0, 1)).sum(0))),
        nn.MSELoss(),
        (torch.randn(2, 5, 4), torch.randn(3)),
        dynamic_shapes={"input": {0: "batch", 1: "time"}},
        optimizer="sgd",
    )
    step.check()
    check_for(step, torch.randn(3, 7, 4), torch.randn(3))


def test_a_size_that_a_view_leaves_to_torch_has_its_name() -> None:
    """Torch notes it as the quotient that it computes."""
    step = squared(
        nn.Sequential(nn.Linear(4, 4), Function(lambda y: (y @ y.mT).view(len(y), 1, y.shape[1], -1).softmax(3))),
        torch.randn(2, 5, 4),
        {"input": {0: "batch", 1: "lambda"}},
    )
    sizes = {dim.dim_param for value in step.model.graph.value_info for dim in value.type.tensor_type.shape.dim}
    assert sizes >= {"batch", "lambda"}
    assert not any("//" in size for size in sizes)
    assert_whole(step)


@pytest.mark.parametrize(
    "weights",
    [
        lambda length: functional.one_hot(torch.arange(length), length),
        lambda length: torch.linspace(-1, 2, length)[:, None],
        lambda length: (torch.arange(length, dtype=torch.float32) * (1 / (length - 1)))[:, None],
    ],
)
def test_numbers_that_are_made_of_a_symbolic_size(weights: Callable[[Any], Tensor]) -> None:
    body = Function(lambda y: (y @ y.transpose(1, 2) * weights(y.shape[1])).sum())
    shapes = {"input": {1: "time"}}
    examples = (torch.randn(2, 5, 4),)
    step = export_training_step(nn.Sequential(nn.Linear(4, 3), body), None, examples, dynamic_shapes=shapes)
    step.check()
    check_for(step, torch.randn(2, 7, 4))


@pytest.mark.parametrize("rows", [2, 4, 7])
def test_a_view_of_a_symbolic_size_that_is_changed_in_place(rows: int) -> None:
    body = Function(lambda y: (z := y.clone(), z.diagonal().zero_())[0].square().mean())
    step = export_training_step(nn.Sequential(nn.Linear(4, 4), body), None, (torch.randn(3, 4),), dynamic_batch=True)
    check_for(step, torch.randn(rows, 4))


def test_positions_of_a_symbolic_length_are_no_obstacle() -> None:
    """A model takes the first rows of a table, as many as there are tokens; more than it has are an error."""

    class Positioned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.table = nn.Linear(4, 4), nn.Parameter(torch.randn(8, 4))
            self.register_buffer("numbers", torch.arange(8.0)[None])

        def forward(self, x: Tensor) -> Tensor:
            places = self.numbers[:, : x.shape[1]].expand(len(x), -1)
            return self.layer(x + self.table[: x.shape[1]]).flatten(0, 1) * places.flatten()[:, None]

    time = Dim("time", min=2, max=8)
    step = squared(Positioned(), torch.randn(2, 5, 4), {"x": {0: "batch", 1: time}})
    assert_whole(step)
    check_for(step, torch.randn(3, 8, 4), torch.zeros(1))
    step.check()


@pytest.mark.parametrize(
    "rows",
    [
        lambda table, x: table[: -x.shape[1]],
        lambda table, x: table[: x.shape[1]],
        lambda table, x: table[-x.shape[1] :],
        lambda table, x: table[: x.shape[1] + 1],
    ],
)
def test_a_table_that_may_end_before_the_length_is_sliced(rows: Callable[[Tensor, Tensor], Tensor]) -> None:
    """An end that is counted from the last element, or may be behind it, is none of the first positions."""

    class Sliced(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.randn(9, 4))

        def forward(self, x: Tensor) -> Tensor:
            padded = functional.pad(x * self.table[0], (0, 0, 0, 1))
            return rows(self.table, x).square().sum() + padded.mean(1).square().sum()

    step = export_training_step(Sliced(), None, (torch.randn(2, 5, 4),), dynamic_shapes={"x": {1: "time"}})
    step.check()
    for length in (7, 12):
        check_for(step, torch.randn(2, length, 4))


@pytest.mark.parametrize(
    "pick",
    [
        lambda y: y[:, :, [0, 2, 3]],
        lambda y: y[:, :, [-1, 2, 2, 3, 0]],
        lambda y: y.index_select(2, torch.tensor([4])),
        lambda y: y.view(*y.shape[:2], 1, 3, 2)[:, :, :, [-2]],
    ],
)
def test_positions_that_are_known_along_an_axis(pick: Callable[[Tensor], Tensor]) -> None:
    """The gradient does not join the other axes, whose sizes are symbolic."""
    model = nn.Sequential(nn.Linear(4, 6), Function(pick))
    step = squared(model, torch.randn(2, 5, 4), {"input": {0: "batch", 1: "length"}})
    assert all(node.op_type != "ScatterElements" for node in step.model.graph.node)
    check_squared(step, torch.randn(3, 7, 4))
    assert_whole(step)
