# SPDX-License-Identifier: Apache-2.0

"""Functions of torch that are computed by others: values and gradients beside torch's own, and as training steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from poolgrad_lowering import export_cann
from poolgrad_lowering.torch import TorchExportError, export_training_step
from poolgrad_lowering.torch.operators.compositions import (
    cdist,
    cholesky,
    corrcoef,
    cov,
    embedding_bag,
    grid_sample,
    householder_product,
    index_reduce,
    multilabel_margin_loss,
    pdist,
    renorm,
    solve_triangular,
)
from poolgrad_lowering.torch.operators.ctc import ctc_loss
from poolgrad_lowering.torch.operators.inverses import cholesky_solve, det, inv, logdet, slogdet, solve
from tests.torch_step.graph_mode import faults

torch.manual_seed(0)
ROWS = torch.randn(2, 5, 4)
OTHERS = torch.cat([ROWS[:, :1], torch.randn(2, 5, 4)], 1)  # a pair of equal rows
IMAGES, GRID = torch.randn(2, 3, 6, 7), torch.rand(2, 4, 5, 2) * 2.6 - 1.3
SAMPLED = IMAGES.double(), GRID.double()  # the gradient of a position is a small difference of large products
VOLUMES, PLACES = torch.randn(2, 3, 4, 1, 5), torch.rand(2, 2, 3, 2, 3) * 8 - 4
WORDS, TEXT, BEGINS = torch.randint(10, (3, 5)), torch.randint(10, (12,)), torch.tensor([0, 3, 3, 7])
WEIGHT, FACTORS = torch.randn(10, 4), torch.rand(3, 5)
CLASSES = torch.tensor([[3, 0, -1, 1], [1, -1, 0, -1], [2, 3, 0, 1], [-1, 0, 0, 0], [2, 2, -1, -1]])
SOUNDS, LABELS = torch.randn(12, 3, 6), torch.randint(1, 6, (3, 4))
TIMES, LENGTHS = torch.tensor([12, 9, 3]), torch.tensor([4, 2, 0])

Case = tuple[Callable[..., Tensor], Callable[..., Tensor], tuple[Any, ...], dict[str, Any]]


def spoken(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda x, *others, **options: function(x.log_softmax(2), *others, **options)


def of_matrices() -> Iterator[tuple[str, Case]]:
    square = OTHERS[:, :4] + 3 * torch.eye(4)
    for upper, left, is_one in product((False, True), repeat=3):
        options = {"upper": upper, "left": left, "unitriangular": is_one}
        triangular = (square[0].triu() if upper else square[0].tril()), ROWS[:, :4]
        yield f"triangles, {options}", (torch.linalg.solve_triangular, solve_triangular, triangular, options)
    positive = square @ square.mT
    for upper in (False, True):
        yield f"roots, {upper}", (torch.linalg.cholesky, cholesky, (positive,), {"upper": upper})
        root = square[0].triu() if upper else square[0].tril()
        yield (
            f"solutions by roots, {upper}",
            (torch.cholesky_solve, cholesky_solve, (ROWS[0, :4], root), {"upper": upper}),
        )
    turned = OTHERS[:, :4].flip(1).double()  # of which the elements on the diagonal are no pivots
    yield "inverses", (torch.linalg.inv, inv, (turned,), {})
    for left in (False, True):
        yield f"solutions, {left}", (torch.linalg.solve, solve, (turned, ROWS[:, :4].double()), {"left": left})
    for name, column in {"one column": ROWS[0, 0], "columns": ROWS[:, 0]}.items():
        yield f"solutions of {name}", (torch.linalg.solve, solve, (turned, column.double()), {})
    yield "determinants", (torch.linalg.det, det, (turned,), {})
    yield "logarithms of determinants", (torch.logdet, logdet, (turned @ turned.mT,), {})
    sizes = (lambda x: torch.linalg.slogdet(x).logabsdet), (lambda x: slogdet(x).logabsdet + 0 * slogdet(x).sign)
    yield "sizes of determinants", (*sizes, (turned,), {})


def of_parts() -> Iterator[tuple[str, Case]]:
    for reduce, others in product(("amax", "amin", "mean", "prod"), (True, False)):
        into = OTHERS[0], 0, torch.tensor([4, 0, 4, 1, 0]), ROWS[0], reduce
        yield f"parts, {reduce}, {others}", (torch.index_reduce, index_reduce, into, {"include_self": others})


def of_cubic_samples() -> Iterator[tuple[str, Case]]:
    for padding, corners in product(("zeros", "border", "reflection"), (True, False)):
        options = {"mode": "bicubic", "padding_mode": padding, "align_corners": corners}
        yield f"samples, bicubic, {padding}, {corners}", (functional.grid_sample, grid_sample, SAMPLED, options)


def cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for p in (0.0, 0.5, 1.0, 2.0, 3.0, float("inf")):
        exact = "donot_use_mm_for_euclid_dist"
        found[f"distances of order {p}"] = torch.cdist, cdist, (ROWS, OTHERS, p), {"compute_mode": exact}
        found[f"distances of pairs of order {p}"] = torch.pdist, pdist, (ROWS[0], p), {}
    for name, x in {"rows": ROWS[0], "a row": ROWS[0, 0], "one row": ROWS[0, :1]}.items():
        found[f"covariances, {name}"] = torch.cov, cov, (x,), {"correction": 0}
        found[f"correlations, {name}"] = torch.corrcoef, corrcoef, (x,), {}
    for mode, padding, corners in product(("bilinear", "nearest"), ("zeros", "border", "reflection"), (True, False)):
        options = {"mode": mode, "padding_mode": padding, "align_corners": corners}
        for axes, given in {"samples": (IMAGES, GRID), "samples of volumes": (VOLUMES, PLACES)}.items():
            found[f"{axes}, {mode}, {padding}, {corners}"] = functional.grid_sample, grid_sample, given, options
    for order, axis in ((2.0, 0), (1.0, -1), (3.0, 1)):
        found[f"largest norms of order {order}"] = torch.renorm, renorm, (ROWS, order, axis, 1.9), {}
    reflections = torch.linalg.householder_product, householder_product
    for columns in (4, 3):
        found[f"{columns} reflections"] = *reflections, (ROWS[..., :columns], FACTORS[:2, :columns]), {}
    bag = functional.embedding_bag, embedding_bag
    for mode in ("mean", "sum", "max"):
        found[f"bags, {mode}"] = *bag, (WORDS, WEIGHT), {"mode": mode, "padding_idx": -3}
        found[f"bags by offsets, {mode}"] = *bag, (TEXT, WEIGHT, BEGINS), {"mode": mode}
        ends = torch.cat([BEGINS, torch.tensor([12])])
        found[f"bags with their end, {mode}"] = *bag, (TEXT, WEIGHT, ends), {"mode": mode, "include_last_offset": True}
    found["bags with factors"] = *bag, (WORDS, WEIGHT), {"mode": "sum", "per_sample_weights": FACTORS}
    ctc = spoken(functional.ctc_loss), spoken(ctc_loss)
    for reduction in ("mean", "sum", "none"):
        found[f"ctc, {reduction}"] = *ctc, (SOUNDS, LABELS, TIMES, LENGTHS), {"reduction": reduction}
    found["ctc, of no softmax"] = functional.ctc_loss, ctc_loss, (SOUNDS - 3, LABELS, TIMES, LENGTHS), {}
    found["ctc, impossible"] = *ctc, (SOUNDS, LABELS, torch.tensor([3, 12, 12]), LENGTHS), {"zero_infinity": True}
    found["ctc, labels in a row"] = *ctc, (SOUNDS, LABELS.flatten()[:6], (12, 9, 3), (3, 1, 2)), {"blank": 0}
    margins = functional.multilabel_margin_loss, multilabel_margin_loss
    for reduction in ("mean", "sum", "none"):
        found[f"margins of labels, {reduction}"] = *margins, (ROWS[0], CLASSES), {"reduction": reduction}
    found["margins of labels, one row"] = *margins, (ROWS[0, 1], CLASSES[1]), {}
    found["margins of labels, a scalar"] = *margins, (ROWS[0, 1, 1], torch.tensor(0)), {}
    found["margins of labels, as once"] = *margins, (ROWS[0], CLASSES), {"size_average": False}
    return found


CASES = cases() | dict(of_matrices()) | dict(of_parts()) | dict(of_cubic_samples())


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_torch(name: str) -> None:
    """To some roundings of sums of a few numbers of order 1."""
    own, written, values, options = CASES[name]
    results = []
    for function in (own, written):
        given = [value.clone().requires_grad_() if is_real(value) else value for value in values]
        result = function(*given, **options)
        weights = torch.linspace(-1, 2, result.numel()).reshape(result.shape)
        (result * weights).sum().backward()
        gradients = [value.grad for value in given if is_real(value) and value.grad is not None]
        results.append([result.detach(), *gradients])
    for found, wanted in zip(results[1], results[0], strict=False):  # that of a grid is 0 for nearest elements
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def is_real(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


class Net(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(4, 4))
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x @ self.weight)


def test_second_gradients_of_inverses() -> None:
    x = (ROWS[0, :4] + torch.eye(4)).double().requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: inv(x).sum() + slogdet(x)[1], x)


def test_a_matrix_without_an_inverse() -> None:
    """PyTorch raises an error, which a step cannot."""
    singular = torch.tensor([[[1.0, 2], [2, 4]], [[0, 0], [0, 0]], [[0, 1], [2, 0]]])
    assert inv(singular).isnan().all((1, 2)).tolist() == [True, True, False]
    assert det(singular).tolist() == [0, 0, -2]
    assert slogdet(singular).sign.tolist() == [0, 0, -1]


def squares(y: Tensor, target: Tensor) -> Tensor:
    return ((y - target) ** 2).mean()


def fused_attention(x: Tensor) -> Tensor:
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return functional.scaled_dot_product_attention(x[None, None], 2 * x[None, None], x[None, None])


STEPS: dict[str, Callable[[Tensor], Tensor]] = {
    "distances": lambda x: torch.cdist(x, x + 1),
    "distances of other orders": lambda x: sum(torch.cdist(x, 2 * x, p) for p in (0.0, 0.5, float("inf"))),  # type: ignore[return-value]
    "samples": lambda x: functional.grid_sample(x[None, None], x.reshape(1, 4, 2, 2) - 0.5, align_corners=False),
    "cubic samples": lambda x: functional.grid_sample(
        x[None, None], x.reshape(1, 4, 2, 2) - 0.5, mode="bicubic", align_corners=True
    ),
    "samples of volumes": lambda x: functional.grid_sample(
        x.view(1, 1, 2, 2, 4), x[None, None, :, None, :3] - 0.5, align_corners=False
    ),
    "largest norms": lambda x: torch.renorm(x, 2, 0, 0.5) + (x * 2).renorm_(1, 1, 3),
    "a distribution": lambda x: torch.distributions.MultivariateNormal(x[0], x @ x.T + torch.eye(4)).log_prob(x + 1),
    "a root": lambda x: torch.linalg.solve_triangular(torch.linalg.cholesky(x @ x.T + torch.eye(4)), x, upper=False),
    "an inverse": lambda x: torch.inverse(x - 0.5) @ torch.linalg.solve(x + torch.eye(4), x[0]),
    "a determinant": lambda x: torch.slogdet(x)[1] + torch.det(x) + torch.logdet(x @ x.T + torch.eye(4)),
    "reflections": lambda x: torch.linalg.householder_product(x[:, :3], x[0, :3]),
    "bags": lambda x: functional.embedding_bag(torch.tensor([[0, 1], [2, 3]]), x),
    "maxima of bags": lambda x: functional.embedding_bag(
        torch.tensor([0, 1, 2, 3]), x, torch.tensor([0, 1]), mode="max"
    ),
    "parts": lambda x: (x * 2).index_reduce_(1, torch.tensor([1, 0, 1, 3]), x, "mean"),
    "the median without NaN": lambda x: torch.where(x > 1, torch.nan, x).nanmedian(0)[0],
    "margins of labels": lambda x: nn.MultiLabelMarginLoss()(x, CLASSES[:4]),
    "ctc": lambda x: nn.CTCLoss()(
        x[:, None].log_softmax(2), torch.tensor([[1, 2]]), torch.tensor([4]), torch.tensor([2])
    ),
    "the means of single elements": lambda x: functional.adaptive_avg_pool1d(x[:, None].transpose(1, 2), 1),
    "groups of rows": lambda x: functional.grouped_mm(
        x, torch.stack([x, 2 * x, x]), offs=torch.tensor([1, 1, 4]).int()
    ),
    "groups of rows by position": lambda x: torch._grouped_mm(x, torch.stack([x, 2 * x]), torch.tensor([3, 4]).int()),
    "a fused attention": fused_attention,
    "axes out of a constant": lambda x: x.sum(torch.arange(1, x.ndim).tolist()),
    "a condition on constants": lambda x: 2 * x if (torch.linspace(0, 1, 4).diff() > 0).all() else x,
}


@pytest.mark.parametrize("function", STEPS.values(), ids=STEPS)
def test_a_step_computes_what_pytorch_computes(function: Callable[[Tensor], Tensor]) -> None:
    step = export_training_step(Net(function).train(), squares, (torch.rand(4, 4), torch.zeros(())))
    assert faults(step.model) == []
    step.check()


COMPUTED_AGAIN: dict[str, Callable[[Tensor], Tensor]] = {
    "attention": lambda x: functional.scaled_dot_product_attention(*[x.view(1, 2, 2, 4)] * 3, is_causal=True),
    "distances": lambda x: torch.cdist(x, x + 1),
    "a mask": lambda x: x[:, torch.tensor([True, False, True, True])],
    "a spectrum": lambda x: torch.fft.rfft(x).abs(),
}


@pytest.mark.parametrize("function", COMPUTED_AGAIN.values(), ids=COMPUTED_AGAIN)
def test_a_part_that_the_backward_pass_computes_again(function: Callable[[Tensor], Tensor]) -> None:
    net = Net(lambda x: checkpoint(lambda y: function(y.tanh()), x, use_reentrant=False))
    export_training_step(net.train(), squares, (torch.rand(4, 4), torch.zeros(()))).check()


@pytest.mark.parametrize(
    "number",
    [
        lambda z, x: (z[1].copy_(x.detach()[0, 0]), z.sum().item())[1],
        lambda z, _: (v := z[1:], z.add_(2), v[0].item())[2],
        lambda z, _: torch.rand_like(z)[0].item(),
    ],
    ids=["written to", "shown by a view", "drawn"],
)
def test_numbers_of_a_tensor_that_is_no_constant(number: Callable[[Tensor, Tensor], float]) -> None:
    net = Net(lambda x: x * number(torch.zeros(3), x))
    export_training_step(net.train(), squares, (torch.rand(4, 4), torch.zeros(()))).check()


@pytest.mark.parametrize("optimizer", [None, "sgd", "adagrad"])
def test_an_embedding_with_sparse_gradients(optimizer: Any) -> None:
    words, wanted = torch.tensor([0, 1, 2, 2]), torch.randn(4, 3)
    layer = nn.Embedding(6, 3, padding_idx=1, sparse=True)
    export_training_step(layer, functional.mse_loss, (words, wanted), optimizer=optimizer).check(steps=3)


REFUSED: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "samples": (
        lambda x: functional.grid_sample(x[None, None, None], x[:, :3].reshape(1, 4, 1, 1, 3), mode="bicubic"),
        "only supports 4D input",
    ),
    "bags": (
        lambda x: functional.embedding_bag(torch.tensor([[0, 1]]), x, scale_grad_by_freq=True),
        "leave out max_norm and scale_grad_by_freq",
    ),
    "the most frequent": (lambda x: x.mode(0)[0], "mode"),
}


@pytest.mark.parametrize(("function", "name"), REFUSED.values(), ids=REFUSED)
def test_other_forms_are_refused_by_name(function: Callable[[Tensor], Tensor], name: str) -> None:
    with pytest.raises(TorchExportError, match=name):
        export_training_step(Net(function).train(), squares, (torch.rand(4, 4), torch.zeros(())))


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.classes = nn.Linear(6, 16), nn.AdaptiveLogSoftmaxWithLoss(16, 12, [4, 8])

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        found: Tensor = self.classes(self.body(x), target).loss
        return found


@pytest.mark.parametrize("target", [torch.tensor([0, 5, 9, 3, 11]), torch.tensor(9)], ids=["rows", "one row"])
def test_an_adaptive_softmax(target: Tensor) -> None:
    step = export_training_step(Words(), None, (torch.randn(*target.shape, 6), target), optimizer="sgd")
    assert not export_cann(step.model).report.obstacles
    step.check(steps=3)


def test_a_distance_of_the_model_in_a_loss_of_torch() -> None:
    """torch's function for a loss calls that of the model."""

    def loss(y: Tensor, _: Tensor) -> Tensor:
        def distance(one: Tensor, other: Tensor) -> Tensor:
            return torch.cdist(one, other).diagonal()

        return functional.triplet_margin_with_distance_loss(y, y.roll(1, 1), y.flip(1), distance_function=distance)

    step = export_training_step(nn.Linear(4, 6), loss, (ROWS[0], torch.zeros(5)), optimizer="sgd")
    step.check()
