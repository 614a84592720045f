# SPDX-License-Identifier: Apache-2.0

"""Optimizers as functions from weights, gradients and state to new weights and new state.

They compute what the classes of the same name in `torch.optim` compute, for one weight. What an optimizer keeps for a
weight are tensors by slot. `steps` is the number of steps with this one, a scalar that belongs to all weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor

from poolgrad_lowering.torch.elementary import expm1

Tensors: TypeAlias = dict[str, Tensor]


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent, `torch.optim.SGD`."""

    momentum: float = 0.9
    weight_decay: float = 0.0
    nesterov: bool = False

    IN_TORCH: ClassVar[type[torch.optim.Optimizer]] = torch.optim.SGD
    COUNTS_STEPS: ClassVar[bool] = False

    @property
    def slots(self) -> Mapping[str, str]:
        """What is kept for each weight, with torch's names."""
        return {"momentum": "momentum_buffer"} if self.momentum else {}

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of a group of torch's optimizer."""
        return {"momentum": self.momentum, "weight_decay": self.weight_decay, "nesterov": self.nesterov}

    @classmethod
    def of_group(cls, group: Mapping[str, Any]) -> SGD:
        """Return the optimizer with the settings of a group of torch's optimizer."""
        return cls(float(group["momentum"]), float(group["weight_decay"]), group["nesterov"])

    def factors(self, rate: Tensor, _steps: Tensor) -> Tensors:
        """Return the scalars that all weights share."""
        return {"rate": rate}

    def update(self, weight: Tensor, gradient: Tensor, kept: Tensors, factors: Tensors) -> Tensors:
        """Return the new weight, under "weight", and the new values of the slots."""
        rate = factors["rate"]
        step = gradient + self.weight_decay * weight if self.weight_decay else gradient
        if not self.momentum:
            return {"weight": weight - rate * step}
        momentum = self.momentum * kept["momentum"] + step
        step = step + self.momentum * momentum if self.nesterov else momentum
        return {"weight": weight - rate * step, "momentum": momentum}


@dataclass(frozen=True)
class Adam:
    """Adam, whose weight decay is a part of the gradient, `torch.optim.Adam`."""

    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0

    IN_TORCH: ClassVar[type[torch.optim.Optimizer]] = torch.optim.Adam
    COUNTS_STEPS: ClassVar[bool] = True

    @property
    def slots(self) -> Mapping[str, str]:
        """What is kept for each weight, with torch's names."""
        return {"mean": "exp_avg", "square": "exp_avg_sq"}

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of a group of torch's optimizer."""
        return {"betas": (self.beta_1, self.beta_2), "eps": self.epsilon, "weight_decay": self.weight_decay}

    @classmethod
    def of_group(cls, group: Mapping[str, Any]) -> Adam:
        """Return the optimizer with the settings of a group of torch's optimizer."""
        beta_1, beta_2 = map(float, group["betas"])
        return cls(beta_1, beta_2, float(group["eps"]), float(group["weight_decay"]))

    def factors(self, rate: Tensor, steps: Tensor) -> Tensors:
        """Return the scalars that all weights share. A difference would lose digits of 1 − βⁿ for a β near 1."""
        first, second = (
            -expm1(steps * math.log(beta)) if beta else torch.ones(()) for beta in (self.beta_1, self.beta_2)
        )
        return {"rate": rate, "size": rate / first, "correction": second.sqrt()}

    def update(self, weight: Tensor, gradient: Tensor, kept: Tensors, factors: Tensors) -> Tensors:
        """Return the new weight, under "weight", and the new values of the slots."""
        weight, gradient = self._decayed(weight, gradient, factors["rate"])
        mean = self.beta_1 * kept["mean"] + (1 - self.beta_1) * gradient
        square = self.beta_2 * kept["square"] + (1 - self.beta_2) * gradient * gradient
        step = factors["size"] * mean / (square.sqrt() / factors["correction"] + self.epsilon)
        return {"weight": weight - step, "mean": mean, "square": square}

    def _decayed(self, weight: Tensor, gradient: Tensor, _rate: Tensor) -> tuple[Tensor, Tensor]:
        return weight, gradient + self.weight_decay * weight if self.weight_decay else gradient


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay, `torch.optim.AdamW`."""

    weight_decay: float = 0.01

    IN_TORCH: ClassVar[type[torch.optim.Optimizer]] = torch.optim.AdamW

    def _decayed(self, weight: Tensor, gradient: Tensor, rate: Tensor) -> tuple[Tensor, Tensor]:
        return weight - rate * self.weight_decay * weight, gradient


Optimizer: TypeAlias = SGD | Adam | AdamW
