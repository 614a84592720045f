# SPDX-License-Identifier: Apache-2.0

"""Masks, diagonals, bounds and running products are in a step what they are in eager PyTorch, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from poolgrad_lowering.torch import export_training_step
from poolgrad_lowering.torch.operators.decompositions import decompositions
from poolgrad_lowering.torch.operators.functions import _fill_diagonal

aten = torch.ops.aten
WRITTEN = decompositions("matmul")
X = torch.arange(-48, 48).reshape(2, 3, 4, 4)
MASKS = {
    "all axes": (0, torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0)) > 0),
    "the first axis": (0, torch.tensor([True, False])),
    "the first two axes": (0, torch.tensor([[True, False, True], [False, True, True]])),
    "an inner axis": (1, torch.tensor([True, False, True])),
    "two inner axes": (1, torch.arange(12).reshape(3, 4) % 3 > 0),
    "the last axis": (3, torch.tensor([False, True, True, False])),
    "bytes": (2, torch.tensor([[1, 0, 0, 2]] * 4, dtype=torch.uint8)),
    "nothing": (2, torch.zeros(4, 4, dtype=torch.bool)),
    "everything": (2, torch.ones(4, 4, dtype=torch.bool)),
    "one place": (2, torch.arange(16).reshape(4, 4) == 5),
}


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("name", MASKS)
def test_values_at_a_mask(name: str, accumulate: bool) -> None:
    first, mask = MASKS[name]
    indices: list[Any] = [*[None] * first, mask]
    index = (*[slice(None)] * first, mask.bool())
    shape = X[index].shape
    values = torch.arange(100, 100 + shape.numel()).reshape(shape)
    column = values.narrow(first, 0, min(1, shape[first]))  # one for all places
    for given in (values, column, torch.tensor(7), values[..., :1] if first + 1 < len(shape) else values):
        found = WRITTEN[aten.index_put.default](X, indices, given, accumulate)
        assert torch.equal(
            found, aten.index_put(X, [None if i is None else i.bool() for i in indices], given, accumulate)
        )


def test_what_a_mask_selects() -> None:
    mask = torch.tensor([True, False, True, True])
    assert torch.equal(WRITTEN[aten.masked_select.default](X, mask), X.masked_select(mask))
    assert torch.equal(WRITTEN[aten.masked_select.default](X[0, 0, 0], X > 0), X[0, 0, 0].masked_select(X > 0))


@pytest.mark.parametrize("sizes", [(4, 4), (2, 5), (5, 2), (2, 3, 4), (3, 1, 2, 4)])
def test_diagonals(sizes: tuple[int, ...]) -> None:
    x = torch.arange(torch.Size(sizes).numel()).reshape(sizes)
    for dim1, dim2 in ((0, 1), (-1, -2), (0, -1)):
        for offset in range(-x.shape[dim1], x.shape[dim2] + 1):
            values = -1 - torch.arange(x.diagonal(offset, dim1, dim2).numel()).reshape(
                x.diagonal(offset, dim1, dim2).shape
            )
            found = WRITTEN[aten.diagonal_scatter.default](x, values, offset, dim1, dim2)
            assert torch.equal(found, torch.diagonal_scatter(x, values, offset, dim1, dim2))
            backward = WRITTEN[aten.diagonal_backward.default](values, x.shape, offset, dim1, dim2)
            assert torch.equal(backward, aten.diagonal_backward(values, x.shape, offset, dim1, dim2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
@pytest.mark.parametrize("bounds", [(0, 5.5), (-1.5, 1), (1e-4, 1), (0, None), (None, 2), (None, 2.5), (3, -1.0)])
def test_bounds_of_two_types(bounds: tuple[Any, Any], dtype: Any) -> None:
    x = X.to(dtype) / 4 if dtype.is_floating_point else X
    found = WRITTEN[aten.clamp.default](x, *bounds)
    expected = x.clamp(*bounds)
    if found is NotImplemented:
        kinds = {type(bound) for bound in bounds if bound is not None}
        assert kinds == {float if dtype.is_floating_point else int}
    else:
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected)


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("shape", [(3, 3), (3, 5), (4, 3), (5, 3), (11, 3), (5, 1), (1, 4), (0, 3), (3, 0), (3, 3, 3)])
def test_diagonals_that_are_filled(shape: tuple[int, ...], wrap: bool) -> None:
    x = torch.randn(shape)
    assert torch.equal(_fill_diagonal(x.clone(), 2.5, wrap), x.clone().fill_diagonal_(2.5, wrap))


@pytest.mark.parametrize("size", [0, 1, 2, 5, 8])
def test_running_products(size: int) -> None:
    x = torch.arange(2 * 3 * size).reshape(2, size, 3) % 5 - 1
    assert torch.equal(WRITTEN[aten.cumprod.default](x, 1), x.cumprod(1))
    assert torch.equal(WRITTEN[aten.cumprod.default](x.double(), -2), x.double().cumprod(-2))  # exact: small integers
    assert torch.equal(WRITTEN[aten.cumprod.default](torch.tensor(3.0), 0), torch.tensor(3.0))


@pytest.mark.parametrize("kind", [torch.float32, torch.int64])
@pytest.mark.parametrize("operator", [aten.cummax.default, aten.cummin.default])
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 7)])
def test_running_extremes(shape: tuple[int, ...], operator: Any, kind: torch.dtype) -> None:
    """Of equal ones the last one."""
    x = torch.randint(5, shape).to(kind)
    for axis in range(-len(shape), max(len(shape), 1)):
        for found, expected in zip(WRITTEN[operator](x, axis), operator(x, axis), strict=True):
            assert torch.equal(found, expected)
            assert found.dtype == expected.dtype


@pytest.mark.parametrize("operator", [aten.cummax.default, aten.cummin.default, aten.median.dim])
def test_nan_is_beyond_all_numbers(operator: Any) -> None:
    torch.manual_seed(0)
    x = torch.where(torch.rand(4, 30, 5) < 0.2, torch.nan, torch.rand(4, 30, 5))
    for axis in range(3):
        for found, expected in zip(WRITTEN[operator](x, axis), operator(x, axis), strict=True):
            torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


def test_truth_values_have_extremes() -> None:
    for operator in (aten.max.dim, aten.min.dim):
        for one, other in zip(WRITTEN[operator](X > 0, 2, True), operator(X > 0, 2, True), strict=True):
            assert torch.equal(one, other)
        assert WRITTEN[operator](X, 2) is NotImplemented


def test_truth_values_are_scattered_as_numbers() -> None:
    """The gradient of a running product scatters them."""
    x = torch.zeros(3, 6)
    index = torch.tensor([[0, 5], [2, 2]])
    for operator, values in ((aten.scatter.value, 1), (aten.scatter.src, torch.tensor([[True, True], [False, False]]))):
        assert torch.equal(WRITTEN[operator](x > 0, 1, index, values), (x > 0).scatter(1, index, values))
        assert WRITTEN[operator](x, 1, index, values) is NotImplemented


class Uses(nn.Module):
    """A convolution, and parts of its result; the mask is a buffer."""

    mask: Tensor

    def __init__(self, parts: Callable[[Tensor, Tensor], list[Tensor]]) -> None:
        super().__init__()
        self.parts = parts
        self.conv = nn.Conv2d(3, 3, 1)
        self.register_buffer("mask", torch.arange(16).reshape(4, 4) % 3 > 0)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([part.flatten() for part in self.parts(self.conv(x), self.mask)])


def _put(y: Tensor, index: Any, value: Any) -> Tensor:
    y = y.clone()
    y[index] = value
    return y


PARTS: dict[str, Callable[[Tensor, Tensor], list[Tensor]]] = {
    "masks": lambda y, mask: [
        y[:, :, mask],
        y[:, torch.tensor([True, False, True])],
        y[..., mask[1]],
        (y - 1).masked_select(mask),
        _put(y, (slice(None), slice(None), mask), 0.5),
        _put(y, (slice(None), slice(None), mask), 2 * y[:, :, mask]),
        _put(y, y > 0, y.mean()),
    ],
    "diagonals": lambda y, _: [
        y.diagonal(1, -1, -2),
        y[0, 0].diag(),
        torch.einsum("bcii->bc", y),
        torch.einsum("bcii,bcij->bcj", y, y),
        torch.diagonal_scatter(y, y[:, :, 0], 0, 2, 3),
        (y[0, 0] * 1).fill_diagonal_(0.5),
        (z := y[0, 0] * 1, z.diagonal().mul_(0.5))[0],
        (y.reshape(-1, 3) * 1).fill_diagonal_(0.5, wrap=True),
    ],
    "windows": lambda y, _: [
        y.unfold(2, 2, 2).unfold(3, 3, 3),  # of which some elements are in none
        y.unfold(-1, 1, 3),
        y.flatten(1).unfold(1, 5, 2).exp(),
        (z := y * 1, z.unfold(3, 2, 2)[..., :1].mul_(0.5))[0],
        (z := y.detach() * 1, z.chunk(3, 1)[1].mul_(0.5))[0],
    ],
    "extremes along an axis": lambda y, _: [
        y.median(-1).values,
        y.median(1, keepdim=True)[0],
        y.median()[None],
        y.flatten(1).kthvalue(5).values,
        y.kthvalue(2, 1, True)[0],
        y.cummax(1).values,
        y.flatten(1).cummin(-1).values,
    ],
    "places": lambda y, mask: [
        y.take(torch.tensor([[0, 5], [5, 90]])),
        (y * 1).put_(torch.tensor([1, 7]), y[0, 0, 0, :2] * 2),
        y.masked_scatter(mask, y.flatten() * 2),
        y[0, 0].scatter_add(1, torch.tensor([[1], [0], [3]]), torch.ones(4, 5)),  # of which it adds some
        (y[0, 0] * 1).scatter_add_(1, torch.tensor([[1], [0], [3]]), torch.ones(4, 5)),
        (y[0, 0] * 1).scatter_(0, torch.tensor([[1, 0, 3]]), torch.ones(4, 5)),
        y[0, 0].scatter_reduce(1, torch.tensor([[1], [0], [3]]), torch.ones(4, 5), "mean"),
        torch.pdist(y.flatten(1)),
        torch.pdist(y.flatten(0, 2), 1),
        torch.hypot(y, y.exp()),
        torch.fmax(y, -y) + torch.fmin(y, y * 2),
    ],
    "positions": lambda y, _: [
        y[(of := y.detach()[:, 0, 0].argmin(-1))[0]],
        y[..., of[1]],
        y[1, None, ..., of[0], 1:],
        y[:, of[0], ..., of[1] - 4],
        torch.stack([torch.eye(4)[each] for each in of]) * y[0, 0, 0],
        y[:, :, []].sum(2),
    ],
    "lists": lambda y, mask: [  # which torch takes for tuples, but for the last two
        y[[slice(None), slice(1, -1)]],
        y[[..., None, 1]],
        y[[[0, 1], [1, 2]]],
        y[[torch.tensor([0, 1]), 2]],
        y[[slice(None), slice(None), mask]],
        y[[1, 0, 0]],
        y[[True, False]],
    ],
    "masks of sizes": lambda y, _: [
        (s := y[0, 0] @ y[0, 0].T)[~torch.eye(4, dtype=torch.bool)].view(4, 3).logsumexp(1),
        s.masked_select(torch.ones(4, 4, dtype=torch.bool).fill_diagonal_(False)).view(4, -1),
        (m := torch.ones(4, 4), m.diagonal().zero_(), m[0].mul_(0), s[m.bool()].view(3, -1))[-1],
        y[:, :, torch.arange(4) > 0, 1:3].view(-1, 2),
    ],
    "bounds and products": lambda y, _: [
        y.clamp(0, 5.5),
        (y * 1).clamp_(-0.5, 1),
        nn.ReLU6()(y),
        nn.Hardtanh(0, 0.5, inplace=True)(y * 1),
        y.prod(-1),
        functional.relu(y).prod(2),
        y.cumprod(1),
        (y[..., :2] - y[..., 2:]).clamp(0).prod(-1),
    ],
    "numbers less integers": lambda y, _: [
        y * (1.0 - (y > 0).long()),
        y - torch.rsub(torch.arange(4), 0.5, alpha=2),
    ],
    "numbers first": lambda y, _: [
        y * torch.add(0.25, y > 0, alpha=0.5),
        y * torch.sub(0.5, (y > 0).long()),
        torch.mul(0.5, y),
        y * (7 // ((y > 0).long() + 2)),
        torch.xlogy(2.0, y * y + 1),
    ],
    "functions": lambda y, _: [
        functional.adaptive_avg_pool2d(y.permute(0, 3, 1, 2), 1),
        functional.adaptive_avg_pool1d(y.flatten(2).permute(0, 2, 1), 1),
        functional.gaussian_nll_loss(y, y.detach() / 2, functional.relu(y) + 0.1, reduction="none"),
        functional.gaussian_nll_loss(y, y.detach() / 2, y.exp().mean(-1), full=True),
        functional.gaussian_nll_loss(y, y.detach() / 2, 2.0, reduction="sum"),
    ],
}


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
@pytest.mark.parametrize("name", PARTS)
def test_steps(name: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4, 4)
    step = export_training_step(Uses(PARTS[name]), lambda output, _: output.pow(2).mean(), (x, torch.zeros(1)))
    assert np.isfinite(list(step.check().errors.values())).all()


@pytest.mark.parametrize("order", [2.0, 1.0])
def test_an_embedding_with_a_largest_norm(order: float) -> None:
    """It scales the rows that it returns, once each, without the operator Unique, which runs on the CPU."""
    words = torch.tensor([[0, 5, 5], [2, 0, 3]])
    model = nn.Embedding(7, 4, max_norm=0.8, norm_type=order)
    step = export_training_step(model, lambda y, _: y.pow(2).mean(), (words, torch.zeros(1)), optimizer="sgd")
    assert "Unique" not in {node.op_type for node in step.model.graph.node}
    step.check(steps=2)


@pytest.mark.parametrize(
    "function",
    [
        lambda y: y.T.as_strided((4, 4), (2, 1)),
        lambda y: y[1:].T.as_strided((3, 3), (2, 1), 8),
        lambda y: y[1:].as_strided((2, 2), (1, 1), 6),
        lambda y: torch.as_strided(y, (3, 4), (3, 1)),
    ],
    ids=["transposed", "of a part", "behind a row", "in order"],
)
def test_strides_are_those_of_memory(function: Callable[[Tensor], Tensor]) -> None:
    model = nn.Linear(3, 6)
    step = export_training_step(model, lambda y, _: function(y).exp().sum(), (torch.randn(4, 3), torch.zeros(1)))
    step.check()
