# SPDX-License-Identifier: Apache-2.0

"""Values go from a step into modules and optimizers of PyTorch, and back, by their names."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from poolgrad_lowering import lower
from poolgrad_lowering.runtime import TrainingLoop, create_session
from poolgrad_lowering.runtime.tensors import as_array
from poolgrad_lowering.torch import Update, export_training_step, export_update

X, LABELS = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(4) % 2
RATE = 0.05


class Tied(nn.Module):
    """Two layers with one weight, BatchNorm, and a pool."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.pool = nn.BatchNorm2d(3), nn.MaxPool2d(2)
        self.first, self.second, self.head = nn.Linear(48, 48), nn.Linear(48, 48), nn.Linear(48, 2)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.second(self.first(self.pool(self.norm(x)).flatten(1)).tanh()))


class Weighted(nn.Module):
    """A loss with a buffer, the weights of classes, and a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.tensor([1.0, 3.0]))
        self.sharpness = nn.Parameter(torch.tensor(1.5))

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        return nn.functional.cross_entropy(output * self.sharpness, target, self.weight)


def optimizers(model: nn.Module, loss: nn.Module, name: str) -> Any:
    tensors = [*model.parameters(), *loss.parameters()]
    if name == "sgd":
        return torch.optim.SGD(tensors, RATE, 0.9, weight_decay=0.01)
    if name == "adam":
        return torch.optim.Adam(tensors, RATE, weight_decay=0.01)
    return torch.optim.AdamW(
        [{"params": tensors[:3], "weight_decay": 0.2}, {"params": tensors[3:], "lr": 2 * RATE}], RATE
    )


def train(model: nn.Module, loss: nn.Module, optimizer: Any, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        loss(model(X), LABELS).backward()
        optimizer.step()


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_a_training_goes_on_on_the_other_side(name: str) -> None:
    """Two eager steps, three in onnxruntime, two eager ones: within rounding of seven eager steps."""
    models, losses = [], []
    for _ in range(2):
        torch.manual_seed(0)
        models.append(Tied())
        losses.append(Weighted())
    (eager, mixed), (eager_loss, mixed_loss) = models, losses
    whole, parted = (optimizers(model, loss, name) for model, loss in zip(models, losses, strict=True))
    train(eager, eager_loss, whole, 7)
    train(mixed, mixed_loss, parted, 2)
    step = export_training_step(mixed, mixed_loss, (X, LABELS), optimizer=parted)
    loop = TrainingLoop(create_session(lower(step.model).model, backend="host"), step)
    for _ in range(3):
        loop.step(x=X, target=LABELS, **step.rates(parted))
    step.load_into(mixed, loop.values(), parted, loss=mixed_loss)
    again = step.values_of(mixed, parted, loss=mixed_loss)
    assert again.keys() == loop.values().keys()
    assert all(np.array_equal(again[key], value) for key, value in loop.values().items())
    assert mixed.second.weight is mixed.first.weight
    train(mixed, mixed_loss, parted, 2)
    for one, other in ((eager, mixed), (eager_loss, mixed_loss)):
        for key, value in one.state_dict().items():  # sums are added in another order than PyTorch's
            assert torch.allclose(other.state_dict()[key], value, rtol=1e-4, atol=1e-5), key


@pytest.fixture(scope="module")
def step() -> Any:
    torch.manual_seed(0)
    return export_training_step(Tied(), Weighted(), (X, LABELS), optimizer="adam")


def test_without_optimizer_and_loss(step: Any) -> None:
    other = Tied()
    step.load_into(other, step.values)
    found = step.values_of(other)
    assert all(np.array_equal(found[name], value) for name, value in step.values.items())


def test_state_before_the_first_step(step: Any) -> None:
    model, loss = Tied(), Weighted()
    found = step.values_of(model, torch.optim.Adam([*model.parameters(), *loss.parameters()]), loss=loss)
    assert not any(value.any() for name, value in found.items() if name.startswith("state."))


def test_what_does_not_fit_changes_nothing(step: Any) -> None:
    model, loss = Tied(), Weighted()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    lacking = {name: value for name, value in step.values.items() if name != "weight.head.bias"}
    wide = {**step.values, "weight.head.bias": np.zeros(3, np.float32)}
    with pytest.raises(ValueError, match=r"values lacks weight\.head\.bias"):
        step.load_into(model, lacking)
    with pytest.raises(ValueError, match=r"weight\.head\.bias has shape \(3,\), not \(2,\)"):
        step.load_into(model, wide)
    with pytest.raises(ValueError, match=r"only one of them has .*weight\.norm"):
        step.load_into(nn.Linear(48, 48), step.values)
    with pytest.raises(ValueError, match="other groups"):
        step.load_into(model, step.values, torch.optim.Adam(model.head.parameters()))
    with pytest.raises(ValueError, match="other state"):
        step.values_of(model, torch.optim.SGD([*model.parameters(), *loss.parameters()]), loss=loss)
    model.head = nn.Linear(48, 3)
    with pytest.raises(
        ValueError, match=r"weight\.head\.weight of the model has shape \(3, 48\), the step's \(2, 48\)"
    ):
        step.load_into(model, step.values)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items() if "head" not in name)


def test_steps_that_differ_between_parameters() -> None:
    model = Tied()
    optimizer = torch.optim.Adam(model.parameters())
    model.head(torch.ones(1, 48)).sum().backward()  # the others take no step
    optimizer.step()
    with pytest.raises(ValueError, match="other numbers of steps"):
        export_training_step(model, nn.functional.cross_entropy, (X, LABELS), optimizer=optimizer)


def test_a_loop_loads() -> None:
    step = export_training_step(Tied(), nn.functional.cross_entropy, (X, LABELS), optimizer="sgd")
    loop = TrainingLoop(create_session(lower(step.model).model, backend="host"), step)
    losses = []
    for _ in range(2):
        losses.append([loop.step(x=X, target=LABELS, learning_rate=RATE)["loss"] for _ in range(3)])
        loop.load({**step.values, "of.another.model": np.zeros(3)})
    assert losses[0] == losses[1]
    loop.load({"weight.head.bias": torch.tensor([1.0, 2.0])})
    assert loop.values()["weight.head.bias"].tolist() == [1, 2]
    with pytest.raises(ValueError, match=r"the step takes weight\.head\.bias of shape"):
        loop.load({"weight.head.bias": np.zeros(3, np.float32), "weight.head.weight": np.zeros((2, 48), np.float32)})
    assert loop.values()["weight.head.weight"].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64])
def test_tensors_as_arrays(dtype: Any) -> None:
    tensor = torch.arange(6).reshape(2, 3).to(dtype).T
    found = as_array(tensor, None)
    assert str(found.dtype) == str(dtype).removeprefix("torch.")
    assert found.flags.c_contiguous
    assert np.array_equal(found.astype(np.float64), tensor.double().numpy())


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_an_update_has_the_rates_and_the_state(name: str) -> None:
    """A training by gradients and updates goes on from a checkpoint with the bits of one that was not interrupted."""
    torch.manual_seed(0)
    model, loss = Tied(), Weighted()
    optimizer = optimizers(model, loss, name)
    expected, *_ = in_two_models(model, loss, optimizer, steps=4)
    _, update, values = in_two_models(model, loss, optimizer, steps=2)
    update.load_into(model, values, optimizer, loss=loss)
    found, *_ = in_two_models(model, loss, optimizer, steps=2)
    assert found == expected[2:]
    for value_name, value in update.values_of(model, optimizer, loss=loss).items():
        assert np.array_equal(value, values[value_name]), value_name


def in_two_models(
    model: nn.Module, loss: nn.Module, optimizer: Any, *, steps: int
) -> tuple[list[float], Update, dict[str, np.ndarray]]:
    """The losses of some steps, the update, and the values that they end with."""
    step = export_training_step(model, loss, (X, LABELS))
    update = export_update(step, optimizer)
    gradients = TrainingLoop(create_session(lower(step.model).model, backend="host"), step)
    updating = TrainingLoop(onnxruntime.InferenceSession(update.model.SerializeToString()), update)
    losses = []
    for _ in range(steps):
        found = gradients.step(x=X, target=LABELS)
        losses.append(float(found.pop("loss")))
        updating.step(**found, **update.rates(optimizer))
        gradients.load(updating.values())
    return losses, update, {**gradients.values(), **updating.values()}


def test_a_step_without_an_optimizer_has_no_rates() -> None:
    model, loss = Tied(), Weighted()
    optimizer = optimizers(model, loss, "sgd")
    step = export_training_step(model, loss, (X, LABELS))
    with pytest.raises(ValueError, match="the step has no optimizer: call this method of what export_update returns"):
        step.rates(optimizer)
    with pytest.raises(ValueError, match="the step has no optimizer"):
        step.load_into(model, step.values, optimizer, loss=loss)
