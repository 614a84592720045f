# SPDX-License-Identifier: Apache-2.0

"""Optimizers of torch with their groups, and transforms of gradients, in steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from poolgrad_lowering.torch import (
    Adam,
    EagerLion,
    StepMismatchError,
    TorchExportError,
    TrainingStep,
    export_training_step,
    updates,
)

X, LABELS = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(4) % 2


def model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 2))


def export(net: nn.Module, **options: Any) -> TrainingStep:
    return export_training_step(net, nn.functional.cross_entropy, (X, LABELS), **options)


OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "SGD": lambda p: torch.optim.SGD(p, 0.1),
    "SGD, Nesterov": lambda p: torch.optim.SGD(p, 0.1, 0.8, weight_decay=0.1, nesterov=True),
    "SGD, dampening": lambda p: torch.optim.SGD(p, 0.1, 0.8, dampening=0.4, weight_decay=0.1),
    "Adam": lambda p: torch.optim.Adam(p, 0.1, (0.8, 0.9), 1e-6, 0.2),
    "Adam, decoupled": lambda p: torch.optim.Adam(p, 0.1, weight_decay=0.2, decoupled_weight_decay=True),
    "AdamW": lambda p: torch.optim.AdamW(p, 0.1, (0.8, 0.9), 1e-6, 0.2),
    "Adagrad": lambda p: torch.optim.Adagrad(p, 0.1, 0.2, 0.1, 0.5, 1e-6),
    "RMSprop": lambda p: torch.optim.RMSprop(p, 0.01),
    "RMSprop, all": lambda p: torch.optim.RMSprop(p, 0.01, 0.9, 1e-6, 0.1, 0.8, centered=True),
    "Adadelta": lambda p: torch.optim.Adadelta(p, 0.5, 0.8, 1e-5, 0.1),
    "Adam, amsgrad": lambda p: torch.optim.Adam(p, 0.1, (0.8, 0.5), 1e-6, amsgrad=True),
    "AdamW, amsgrad, maximize": lambda p: torch.optim.AdamW(p, 0.01, amsgrad=True, maximize=True),
    "Adamax": lambda p: torch.optim.Adamax(p, 0.01, (0.8, 0.5), 1e-6, 0.1),
    "NAdam": lambda p: torch.optim.NAdam(p, 0.1, (0.8, 0.9), 1e-6, 0.2, 0.1),
    "NAdam, decoupled": lambda p: torch.optim.NAdam(p, 0.1, weight_decay=0.2, decoupled_weight_decay=True),
    "Lion": lambda p: EagerLion(p, 0.01, (0.8, 0.9), 0.2),
    "Lion, maximize": lambda p: EagerLion(p, 0.01, maximize=True),
    "RAdam": lambda p: torch.optim.RAdam(p, 0.01, (0.8, 0.9), 1e-6, 0.1),
    "RAdam, decoupled": lambda p: torch.optim.RAdam(p, 0.01, weight_decay=0.1, decoupled_weight_decay=True),
    "SGD, maximize": lambda p: torch.optim.SGD(p, 0.1, 0.9, weight_decay=0.1, maximize=True),
    "a tensor as rate": lambda p: torch.optim.AdamW(p, torch.tensor(0.1)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_settings_of_torch(name: str) -> None:
    """Compared with the caller's own optimizer, not with one that was made from what was read."""
    net = model()
    optimizer = OPTIMIZERS[name](net.parameters())
    step = export(net, optimizer=optimizer)
    rates = {rate: np.array(value, np.float32) for rate, value in step.rates(optimizer).items()}
    session = onnxruntime.InferenceSession(step.model.SerializeToString(), providers=["CPUExecutionProvider"])
    values = dict(step.values)
    for _ in range(3):
        found = dict(zip(step.outputs, session.run(None, {**values, **step.examples, **rates}), strict=True))
        values |= {source: found[output] for output, source in step.carried.items()}
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(X), LABELS).backward()
        optimizer.step()
    for parameter, value in net.named_parameters():  # sums in another order
        assert np.allclose(values[f"weight.{parameter}"], value.detach(), rtol=1e-4, atol=1e-5), parameter
    step.check(steps=3, tolerance=1e-4)


def test_lion_is_that_of_its_paper() -> None:
    weight = nn.Parameter(torch.tensor([0.5, -0.25, 1.0]))
    optimizer, expected, mean = EagerLion([weight], 0.1, (0.75, 0.5), 0.5), np.array([0.5, -0.25, 1.0]), np.zeros(3)
    for gradient in ([1.0, -1.0, 0.0], [-2.0, 1.0, 1.0], [0.5, 0.0, -4.0]):
        weight.grad = torch.tensor(gradient)
        optimizer.step()
        update = np.sign(0.75 * mean + 0.25 * np.array(gradient))
        expected -= 0.1 * (update + 0.5 * expected)
        mean = 0.5 * mean + 0.5 * np.array(gradient)
        np.testing.assert_allclose(weight.detach().numpy(), expected, rtol=1e-6)


def test_adam_by_name_and_with_settings() -> None:
    for optimizer in ("adam", Adam(0.8, 0.99, 1e-6, 0.3), "nadam"):
        assert export(model(), optimizer=optimizer).check(steps=3).errors["new_state.mean.0.weight"] < 1e-4


@pytest.mark.parametrize("beta", [0.0, 0.9, 0.999, 0.9999])
def test_radam_rectifies_as_that_of_torch(beta: float) -> None:
    """Its first division by a mean of squares is in the sixth step; the length of the mean is exact for any number."""
    from poolgrad_lowering.torch.optimizers import RAdam

    step = export(model(), optimizer=RAdam(beta_2=beta))
    step.check(steps=8)
    for steps in (1, 5, 6, 1000, 3000, 10**6):
        longest, power = 2 / (1 - beta) - 1, beta**steps
        found = RAdam(beta_2=beta)._length(torch.tensor(float(steps)))
        assert found.item() == pytest.approx(longest - 2 * steps * power / (1 - power), rel=1e-6)


def test_scalars_of_the_optimizer_are_computed_once() -> None:
    """Those of AdamW, the powers of its two factors; each weight has nodes of its own behind them."""
    step = export(model(), optimizer="adamw")
    powers = [node for node in step.model.graph.node if node.op_type == "Tanh"]
    assert len(powers) == 2


def many_vectors() -> nn.Module:
    torch.manual_seed(1)
    blocks = [nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU()) for _ in range(3)]
    return nn.Sequential(*blocks, nn.Flatten(), nn.Linear(192, 2))


@pytest.mark.parametrize("name", ["SGD", "Adam", "NAdam", "RMSprop, all"])
def test_vectors_are_updated_side_by_side_with_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two groups, of which one has half of the vectors, and another rate."""
    net = many_vectors()
    groups = [{"params": net[:2].parameters()}, {"params": net[2:].parameters(), "lr": 0.03}]
    optimizer = OPTIMIZERS[name](groups)
    joint = export(net, optimizer=optimizer)
    monkeypatch.setattr(updates, "side_by_side", lambda shapes: [[name] for name in shapes])
    alone = export(net, optimizer=optimizer)
    joined = [node for node in joint.model.graph.node if node.op_type == "Concat" and len(node.input) == 6]
    assert bool(joined) == (name != "NAdam")  # which keeps a number for each weight
    rates = {rate: np.array(value, np.float32) for rate, value in joint.rates(optimizer).items()}
    found, expected = (
        onnxruntime.InferenceSession(step.model.SerializeToString()).run(
            [*step.outputs], {**step.values, **step.examples, **rates}
        )
        for step in (joint, alone)
    )
    assert joint.outputs == alone.outputs
    assert [each.tobytes() for each in found] == [each.tobytes() for each in expected]


def test_groups() -> None:
    net = model()
    optimizer = torch.optim.SGD([{"params": net[0].parameters(), "momentum": 0.9}, {"params": [net[4].bias]}], 0.1)
    step = export(net, optimizer=optimizer)
    assert [name for name in step.inputs if name.startswith("learning_rate")] == ["learning_rate.0", "learning_rate.1"]
    assert [name for name in step.inputs if name.startswith("state")] == [
        "state.momentum.0.weight", "state.momentum.0.bias",
    ]  # fmt: skip
    assert set(step.outputs) == {
        "loss", *(f"new_weight.{name}" for name in ("0.weight", "0.bias", "4.bias")),
        "new_state.momentum.0.weight", "new_state.momentum.0.bias",
    }  # fmt: skip
    assert "weight.4.weight" in step.inputs  # which no group has
    step.check(steps=3)
    optimizer.param_groups[1]["lr"] = 0.5
    assert step.rates(optimizer) == {"learning_rate.0": 0.1, "learning_rate.1": 0.5}
    with pytest.raises(ValueError, match="the optimizer has 1 groups, the step 2"):
        step.rates(torch.optim.SGD(net.parameters()))


def test_a_swapped_rate_is_found() -> None:
    """The comparison gives each group a rate of its own."""
    net = model()
    step = export(
        net, optimizer=torch.optim.SGD([{"params": net[0].parameters()}, {"params": net[4].parameters()}], 0.1)
    )
    swapped = {"learning_rate.0": "learning_rate.1", "learning_rate.1": "learning_rate.0"}
    for node in step.model.graph.node:
        node.input[:] = [swapped.get(name, name) for name in node.input]
    with pytest.raises(StepMismatchError, match="differs from eager PyTorch"):
        step.check()


def test_an_optimizer_of_another_model() -> None:
    with pytest.raises(ValueError, match="a parameter that neither model nor loss have"):
        export(model(), optimizer=torch.optim.Adam(model().parameters()))


def clipped(gradients: dict[str, Tensor]) -> dict[str, Tensor]:
    norm = torch.stack([gradient.norm() for gradient in gradients.values()]).norm()
    return {name: gradient * (0.01 / (norm + 1e-6)).clamp(max=1) for name, gradient in gradients.items()}


@pytest.mark.parametrize("optimizer", [None, "adamw"])
def test_gradients_are_transformed(optimizer: Any) -> None:
    step = export(model(), optimizer=optimizer, gradient_transform=clipped)
    assert step.check(steps=3).errors
    if optimizer is None:
        session = onnxruntime.InferenceSession(step.model.SerializeToString(), providers=["CPUExecutionProvider"])
        found = session.run(None, {**step.values, **step.examples})[1:]
        net = model()
        nn.functional.cross_entropy(net(X), LABELS).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.01)
        for value, parameter in zip(found, net.parameters(), strict=True):  # sums in another order
            assert np.allclose(value, parameter.grad, rtol=1e-4, atol=1e-8)


def test_a_transform_has_the_operators_of_models() -> None:
    export(model(), gradient_transform=lambda found: {name: g - g.median() for name, g in found.items()}).check()
    with pytest.raises(TorchExportError, match=r"depends on the numbers in a tensor, by .* in .*\(test_groups"):
        export(model(), gradient_transform=lambda found: {name: g / max(g.norm(), 1) for name, g in found.items()})


def test_a_transform_by_the_functions_of_lists() -> None:
    def clip(gradients: dict[str, Tensor]) -> dict[str, Tensor]:
        norm = torch.nn.utils.get_total_norm(gradients.values(), foreach=True)
        found = torch._foreach_mul(list(gradients.values()), (0.01 / (norm + 1e-6)).clamp(max=1))
        return dict(zip(gradients, torch._foreach_sign(found), strict=True))

    export(model(), gradient_transform=clip).check()


def test_a_transform_that_draws_random_numbers() -> None:
    """They follow those of the model. The caller's go on as if nothing was exported."""
    net = nn.Sequential(model(), nn.Dropout(0.5))
    before = torch.get_rng_state()
    step = export(net, gradient_transform=lambda found: {name: g + torch.randn_like(g) for name, g in found.items()})
    assert torch.equal(torch.get_rng_state(), before)
    step.check()


@pytest.mark.parametrize(
    ("transform", "said"),
    [
        (lambda gradients: list(gradients.values()), "no mapping"),
        (lambda gradients: {name: value for name, value in gradients.items() if name != "0.bias"}, "no mapping"),
        (
            lambda gradients: {name: value.sum() for name, value in gradients.items()},
            r"shape \(\) for the gradient of '0",
        ),
    ],
)
def test_a_transform_that_returns_something_else(transform: Any, said: str) -> None:
    with pytest.raises(Exception, match=said):
        export(model(), gradient_transform=transform)


@pytest.mark.parametrize("register", ["register_step_pre_hook", "register_step_post_hook"])
def test_an_optimizer_with_a_hook_on_its_step_is_refused(register: str) -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    getattr(optimizer, register)(lambda *_: None)
    with pytest.raises(ValueError, match="has a hook on its step"):
        export(net, optimizer=optimizer)
