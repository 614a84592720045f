# SPDX-License-Identifier: Apache-2.0

"""Losses of a symbolic batch that select the pairs beside the diagonal of a matrix, in rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from poolgrad_lowering.torch import export_training_step
from tests.torch_step.symbolic_steps import assert_whole, check_for

Views = tuple[Tensor, Tensor]


def of_positives_and_negatives(views: Views) -> Tensor:
    found = torch.cat(views)
    numbers = torch.cat([torch.arange(len(views[0]))] * 2)
    is_other, is_same = ~torch.eye(len(found), dtype=torch.bool), (numbers == numbers[:, None]).float()
    pairs, is_same = (each[is_other].view(len(found), -1) for each in (found @ found.T, is_same))
    positive, negative = (pairs[mask].view(len(found), -1) for mask in (is_same.bool(), ~is_same.bool()))
    logits = torch.cat([positive, negative], 1)
    return functional.cross_entropy(logits / 0.5, torch.zeros(len(logits), dtype=torch.int64))


def of_sums(views: Views) -> Tensor:
    found = functional.normalize(torch.cat(views))
    products = (found @ found.T).exp()
    mask = (torch.ones_like(products) - torch.eye(len(found))).bool()
    positive = (views[0] * views[1]).sum(-1).exp().repeat(2)
    return -(positive / products.masked_select(mask).view(len(found), len(found) - 1).sum(-1)).log().mean()


def of_vectors(views: Views) -> Tensor:
    differences = views[0][:, None] - views[1]
    others = differences[~torch.eye(len(views[0]), dtype=torch.bool)].view(len(views[0]), -1, 6)
    return others.pow(2).sum(-1).min(1).values.mean()


class Projected(nn.Module):
    def __init__(self, loss: Callable[[Views], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.loss = nn.Linear(5, 6), loss

    def forward(self, one: Tensor, two: Tensor) -> Tensor:
        return self.loss((self.layer(one), self.layer(two)))


@pytest.mark.parametrize("loss", [of_positives_and_negatives, of_sums, of_vectors])
def test_pairs_of_a_symbolic_batch(loss: Callable[[Views], Tensor]) -> None:
    step = export_training_step(Projected(loss), None, (torch.randn(4, 5), torch.randn(4, 5)), dynamic_batch=True)
    step.check()
    check_for(step, torch.randn(7, 5), torch.randn(7, 5))
    assert_whole(step)
