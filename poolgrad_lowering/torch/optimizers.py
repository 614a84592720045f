# SPDX-License-Identifier: Apache-2.0

"""Optimizers as functions from weights, gradients and state to new weights and new state.

They compute what the classes of the same name in `torch.optim` compute. The state is tensors by slot: what the
optimizer keeps for each weight, and for AdamW the number of steps, which belongs to all weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from poolgrad_lowering.torch import names

Tensors: TypeAlias = dict[str, Tensor]


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent, `torch.optim.SGD`."""

    momentum: float = 0.9
    weight_decay: float = 0.0
    nesterov: bool = False

    def initial_state(self, weights: Mapping[str, Tensor]) -> Tensors:
        """Return the state before the first step."""
        return {names.state("momentum", name): torch.zeros_like(w) for name, w in weights.items() if self.momentum}

    def update(self, weights: Mapping[str, Tensor], gradients: Tensors, state: Tensors, rate: Tensor) -> Tensors:
        """Return the new weights, by input name, and the new state."""
        results = {}
        for name, weight in weights.items():
            step = gradients[name] + self.weight_decay * weight if self.weight_decay else gradients[name]
            if self.momentum:
                slot = names.state("momentum", name)
                results[slot] = momentum = self.momentum * state[slot] + step
                step = step + self.momentum * momentum if self.nesterov else momentum
            results[names.weight(name)] = weight - rate * step
        return results

    def in_torch(self, parameters: Iterable[Tensor], rate: float) -> torch.optim.Optimizer:
        """Return torch's optimizer with the same settings."""
        return torch.optim.SGD(parameters, lr=rate, **asdict(self))


@dataclass(frozen=True)
class AdamW:
    """Adam with decoupled weight decay, `torch.optim.AdamW`."""

    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.01

    def initial_state(self, weights: Mapping[str, Tensor]) -> Tensors:
        """Return the state before the first step."""
        zeros = {names.state(s, name): torch.zeros_like(w) for name, w in weights.items() for s in ("mean", "square")}
        return {_STEPS: torch.zeros(()), **zeros}

    def update(self, weights: Mapping[str, Tensor], gradients: Tensors, state: Tensors, rate: Tensor) -> Tensors:
        """Return the new weights, by input name, and the new state."""
        steps = state[_STEPS] + 1
        results = {_STEPS: steps}
        size = rate / (1 - self.beta_1**steps)
        correction = (1 - self.beta_2**steps).sqrt()
        for name, weight in weights.items():
            slots = names.state("mean", name), names.state("square", name)
            mean = self.beta_1 * state[slots[0]] + (1 - self.beta_1) * gradients[name]
            square = self.beta_2 * state[slots[1]] + (1 - self.beta_2) * gradients[name] * gradients[name]
            decayed = weight - rate * self.weight_decay * weight
            results[names.weight(name)] = decayed - size * mean / (square.sqrt() / correction + self.epsilon)
            results[slots[0]], results[slots[1]] = mean, square
        return results

    def in_torch(self, parameters: Iterable[Tensor], rate: float) -> torch.optim.Optimizer:
        """Return torch's optimizer with the same settings."""
        betas = (self.beta_1, self.beta_2)
        return torch.optim.AdamW(parameters, rate, betas, self.epsilon, self.weight_decay)


_STEPS = "state.steps"

Optimizer: TypeAlias = SGD | AdamW
OptimizerName = Literal["sgd", "adamw"]


def find_optimizer(optimizer: object) -> Optimizer:
    """Return the optimizer of a name.

    Raises `ValueError` for a name that is unknown, `TypeError` for another optimizer, e.g. one of torch.
    """
    if isinstance(optimizer, (SGD, AdamW)):
        return optimizer
    taken = f"it takes None, {', '.join(map(repr, _BY_NAME))}, and SGD(…) and AdamW(…) of poolgrad_lowering.torch"
    if not isinstance(optimizer, str):
        kind = optimizer if isinstance(optimizer, type) else type(optimizer)
        what = f"the class {kind.__name__}" if kind is optimizer else f"a {kind.__module__}.{kind.__qualname__}"
        raise TypeError(f"optimizer is {what}; {taken}")
    if optimizer not in _BY_NAME:
        raise ValueError(f"optimizer is {optimizer!r}; {taken}")
    return _BY_NAME[optimizer]


_BY_NAME: dict[str, Optimizer] = {"sgd": SGD(), "adamw": AdamW()}
