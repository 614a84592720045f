# SPDX-License-Identifier: Apache-2.0

"""A model is after an export and a comparison, and after an error in one, what it was before."""

from __future__ import annotations

import functools
import random
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks_of_all
from torch.nn.utils import parametrizations, weight_norm

from poolgrad_lowering.torch import TorchExportError, export_forward, export_training_step
from poolgrad_lowering.torch import exporter as exporter_module
from poolgrad_lowering.torch import joint as joint_module
from poolgrad_lowering.torch.model_state import restored

X, LABELS = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(4) % 2


class Net(nn.Module):
    """Two layers of the same sizes, a head, and all kinds of attributes, which its forward changes."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)
        self.norm, self.drop, self.head = nn.BatchNorm2d(3), nn.Dropout(0.25), nn.Linear(3, 2)
        self.calls, self.last = 0, None
        self.log: list[Any] = []
        self.recent: deque[Any] = deque(maxlen=2)
        self.seen: set[Any] = set()
        self.found: dict[str, Any] = {"x": [1]}
        self.settings = SimpleNamespace(calls=0)

    def forward(self, x: Tensor) -> Tensor:
        y = self.b(self.a(x).relu())
        self.calls += 1
        self.settings.calls += 1
        self.last = y
        self.log.append(y)
        self.recent.append(y)
        self.seen.add(y)
        self.found["x"].append(y)
        self.found["y"] = y
        random.random()
        np.random.rand()
        return self.head(nn.functional.max_pool2d(self.drop(self.norm(y)), 2).mean((2, 3)))


def one_module_twice(net: Any) -> None:
    net.b = net.a


def one_weight_twice(net: Any) -> None:
    net.b.weight = net.a.weight


def one_module_in_two_parents(net: Any) -> None:
    net.a, net.b = nn.Sequential(net.a), nn.Sequential(nn.Identity(), net.a)


def old_weight_norm(net: Any) -> None:
    weight_norm(net.a)
    net(X)  # which keeps the weight as an attribute that is no leaf


def new_weight_norm(net: Any) -> None:
    parametrizations.weight_norm(net.a)


def spectral_norm(net: Any) -> None:
    parametrizations.spectral_norm(net.a)


def orthogonal(net: Any) -> None:
    nn.utils.parametrize.register_parametrization(net.head, "weight", nn.Tanh())


def module_list(net: Any) -> None:
    net.all = nn.ModuleList([net.a, net.b])


def hooks(net: Any) -> None:
    kept: dict[str, Any] = {}
    net.kept = kept
    net.a.register_forward_hook(lambda _module, _inputs, output: kept.update(output=output))
    net.b.register_forward_pre_hook(lambda _module, inputs: (inputs[0] * 2,))
    net.register_buffer("counted", torch.zeros(()))

    def count(*_: Any) -> None:
        net.counted.add_(1)

    net.a.register_forward_hook(count)


def own_forward(net: Any) -> None:
    """A forward that replaces the one of the class, and calls it."""
    before = net.forward
    net.forward = lambda x: before(x) + 1


def frozen_part_in_eval_mode(net: Any) -> None:
    net.a.requires_grad_(False)
    net.norm.eval()


def changed_in_forward(net: Any) -> None:
    net.norm.weight.requires_grad_(False)

    def halve(module: Any, _: Any) -> None:
        module.norm.weight.data.mul_(0.5)

    net.register_forward_pre_hook(halve)


STRUCTURES: list[Callable[[Any], Any]] = [
    id,  # as it is
    one_module_twice,
    one_weight_twice,
    one_module_in_two_parents,
    old_weight_norm,
    new_weight_norm,
    spectral_norm,
    orthogonal,
    module_list,
    hooks,
    own_forward,
    frozen_part_in_eval_mode,
    changed_in_forward,
]


def found_in(model: nn.Module) -> list[Any]:
    """Return everything that a model is, with the identity of each tensor, and the state of random numbers."""

    def written(value: Any) -> Any:
        if isinstance(value, Tensor):
            grad = id(value.grad) if value.is_leaf else None
            return type(value), id(value), value.requires_grad, grad, value.detach().numpy().tobytes()
        if isinstance(value, dict):
            return id(value), [(key, written(held)) for key, held in value.items()]
        if isinstance(value, (list, tuple, set, deque)):
            return id(value), [written(held) for held in value]
        return written(vars(value)) if isinstance(value, SimpleNamespace) else id(value)

    modules = dict(model.named_modules(remove_duplicate=False))
    state = [(name, type(part), written(vars(part))) for name, part in modules.items()]
    of_all = [
        len(value)
        for name, value in vars(hooks_of_all).items()
        if name.startswith("_global_") and isinstance(value, dict)
    ]
    in_numpy: Any = np.random.get_state()
    return [state, of_all, torch.get_rng_state().tolist(), random.getstate(), in_numpy[1].tolist()]


@pytest.mark.parametrize("change", STRUCTURES)
def test_a_model_stays_what_it_is(change: Callable[[Any], None]) -> None:
    net = Net()
    change(net)
    expected = found_in(net)
    step = export_training_step(net, nn.functional.cross_entropy, (X, LABELS), optimizer="sgd")
    assert found_in(net) == expected
    step.check(steps=2)
    assert found_in(net) == expected
    export_forward(net, (X,))
    assert found_in(net) == expected


class Positions(nn.Module):
    """A model whose functions keep what they return."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4)

    @functools.lru_cache(maxsize=4)  # noqa: B019
    def scales(self, count: int) -> Tensor:
        return torch.arange(count) / count

    @functools.cache  # noqa: B019
    def shifts(self, count: int) -> tuple[Tensor, ...]:
        return torch.arange(1.0, count + 1).split(1)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layer(x) * self.scales(4) + torch.cat(self.shifts(4))
        return found


def test_functions_keep_no_tensors_of_a_trace() -> None:
    x = torch.randn(2, 3)
    net = Positions()
    step = export_training_step(net, nn.functional.mse_loss, (x, torch.randn(2, 4)))
    expected = net(x)
    assert type(expected) is Tensor
    step.check()
    Positions.scales.cache_clear()
    Positions.shifts.cache_clear()
    export_forward(net, (x,))
    assert torch.equal(net(x), expected)


class Fails(torch.autograd.Function):  # type: ignore[name-defined]
    """Fails in the backward pass."""

    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(_: Any, *__: Tensor) -> Any:
        raise ZeroDivisionError


def fail(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError


IN_THE_MODEL: dict[str, Callable[[Any], Any]] = {
    "a hook before forward": lambda net: net.b.register_forward_pre_hook(fail),
    "a hook after forward": lambda net: net.b.register_forward_hook(fail),
    "the last layer": lambda net: setattr(net.head, "forward", fail),
    "the backward pass": lambda net: net.a.register_forward_hook(lambda *found: Fails.apply(found[2])),
}
IN_THE_EXPORT: dict[str, tuple[Any, str]] = {
    "what follows the trace": (joint_module, "held_constant"),
    "torch's exporter": (exporter_module, "onnx_program"),
    "the corrections": (exporter_module, "correct"),
    "the order": (exporter_module, "arrange"),
}


@pytest.mark.parametrize("stage", [*IN_THE_MODEL, *IN_THE_EXPORT])
def test_a_model_stays_what_it_is_after_an_error(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    one_module_twice(net)
    if stage in IN_THE_MODEL:
        IN_THE_MODEL[stage](net)
    else:
        monkeypatch.setattr(*IN_THE_EXPORT[stage], fail)
    expected = found_in(net)
    with pytest.raises((TorchExportError, ZeroDivisionError)):
        export_training_step(net, nn.functional.cross_entropy, (X, LABELS), optimizer="sgd")
    assert found_in(net) == expected
    with suppress(TorchExportError, ZeroDivisionError):  # a model in eval mode has no backward pass
        export_forward(net, (X,))
    assert found_in(net) == expected


def test_an_error_of_the_loss() -> None:
    net = Net()
    expected = found_in(net)
    with pytest.raises(TorchExportError, match="ZeroDivisionError"):
        export_training_step(net, fail, (X, LABELS))
    assert found_in(net) == expected


def test_an_error_in_a_comparison() -> None:
    net = Net()
    step = export_training_step(net, nn.functional.cross_entropy, (X, LABELS))
    net.head.register_forward_hook(fail)
    expected = found_in(net)
    with pytest.raises(ZeroDivisionError):
        step.check()
    assert found_in(net) == expected


def test_objects_that_a_program_shares_stay_as_they_are() -> None:
    class Shared(nn.Module):
        logger = __import__("logging").getLogger("poolgrad.test")

    net = Shared()
    net.kept = net.logger  # type: ignore[assignment]
    with restored(net):
        net.logger.disabled = True
        del net.kept
    assert net.kept is net.logger
    assert net.logger.disabled
    net.logger.disabled = False


def test_a_tuple_of_a_model_may_have_no_length() -> None:
    class Kinds(tuple[int, ...]):
        """As e3nn's representations, of which one has no number of elements."""

        __slots__ = ()

        def __len__(self) -> int:
            raise NotImplementedError

    net = nn.Module()
    net.kinds, net.names = Kinds((1, 2)), ["a"]
    with restored(net):
        net.names.append("b")
    assert net.names == ["a"]


class Moved(nn.Module):
    """Moves its layers in its forward to where they are."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(192, 2), nn.BatchNorm1d(2)

    def forward(self, x: Tensor) -> Tensor:
        self.norm.float()
        return self.norm(self.layer.to(x.device)(x.flatten(1)))


def test_a_model_that_moves_its_layers() -> None:
    export_training_step(Moved(), nn.functional.cross_entropy, (X, LABELS), optimizer="adamw").check(steps=2)
