# SPDX-License-Identifier: Apache-2.0

"""Gradients of ReLU and ReLU6: products with signs, and choices where a gradient may be infinite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import onnxruntime as ort
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from poolgrad_lowering.torch import TrainingStep, export_training_step
from poolgrad_lowering.torch.rectifiers import multiply_by_signs


class Net(nn.Module):
    """A convolution, what is tested, and another convolution of what another function makes of the result."""

    def __init__(self, rectify: Callable[[Tensor], Tensor], behind: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.rectify, self.behind = rectify, behind
        self.first, self.last = nn.Conv2d(2, 4, 3), nn.LazyConv2d(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.last(self.behind(self.rectify(self.first(x) * 8)))
        return found


def exported(model: nn.Module, *, dynamic_batch: bool = False) -> tuple[TrainingStep, Counter[str]]:
    torch.manual_seed(0)
    x = torch.randn(2, 2, 8, 8)
    arguments = model, functional.mse_loss, (x, torch.randn_like(model(x)).detach())
    step = export_training_step(*arguments, dynamic_batch=dynamic_batch)
    step.check()
    return step, Counter(node.op_type for node in step.model.graph.node)


RECTIFIERS = {
    "relu": nn.ReLU(),
    "relu in place": nn.ReLU(inplace=True),
    "relu6": nn.ReLU6(),
    "relu6 in place": nn.ReLU6(inplace=True),
}
MOVES: dict[str, Callable[[Tensor], Tensor]] = {
    "nothing": lambda y: y,
    "residual": lambda y: y + functional.conv2d(y, torch.ones(4, 4, 1, 1)),
    "max pool": lambda y: functional.max_pool2d(y, 2),
    "mean": lambda y: y.mean((2, 3), keepdim=True),
    "gate": lambda y: y * functional.hardsigmoid(functional.conv2d(y, torch.ones(1, 4, 1, 1))).expand_as(y),
    "nothing but zeros beside it": lambda y: y + 0 * functional.conv2d(y, torch.ones(4, 4, 1, 1)),
    "views": lambda y: torch.cat([-y.flatten(2), y.flatten(2) * 0.5], 1).unflatten(2, (6, 6))[:, :, 1:],
}


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("name", RECTIFIERS)
def test_sums_of_products_are_multiplied(name: str, move: str) -> None:
    _, count = exported(Net(RECTIFIERS[name], MOVES[move]), dynamic_batch=name == "relu")
    assert (count["Where"], count["Sign"]) == (move == "gate", 1)


@pytest.mark.parametrize("rectify", [nn.Hardtanh(-1, 1), nn.Hardtanh(0, 5), nn.LeakyReLU(), lambda y: y.clamp(0, 6)])
def test_what_is_no_rectifier_stays_a_choice(rectify: Callable[[Tensor], Tensor]) -> None:
    _, count = exported(Net(rectify, MOVES["nothing"]))
    assert count["Where"]
    assert not count["Sign"]


@pytest.mark.parametrize("behind", [torch.sqrt, lambda y: (2 * y).sqrt(), lambda y: 4 / (y + 1)])
def test_what_may_be_infinite_stays_a_choice(behind: Callable[[Tensor], Tensor]) -> None:
    step, count = exported(Net(nn.ReLU(), behind))
    assert (count["Where"], count["Sign"]) == (1, 0)
    session = ort.InferenceSession(step.model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(["grad.first.weight"], {**step.values, **step.examples})[0]
    assert np.isfinite(found).all()
    assert found.any()


def test_16_bits_stay_a_choice() -> None:
    """onnxruntime's CPU provider has no kernels for them, and gradients of float16 are often infinite."""
    with torch.autocast("cpu", torch.bfloat16):
        _, count = exported(Net(nn.ReLU(), MOVES["nothing"]))
    assert (count["Where"], count["Sign"]) == (1, 0)


def test_choices_of_other_numbers_stay() -> None:
    def function(x: Tensor, weight: Tensor) -> Tensor:
        return torch.where(x.relu() <= 0, 1.0, x @ weight)

    graph = torch.fx.experimental.proxy_tensor.make_fx(function)(torch.ones(2, 2), torch.ones(2, 2))
    before = [node.target for node in graph.graph.nodes]
    multiply_by_signs(graph.graph)
    assert [node.target for node in graph.graph.nodes] == before
