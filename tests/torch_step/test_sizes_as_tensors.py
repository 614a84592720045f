# SPDX-License-Identifier: Apache-2.0

"""Numbers and positions that a model makes of a symbolic batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from poolgrad_lowering.torch import export_training_step
from tests.torch_step.symbolic_steps import assert_whole, check_for

GENERATOR = torch.Generator().manual_seed(0)
X, MORE = torch.randn(4, 5, generator=GENERATOR), torch.randn(7, 5, generator=GENERATOR)

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tensor": lambda y: (y / torch.tensor(y.shape[0])).exp().sum(),
    "as_tensor": lambda y: (y / torch.as_tensor([len(y), 2.5]).prod()).exp().sum(),
    "new_tensor": lambda y: (y / y.new_tensor(len(y))).exp().sum() / torch.tensor([y.detach().max(), len(y)]).sum(),
    "shape": lambda y: y.pow(2).sum() / torch.tensor(y.shape, dtype=torch.int32).prod(),
    "reversed": lambda y: y[torch.arange(len(y) - 1, -1, -1)].cumsum(0).exp().mean(),
    "some": lambda y: y[torch.arange(1, len(y))].cumsum(0).exp().sum() + y[torch.arange(0, len(y), 2)].exp().sum(),
    "last": lambda y: y.T.contiguous()[:, torch.arange(len(y) - 1)].cumsum(1).exp().mean(),
    "quotient": lambda y: (y * torch.div(len(y), torch.div(y.shape[1], 4, rounding_mode="trunc"))).exp().mean(),
    "mirrored": lambda y: functional.cross_entropy(y, y.detach().argmax(1).flip(0)),
}
DRAWN: dict[str, Callable[[Tensor], Tensor]] = {
    "rand": lambda y: (y * torch.rand(len(y), 1)).exp().mean(),
    "randn": lambda y: (y + torch.randn(y.shape)).exp().mean(),
    "randperm": lambda y: y[torch.randperm(len(y))].cumsum(0).exp().mean(),
}


class Layer(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.function = nn.Linear(5, 6), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.layer(x))


@pytest.mark.parametrize("name", FUNCTIONS | DRAWN)
def test_of_a_symbolic_batch(name: str) -> None:
    step = export_training_step(Layer((FUNCTIONS | DRAWN)[name]), None, (X,), dynamic_batch=True)
    step.check()
    check_for(step, MORE)
    assert_whole(step)
