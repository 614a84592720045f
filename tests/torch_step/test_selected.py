# SPDX-License-Identifier: Apache-2.0

"""Losses of the elements that a mask selects, whose number is another one in each step."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from poolgrad_lowering import export_cann, lower
from poolgrad_lowering.torch import TorchExportError, export_training_step
from tests.torch_step.networks import NETWORKS
from tests.torch_step.symbolic_steps import assert_whole, check_for

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(3, 4, 8, generator=GENERATOR)
OTHER = torch.randn(3, 4, 6, generator=GENERATOR)
LABELS = torch.tensor([[1, 2, 2, -100], [3, 1, -100, -100], [1, 1, 4, 5]])
FEWER = torch.tensor([[1, -100, -100, -100], [-100, -100, -100, -100], [-100, 0, 4, -100]])
ALL = torch.tensor([[0, 1, 2, 3], [4, 5, 0, 1], [2, 3, 4, 5]])

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


class Selecting(nn.Module):
    """Rows of 6 numbers, of which a loss takes some by their labels."""

    def __init__(self, loss: Loss) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.loss = nn.Linear(8, 6), loss

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        return self.loss(self.layer(x), labels, labels >= 0)


def assigned(y: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    z = torch.zeros_like(y)
    z[mask] = y[mask] * labels[mask][:, None]
    return z.pow(2).sum()


def smoothed(y: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    wanted = torch.full_like(y[mask], 0.05)
    wanted[torch.arange(wanted.shape[0]), labels[mask]] = 0.75
    return functional.binary_cross_entropy_with_logits(y[mask], wanted)


def put_at(y: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    found, flat = y.reshape(-1, 6) * 2, labels.view(-1)
    places = torch.where(flat >= 0)[0]
    found[places, flat[places]] = found[places, flat[places]] - 0.4
    beyond = torch.zeros(30)
    beyond[places + 2] = found[mask.view(-1)].sum(1)
    return found.exp().mean() + beyond.pow(2).mean()


def asserted(y: Tensor, _: Tensor, mask: Tensor) -> Tensor:
    assert y[mask].shape[0] > 0
    return y[mask].pow(2).mean()


LOSSES: dict[str, Loss] = {
    "mean": lambda y, _, mask: y[mask].pow(2).mean(),
    "masked_select": lambda y, _, mask: y[..., 0].masked_select(mask).pow(2).mean(),
    "cross_entropy": lambda y, labels, mask: functional.cross_entropy(y[mask], labels[mask]),
    "cross_entropy_smoothed": lambda y, labels, mask: functional.cross_entropy(
        y[mask], labels[mask], weight=torch.arange(6.0) + 1, label_smoothing=0.1
    ),
    "nll_loss": lambda y, labels, mask: functional.nll_loss(y.log_softmax(-1)[mask], labels[mask]),
    "binary_cross_entropy": lambda y, labels, mask: functional.binary_cross_entropy_with_logits(
        y[..., 0][mask], (labels[mask] > 1).float()
    ),
    "kl_div": lambda y, _, mask: functional.kl_div(
        y.log_softmax(-1)[mask], OTHER.softmax(-1)[mask], reduction="batchmean"
    ),
    "two_masks": lambda y, labels, _: functional.mse_loss(y[labels >= 0], OTHER[labels >= 0]),
    "two_flat_masks": lambda y, labels, _: functional.l1_loss(
        y.reshape(-1, 6)[labels.view(-1) >= 0], OTHER.view(-1, 6)[labels.view(-1) >= 0]
    ),
    "both_sides": lambda y, _, mask: (y[mask] - 1).abs().sum() + y[~mask].sum(),
    "joined": lambda y, _, mask: torch.cat([y[mask], y[~mask]]).pow(2).mean(),
    "put": lambda y, _, mask: (
        torch.ones_like(y).masked_scatter(mask[..., None].expand_as(y), y[mask].flatten().tanh()).pow(2).sum()
    ),
    "count": lambda y, _, mask: y[mask].pow(2).sum() / len(y[mask]),
    "count_or_one": lambda y, _, mask: y[mask].pow(2).sum() / max(mask.sum().item(), 1),
    "at_most": lambda y, _, mask: y[mask].pow(2).sum() / min(5, y[mask].shape[0]),
    "ones": lambda y, _, mask: (y[mask] @ torch.ones(6) - torch.ones(y[mask].shape[0])).pow(2).mean(),
    "gather": lambda y, labels, mask: y[mask].gather(1, labels[mask][:, None]).mean(),
    "beside_positions": lambda y, labels, mask: y[mask, labels[mask]].pow(2).mean(),
    "flat_beside_positions": lambda y, labels, mask: y.reshape(-1, 6)[mask.view(-1), labels[mask]].exp().sum(),
    "one_column": lambda y, _, mask: y[mask, 0].pow(2).mean(),
    "nonzero": lambda y, _, mask: y.reshape(-1, 6)[mask.view(-1).nonzero().squeeze(1)].pow(2).mean(),
    "where": lambda y, _, mask: y[torch.where(mask)].pow(2).mean(),
    "index_add": lambda y, _, mask: torch.zeros(3, 6).index_add(0, mask.nonzero()[:, 0], y[mask]).pow(2).sum(),
    "largest": lambda y, labels, mask: (
        torch.zeros(6, 6)
        .scatter_reduce(0, labels[mask][:, None].expand(-1, 6), y[mask], "amax", include_self=False)
        .pow(2)
        .sum()
    ),
    "put_at": put_at,
    "smoothed": smoothed,
    "assigned": assigned,
    "asserted": asserted,
    "each_row": lambda y, labels, mask: sum(
        (functional.cross_entropy(y[row][mask[row]], labels[row][mask[row]], reduction="sum") for row in range(3)),
        torch.zeros(()),
    ),
    "contrast": lambda y, _, mask: functional.cross_entropy(y[mask] @ y[mask].T, torch.arange(y[mask].shape[0])),
    "distances": lambda y, _, mask: torch.cdist(y[mask], y[mask] + 1).mean(),
    "normalized": lambda y, _, mask: functional.normalize(y[mask]).pow(3).sum(),
    "logsumexp": lambda y, _, mask: y[mask].logsumexp(0).pow(2).sum() + y[mask].logsumexp(1, keepdim=True).mean(),
    "softmax": lambda y, _, mask: y[mask].T.softmax(-1).pow(2).sum(),
    "flattened": lambda y, _, mask: y[mask].flatten().pow(2).mean() + y[mask].T.reshape(2, -1).tanh().sum(),
    "heads": lambda y, _, mask: (y[mask].view(-1, 2, 3).transpose(0, 1) @ torch.ones(3, 2)).exp().mean(),
    "attention": lambda y, _, mask: functional.scaled_dot_product_attention(*[y[mask][None]] * 3).pow(2).mean(),
    "batch_norm": lambda y, _, mask: functional.batch_norm(y[mask], None, None, training=True).pow(3).mean(),
    "deviation": lambda y, _, mask: y[mask].std() + y[..., 0][mask].var(),
    "cumulative": lambda y, _, mask: (y[mask].cumsum(0) * y[mask]).mean(),
    "sorted": lambda y, labels, mask: (
        functional.cross_entropy(y[mask], labels[mask], reduction="none").sort(descending=True).values[:2].mean()
    ),
}


SHORT = (
    *("mean", "cross_entropy", "binary_cross_entropy", "two_masks", "two_flat_masks", "count_or_one", "nonzero"),
    *("beside_positions", "asserted", "contrast", "distances", "flattened", "attention", "batch_norm"),
)


@pytest.mark.parametrize(
    "loss", [pytest.param(name, marks=() if name in SHORT else pytest.mark.long) for name in LOSSES]
)
def test_steps_of_any_number_of_elements(loss: str) -> None:
    step = export_training_step(Selecting(LOSSES[loss]), None, (X, LABELS))
    for labels in (FEWER, ALL):
        check_for(step, X + 1, labels)
    assert_whole(step)


@pytest.mark.parametrize("name", ["unet_of_labels", "recognizer"])
def test_no_selection_crosses_the_cuts_at_pools(name: str) -> None:
    step = NETWORKS[name].export(optimizer="sgd")
    assert not export_cann(lower(step.model, keep_onnx=True).model).report.obstacles


NOTHING_IS_SELECTED = ("put", "count_or_one", "both_sides", "each_row", "assigned")


@pytest.mark.parametrize("loss", NOTHING_IS_SELECTED)
def test_a_batch_of_which_nothing_is_selected(loss: str) -> None:
    step = export_training_step(Selecting(LOSSES[loss]), None, (X, LABELS))
    check_for(step, X, torch.full_like(LABELS, -100))


def of_written_labels(y: Tensor, labels: Tensor, _: Tensor) -> Tensor:
    own = labels.clone()
    before = y[own >= 0].sum()
    own.view(-1)[:5] = 1
    return before + y[own >= 0].pow(2).mean()


def of_a_written_mask(y: Tensor, labels: Tensor, _: Tensor) -> Tensor:
    mask = labels >= 0
    before = labels[mask].sum()
    mask.view(-1)[:5] = False
    return before * y[labels >= 0].pow(2).mean() + y[mask].exp().sum()


@pytest.mark.parametrize("loss", [of_written_labels, of_a_written_mask])
def test_masks_that_are_written_to_are_two(loss: Loss) -> None:
    step = export_training_step(Selecting(loss), None, (X, LABELS))
    step.check()
    check_for(step, X, FEWER)


def test_masks_of_an_integer_and_of_a_rounded_number_are_two() -> None:
    """float32 rounds 2²⁴ + 1."""
    step = export_training_step(
        Selecting(lambda y, labels, _: y[labels + 1 > 2**24].exp().sum() + y[labels + 1.0 > 2**24].pow(2).sum()),
        None,
        (X, LABELS + 2**24 - 2),
    )
    step.check()


def test_a_way_that_the_number_of_elements_decides() -> None:
    def loss(y: Tensor, _: Tensor, mask: Tensor) -> Tensor:
        return y[mask].mean() if y[mask].shape[0] > 2 else y.sum()

    with pytest.raises(TorchExportError, match=r"numbers in a tensor, by torch.Tensor.__getitem__ in loss \(test_sel"):
        export_training_step(Selecting(loss), None, (X, LABELS))


def test_parts_whose_number_a_mask_decides() -> None:
    with pytest.raises(TorchExportError, match=r"__getitem__ in <lambda> \(test_selected"):
        export_training_step(Selecting(lambda y, _, mask: torch.stack(y[mask].unbind(0)).sum()), None, (X, LABELS))


class Recognizer(nn.Module):
    """The loss of speech recognition: labels without their padding, one after the other."""

    def __init__(self, *, is_counted: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.is_counted = nn.Linear(8, 6), is_counted

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        mask = labels > 0
        targets = labels.masked_select(mask)
        lengths = mask.sum(-1) if self.is_counted else torch.stack([row.sum() for row in mask])
        times = torch.full((len(x),), x.shape[1])
        logarithms = self.layer(x).log_softmax(-1).transpose(0, 1)
        return functional.ctc_loss(logarithms, targets, times, lengths, zero_infinity=True)


@pytest.mark.parametrize("is_counted", [True, False])
def test_ctc_loss_of_selected_labels(is_counted: bool) -> None:
    x = torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(1))
    step = export_training_step(Recognizer(is_counted=is_counted), None, (x, LABELS))
    step.check()
    too_long = torch.tensor([[1, 1, 1, 1], [2, 0, 3, 0], [1, 2, 3, 4]])
    for labels in (FEWER, ALL, too_long, torch.zeros_like(LABELS)):
        check_for(step, x, labels)
    assert_whole(step)


def test_ctc_loss_of_targets_longer_than_the_times() -> None:
    step = export_training_step(Recognizer(is_counted=False), None, (X[:, :2], LABELS))
    check_for(step, X[:, :2], ALL)
