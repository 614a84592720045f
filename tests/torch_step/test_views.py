# SPDX-License-Identifier: Apache-2.0

"""Products of more than three axes, which torch joins for them, and attention, without views that nothing needs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from poolgrad_lowering import export_atc
from poolgrad_lowering.torch import TrainingStep, export_training_step


class Products(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factors = nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        """(N, 3, 4, 4): the second factor of one product is the first too, and that of another is transposed."""
        y = x * self.factors
        return y @ y + y @ x.mT + x.mT @ y.mT


class Attention(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.heads, self.out, self.options = nn.Linear(8, 24), nn.Linear(8, 3), options

    def forward(self, x: Tensor) -> Tensor:
        parts = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.heads(x).chunk(3, -1))
        found = functional.scaled_dot_product_attention(*parts, is_causal=True, **self.options)
        return self.out(found.transpose(1, 2).flatten(2))


def exported(model: nn.Module, *shape: int, **options: Any) -> tuple[TrainingStep, Counter[str]]:
    x = torch.randn(*shape)
    step = export_training_step(model, functional.mse_loss, (x, torch.randn_like(model(x))), **options)
    step.check()
    return step, Counter(node.op_type for node in step.model.graph.node)


@pytest.mark.parametrize("dynamic_batch", [False, True])
def test_products_keep_all_axes(dynamic_batch: bool) -> None:
    step, count = exported(Products(), 2, 3, 4, 4, optimizer="sgd", dynamic_batch=dynamic_batch)
    assert count["MatMul"] == 3 + 4  # the gradients of both factors of y @ y, and of one of each other product
    assert count["Reshape"] == 1  # of the sums for the factors
    assert not export_atc(step.model).report.obstacles


@pytest.mark.parametrize("options", [{}, {"scale": 0.3}])
def test_a_causal_mask_leaves_an_element_in_each_row(options: dict[str, float]) -> None:
    """torch's formula looks for rows of which everything is masked."""
    _, count = exported(Attention(**options), 2, 5, 8, optimizer="sgd")
    assert not count.keys() & {"Equal", "Not", "ReduceMax", "Where"}
    assert count["Softmax"] == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_causal_mask_in_mixed_precision(dtype: torch.dtype) -> None:
    with torch.autocast("cpu", dtype):
        _, count = exported(Attention(), 2, 5, 8, optimizer="sgd")
    assert count["Softmax"] == 1
