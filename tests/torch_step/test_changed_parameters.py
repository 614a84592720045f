# SPDX-License-Identifier: Apache-2.0

"""Parameters that the model's forward changes, e.g. of a momentum encoder, are carried from step to step."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from poolgrad_lowering import lower
from poolgrad_lowering.runtime import TrainingLoop, create_session
from poolgrad_lowering.torch import TorchExportError, export_training_step
from poolgrad_lowering.torch.internals.tracing import OF_LISTS

X, LABELS = torch.randn(4, 3, 6, 6, generator=torch.Generator().manual_seed(0)), torch.arange(4) % 2
RATE = 0.1


def encoder() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 2, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 2))


class Momentum(nn.Module):
    """Two encoders. The second follows the first, by `follow`, and gives what the first is to give."""

    def __init__(self, follow: Callable[[Any, Any], object]) -> None:
        super().__init__()
        self.follow = follow
        self.fast = encoder()
        self.slow = copy.deepcopy(self.fast).requires_grad_(False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            self.follow(self.slow, self.fast)
            wanted = self.slow(x)
        return self.fast(x), wanted


def loss(found: tuple[Tensor, Tensor], labels: Tensor) -> Tensor:
    return nn.functional.mse_loss(*found) + nn.functional.cross_entropy(found[0], labels)


def of_each(change: Callable[[Tensor, Tensor], object]) -> Callable[[Any, Any], None]:
    def follow(slow: Any, fast: Any) -> None:
        for k, q in zip(slow.parameters(), fast.parameters(), strict=True):
            change(k, q)

    return follow


def in_lists(change: Callable[[list[Tensor], list[Tensor]], object]) -> Callable[[Any, Any], object]:
    return lambda slow, fast: change(list(slow.parameters()), list(fast.parameters()))


def exchange_data(k: Tensor, q: Tensor) -> None:
    k.data = k.data * 0.5 + q.data * 0.5


def write_a_part(k: Tensor, q: Tensor) -> None:
    k[1:] = q[1:] * 0.5


def exchange_parameter(slow: Any, fast: Any) -> None:
    slow[0].weight = nn.Parameter(slow[0].weight * 0.5 + fast[0].weight * 0.5, requires_grad=False)


def as_vector(slow: Any, fast: Any) -> None:
    vectors = [parameters_to_vector(part.parameters()) for part in (slow, fast)]
    vector_to_parameters((vectors[0] + vectors[1]) / 2, slow.parameters())


FOLLOW: dict[str, Callable[[Any, Any], object]] = {
    "mul_ and add_": of_each(lambda k, q: k.mul_(0.5).add_(q, alpha=0.5)),
    "of data": of_each(lambda k, q: k.data.mul_(0.5).add_(q.data, alpha=0.5)),
    "other data": of_each(exchange_data),
    "copy_": of_each(lambda k, q: k.copy_(0.5 * k + 0.5 * q)),
    "lerp_": of_each(lambda k, q: k.lerp_(q, 0.5)),
    "out": of_each(lambda k, q: torch.lerp(k, q, 0.5, out=k)),
    "out, by the first operand": of_each(lambda k, q: torch.add(0.5 * k, q, alpha=0.5, out=k)),
    "a part": of_each(write_a_part),
    "a view": of_each(lambda k, q: k.view(-1).copy_(q.reshape(-1))),
    "lists": in_lists(lambda k, q: (torch._foreach_mul_(k, 0.5), torch._foreach_add_(k, q, alpha=0.5))),
    "lists, lerp": in_lists(lambda k, q: torch._foreach_lerp_(k, q, 0.5)),
    "state_dict": lambda slow, fast: slow.load_state_dict(fast.state_dict()),
    "a vector": as_vector,
    "another parameter": exchange_parameter,
}


@pytest.mark.parametrize("name", FOLLOW)
def test_momentum_encoders(name: str) -> None:
    """Five steps of a loop give the losses and the weights of eager PyTorch, up to sums in another order."""
    model = Momentum(FOLLOW[name])
    eager = copy.deepcopy(model)
    step = export_training_step(model, loss, (X, LABELS), optimizer="sgd")
    changed = {output for output in step.outputs if output.startswith("new_weight.slow.")}
    assert changed == {
        f"new_weight.slow.{each}"
        for each, _ in model.slow.named_parameters()
        if name != "another parameter" or each == "0.weight"
    }
    if name != "another parameter":  # of which an optimizer of torch knows nothing
        step.check(steps=3)
    loop = TrainingLoop(create_session(lower(step.model).model), step)
    optimizer = torch.optim.SGD(eager.parameters(), RATE, momentum=0.9)
    for _ in range(5):
        found = loop.step(x=X, target=LABELS, learning_rate=RATE)["loss"]
        optimizer.zero_grad()
        expected = loss(eager(X), LABELS)
        expected.backward()
        optimizer.step()
        np.testing.assert_allclose(found, expected.detach(), rtol=1e-4)
    for parameter, value in eager.named_parameters():
        np.testing.assert_allclose(loop.values()[f"weight.{parameter}"], value.detach(), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("optimizer", ["sgd", None])
def test_trained_parameters(optimizer: Any) -> None:
    """What an optimizer updates is what forward left: clipped weights. Without one they are outputs."""

    class Clipped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = encoder()

        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                self.part[0].weight.clamp_(-0.05, 0.05)
            return self.part(x)

    step = export_training_step(Clipped(), nn.functional.cross_entropy, (X, LABELS), optimizer=optimizer)
    step.check(steps=3)
    new = [output for output in step.outputs if output.startswith("new_weight.")]
    assert len(new) == (1 if optimizer is None else 4)


@pytest.mark.parametrize("how", ["in place", "another tensor"])
def test_tensors_that_are_no_buffers_are_refused(how: str) -> None:
    class Centred(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part, self.centre = encoder(), torch.zeros(2)

        def forward(self, x: Tensor) -> Tensor:
            y = self.part(x)
            mean = y.detach().mean(0)
            if how == "in place":
                self.centre.mul_(0.5).add_(mean)
            else:
                self.centre = self.centre * 0.5 + mean
            return y - self.centre

    with pytest.raises(TorchExportError, match="changes 'centre', a tensor that is neither parameter nor buffer"):
        export_training_step(Centred(), nn.functional.cross_entropy, (X, LABELS))


@pytest.mark.parametrize("begin", [torch.zeros(0), torch.zeros(2, 2, dtype=torch.int64)], ids=["shape", "type"])
def test_buffers_that_become_another_shape_or_type_are_refused(begin: Tensor) -> None:
    class Leaky(nn.Module):
        """As spiking layers do: their state gets the shape of the first batch."""

        potential: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.part = encoder()
            self.register_buffer("potential", begin)

        def forward(self, x: Tensor) -> Tensor:
            y = self.part(x)
            before = self.potential if self.potential.shape == y.shape else torch.zeros_like(y)
            self.potential = before * 0.5 + y.detach()
            return y + self.potential

    model = Leaky()
    with pytest.raises(TorchExportError, match=r"'potential' another shape or type, \(.*float32 in place of \("):
        export_training_step(model, nn.functional.cross_entropy, (X, LABELS))
    model(X)
    export_training_step(model, nn.functional.cross_entropy, (X, LABELS)).check(steps=2)


def test_data_of_another_shape_are_refused() -> None:
    def cut(k: Tensor, _: Tensor) -> None:
        k.data = k.data[:1]

    with pytest.raises(TorchExportError, match="`data` of a tensor another shape"):
        export_training_step(Momentum(of_each(cut)), loss, (X, LABELS))


def test_a_part_that_is_not_changed_has_no_output() -> None:
    step = export_training_step(Momentum(lambda *_: None), loss, (X, LABELS), optimizer="sgd")
    assert not [output for output in step.outputs if "slow" in output]


LISTS: dict[str, tuple[Any, ...]] = {
    "add.List": ([[1.0, 2.0], [3.0]], [[4.0, 5.0], [6.0]]),
    "clamp_min.Scalar": ([[1.0, 2.0], [3.0]], 1.5),
    "sqrt.default": ([[1.0, 2.0], [3.0]],),
    "copy.default": ([[1.0, 2.0], [3.0]], [[4.0, 5.0], [6.0]]),
    "lerp.List": ([[1.0, 2.0], [3.0]], [[4.0, 5.0], [6.0]], [[0.5, 0.25], [1.0]]),
    "mul.ScalarList": ([[1.0, 2.0], [3.0]], (0.5, 2.0)),
    "neg.default": ([[1.0, 2.0], [3.0]],),
    "sub.Scalar": ([[1.0, 2.0], [3.0]], 0.5),
    "zero.default": ([[1.0, 2.0], [3.0]],),
}


@pytest.mark.parametrize("name", LISTS)
def test_operators_of_lists(name: str) -> None:
    """They have the bits of torch's kernels, in place and not."""
    packet, _, overload = name.partition(".")
    arguments = [list(map(torch.tensor, each)) if isinstance(each, list) else each for each in LISTS[name]]
    packets = (getattr(torch.ops.aten, f"_foreach_{each}") for each in (packet, f"{packet}_"))
    operator, in_place = (getattr(each, overload) for each in packets)
    expected = operator(*arguments)
    assert all(map(torch.equal, OF_LISTS[operator](*arguments), expected))
    assert OF_LISTS[in_place](*arguments) is None
    assert all(map(torch.equal, arguments[0], expected))
