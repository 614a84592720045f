# SPDX-License-Identifier: Apache-2.0

"""Optimizers as functions from weights, gradients and state to new weights and new state.

They compute what the classes of the same name in `torch.optim` compute, and Lion what its paper says, for one weight.
What an optimizer keeps for a weight are tensors by slot. `steps` is the number of steps with this one, a scalar that
belongs to all weights.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, TypeAlias, TypeVar

import torch
from torch import Tensor

from poolgrad_lowering.torch.operators.elementary import expm1

Tensors: TypeAlias = dict[str, Tensor]

Made = TypeVar("Made", bound="Optimizer")


@dataclass(frozen=True)
class Optimizer(ABC):
    """The rule of an optimizer. Its fields are the settings of a group of torch's optimizer, some by other names."""

    maximize: bool = field(default=False, kw_only=True)

    IN_TORCH: ClassVar[type[torch.optim.Optimizer]]
    THEIR_NAMES: ClassVar[Mapping[str, str]] = {"epsilon": "eps"}
    SLOTS: ClassVar[Mapping[str, str]]
    """What is kept for each weight, with torch's names."""
    ONLY_WITH: ClassVar[Mapping[str, str]] = {}
    """The setting without which a slot is not kept, by slot."""

    @property
    def counts_steps(self) -> bool:
        """Whether an update depends on the number of steps."""
        return True

    @property
    def slots(self) -> Mapping[str, str]:
        """What is kept for each weight with these settings, with torch's names."""
        return {slot: name for slot, name in self.SLOTS.items() if getattr(self, self.ONLY_WITH.get(slot, ""), True)}

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of a group of torch's optimizer."""
        found = {self.THEIR_NAMES.get(name, name): value for name, value in asdict(self).items()}
        if "beta_1" in found:
            found["betas"] = found.pop("beta_1"), found.pop("beta_2")
        return found

    @classmethod
    def of_group(cls: type[Made], group: Mapping[str, Any]) -> Made:
        """Return the optimizer with the settings of a group of torch's optimizer."""
        values = {**group, **{f"beta_{number}": beta for number, beta in enumerate(group.get("betas", ()), 1)}}
        names = [field.name for field in fields(cls) if field.init]
        found = {name: values[cls.THEIR_NAMES.get(name, name)] for name in names}
        settings: dict[str, Any] = {
            name: value if isinstance(value, bool) else float(value) for name, value in found.items()
        }
        return cls(**settings)

    def initial(self, _slot: str, weight: Tensor) -> Tensor:
        """Return what is kept in a slot before the first step."""
        return torch.zeros_like(weight)

    def factors(self, rate: Tensor, _steps: Tensor) -> Tensors:
        """Return the scalars that all weights share."""
        return {"rate": rate}

    def update(self, weight: Tensor, gradient: Tensor, kept: Tensors, factors: Tensors) -> Tensors:
        """Return the new weight, under "weight", and the new values of the slots."""
        return self._update(weight, -gradient if self.maximize else gradient, kept, factors)

    @abstractmethod
    def _update(self, weight: Tensor, gradient: Tensor, kept: Tensors, factors: Tensors) -> Tensors:
        """Return the same for a gradient of which the loss becomes smaller."""


@dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent, `torch.optim.SGD`."""

    momentum: float = 0.9
    weight_decay: float = 0.0
    nesterov: bool = False
    dampening: float = 0.0

    IN_TORCH: ClassVar[type[torch.optim.Optimizer]] = torch.optim.SGD
    SLOTS: ClassVar[Mapping[str, str]] = {"momentum": "momentum_buffer"}
    ONLY_WITH: ClassVar[Mapping[str, str]] = {"momentum": "momentum"}

    @property
    def counts_steps(self) -> bool:
        """Whether there is dampening, which the first step has not."""
        return bool(self.momentum and self.dampening)

    def factors(self, rate: Tensor, steps: Tensor) -> Tensors:
        """Return the rate, and what the gradient is multiplied with before it is added to the momentum."""
        part = {"part": torch.where(steps == 1, 1, 1 - self.dampening)} if self.counts_steps else {}
        return {"rate": rate, **part}

    def _update(self, weight: Tensor, gradient: Tensor, kept: Tensors, factors: Tensors) -> Tensors:
        rate = factors["rate"]
        step = _decayed(gradient, weight, self.weight_decay)
        if not self.momentum:
            return {"weight": weight - rate * step}
        momentum = self.momentum * kept["momentum"] + (step * factors["part"] if self.counts_steps else step)
        step = step + self.momentum * momentum if self.nesterov else momentum
        return {"weight": weight - rate * step, "momentum": momentum}


@dataclass(frozen=True)
class Adagrad(Optimizer):
    """Steps by the root of the sum of all squares, `torch.optim.Adagrad`."""

    lr_decay: float = 0.0
    weight_decay: float = 0.0
    epsilon: float = 1e-10

    IN_TORCH: ClassVar[type[torch.optim.Optimizer]] = torch.optim.Adagrad
    SLOTS: ClassVar[Mapping[str, str]] = {"sum": "sum"}  # of squares

    def factors(self, rate: Tensor, steps: Tensor) -> Tensors:
        """Return the rate of this step."""
        return {"rate": rate / (1 + (steps - 1) * self.lr_decay) if self.lr_decay else rate}

    def _update(self, weight: Tensor, gradient: Tensor, kept: Tensors, factors: Tensors) -> Tensors:
        gradient = _decayed(gradient, weight, self.weight_decay)
        total = kept["sum"] + gradient * gradient
        return {"weight": weight - factors["rate"] * gradient / (total.sqrt() + self.epsilon), "sum": total}


@dataclass(frozen=True)
class RMSprop(Optimizer):
    """Steps by the root of a mean of squares, `torch.optim.RMSprop`."""

    alpha: float = 0.99
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    momentum: float = 0.0
    centered: bool = False

    IN_TORCH: ClassVar[type[torch.optim.Optimizer]] = torch.optim.RMSprop
    SLOTS: ClassVar[Mapping[str, str]] = {"square": "square_avg", "momentum": "momentum_buffer", "mean": "grad_avg"}
    ONLY_WITH: ClassVar[Mapping[str, str]] = {"momentum": "momentum", "mean": "centered"}

    def _update(self, weight: Tensor, gradient: Tensor, kept: Tensors, factors: Tensors) -> Tensors:
        gradient = _decayed(gradient, weight, self.weight_decay)
        found = {"square": self.alpha * kept["square"] + (1 - self.alpha) * gradient * gradient}
        size = found["square"]
        if self.centered:
            found["mean"] = self.alpha * kept["mean"] + (1 - self.alpha) * gradient
            size = size - found["mean"] * found["mean"]
        step = gradient / (size.sqrt() + self.epsilon)
        if self.momentum:
            found["momentum"] = step = self.momentum * kept["momentum"] + step
        return {"weight": weight - factors["rate"] * step, **found}


@dataclass(frozen=True)
class Adadelta(Optimizer):
    """Steps in the unit of the weights, by the roots of means of squares, `torch.optim.Adadelta`."""

    rho: float = 0.9
    epsilon: float = 1e-6
    weight_decay: float = 0.0

    IN_TORCH: ClassVar[type[torch.optim.Optimizer]] = torch.optim.Adadelta
    SLOTS: ClassVar[Mapping[str, str]] = {"square": "square_avg", "step": "acc_delta"}  # means of squares

    def _update(self, weight: Tensor, gradient: Tensor, kept: Tensors, factors: Tensors) -> Tensors:
        gradient = _decayed(gradient, weight, self.weight_decay)
        square = self.rho * kept["square"] + (1 - self.rho) * gradient * gradient
        step = (kept["step"] + self.epsilon).sqrt() / (square + self.epsilon).sqrt() * gradient
        mean = self.rho * kept["step"] + (1 - self.rho) * step * step
        return {"weight": weight - factors["rate"] * step, "square": square, "step": mean}


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam, whose weight decay is a part of the gradient unless it is decoupled, `torch.optim.Adam`."""

    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    decoupled_weight_decay: bool = field(default=False, kw_only=True)
    amsgrad: bool = field(default=False, kw_only=True)

    IN_TORCH: ClassVar[type[torch.optim.Optimizer]] = torch.optim.Adam
    SLOTS: ClassVar[Mapping[str, str]] = {"mean": "exp_avg", "square": "exp_avg_sq", "largest": "max_exp_avg_sq"}
    ONLY_WITH: ClassVar[Mapping[str, str]] = {"largest": "amsgrad"}

    def factors(self, rate: Tensor, steps: Tensor) -> Tensors:
        """Return the scalars that all weights share: the correction of the root is a factor of rate and epsilon."""
        correction = self._correction(steps)
        size = rate * correction / _of_first_steps(self.beta_1, steps)
        return {"rate": rate, "size": size, "epsilon": self.epsilon * correction}

    def _correction(self, steps: Tensor) -> Tensor:
        return _of_first_steps(self.beta_2, steps).sqrt()

    def _update(self, weight: Tensor, gradient: Tensor, kept: Tensors, factors: Tensors) -> Tensors:
        weight, gradient = self._decayed(weight, gradient, factors["rate"])
        means = self._means(gradient, kept)
        step = factors["size"] * means["mean"] / self._divisor(means, factors)
        return {"weight": weight - step, **means}

    def _decayed(self, weight: Tensor, gradient: Tensor, rate: Tensor) -> tuple[Tensor, Tensor]:
        if self.decoupled_weight_decay:
            return weight * (1 - rate * self.weight_decay), gradient
        return weight, _decayed(gradient, weight, self.weight_decay)

    def _means(self, gradient: Tensor, kept: Tensors) -> Tensors:
        square = self.beta_2 * kept["square"] + (1 - self.beta_2) * gradient * gradient
        largest = {"largest": torch.maximum(kept["largest"], square)} if self.amsgrad else {}
        return {"mean": self.beta_1 * kept["mean"] + (1 - self.beta_1) * gradient, "square": square, **largest}

    def _divisor(self, means: Tensors, factors: Tensors) -> Tensor:
        return means.get("largest", means["square"]).sqrt() + factors["epsilon"]


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay, `torch.optim.AdamW`."""

    weight_decay: float = 0.01
    decoupled_weight_decay: bool = field(default=True, kw_only=True)

    IN_TORCH: ClassVar[type[torch.optim.Optimizer]] = torch.optim.AdamW


@dataclass(frozen=True)
class NAdam(Adam):
    """Adam with Nesterov's momentum, `torch.optim.NAdam`."""

    momentum_decay: float = 4e-3
    amsgrad: bool = field(default=False, init=False)  # of which torch has none

    IN_TORCH: ClassVar[type[torch.optim.Optimizer]] = torch.optim.NAdam
    SLOTS: ClassVar[Mapping[str, str]] = {**Adam.SLOTS, "product": "mu_product"}  # of the factors of the mean, a scalar

    def initial(self, slot: str, weight: Tensor) -> Tensor:
        """Return zeros, and 1 for the product."""
        return torch.ones(()) if slot == "product" else super().initial(slot, weight)

    def factors(self, rate: Tensor, steps: Tensor) -> Tensors:
        """Return the scalars that all weights share."""
        decay = self.momentum_decay * math.log(0.96)
        now, then = (self.beta_1 * (1 - 0.5 * torch.exp(count * decay)) for count in (steps, steps + 1))
        correction = self._correction(steps)
        return {"rate": rate, "now": now, "then": then, "size": rate * correction, "epsilon": self.epsilon * correction}

    def _update(self, weight: Tensor, gradient: Tensor, kept: Tensors, factors: Tensors) -> Tensors:
        size, now, then = factors["size"], factors["now"], factors["then"]
        weight, gradient = self._decayed(weight, gradient, factors["rate"])
        means, product = self._means(gradient, kept), kept["product"] * now
        step = size * (1 - now) / (1 - product) * gradient + size * then / (1 - product * then) * means["mean"]
        return {"weight": weight - step / self._divisor(means, factors), **means, "product": product}


@dataclass(frozen=True)
class RAdam(Adam):
    """Adam that divides by no mean of few squares, `torch.optim.RAdam`."""

    amsgrad: bool = field(default=False, init=False)  # of which torch has none

    IN_TORCH: ClassVar[type[torch.optim.Optimizer]] = torch.optim.RAdam

    def factors(self, rate: Tensor, steps: Tensor) -> Tensors:
        """Return the scalars that all weights share."""
        longest, length = 2 / (1 - self.beta_2) - 1, self._length(steps)
        variance = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
        is_sure = length > _FEWEST_SQUARES
        rectified = torch.where(is_sure, variance.sqrt() * self._correction(steps), 1)
        size = rate * rectified / _of_first_steps(self.beta_1, steps)
        return {"rate": rate, "size": size, "is_sure": is_sure}

    def _length(self, steps: Tensor) -> Tensor:
        """Return the length of the mean of squares, 2/(1 − β) − 1 − 2·n·βⁿ/(1 − βⁿ), by no difference of large numbers.

        With y = −ln(β)·n/2 the last term is n·(coth(y) − 1). For a small y, y·coth(y) − 1 is a continued fraction.
        """
        longest = 2 / (1 - self.beta_2) - 1
        if self.beta_2 == 0:
            return longest + 0 * steps
        half = -math.log(self.beta_2) / 2
        y = steps * half
        fraction = torch.zeros(())
        for odd in range(13, 1, -2):
            fraction = y * y / (odd + fraction)
        return torch.where(
            y < _LARGE, longest - 1 / half + steps - fraction / half, longest - 2 * steps / torch.exp(2 * y).sub(1)
        )

    def _update(self, weight: Tensor, gradient: Tensor, kept: Tensors, factors: Tensors) -> Tensors:
        weight, gradient = self._decayed(weight, gradient, factors["rate"])
        means = self._means(gradient, kept)
        divisor = torch.where(factors["is_sure"], means["square"].sqrt() + self.epsilon, 1)
        return {"weight": weight - factors["size"] * means["mean"] / divisor, **means}


@dataclass(frozen=True)
class Adamax(Optimizer):
    """Adam whose steps are divided by the largest gradient, which decays, `torch.optim.Adamax`."""

    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0

    IN_TORCH: ClassVar[type[torch.optim.Optimizer]] = torch.optim.Adamax
    SLOTS: ClassVar[Mapping[str, str]] = {"mean": "exp_avg", "largest": "exp_inf"}

    def factors(self, rate: Tensor, steps: Tensor) -> Tensors:
        """Return the size of a step."""
        return {"size": rate / _of_first_steps(self.beta_1, steps)}

    def _update(self, weight: Tensor, gradient: Tensor, kept: Tensors, factors: Tensors) -> Tensors:
        gradient = _decayed(gradient, weight, self.weight_decay)
        mean = self.beta_1 * kept["mean"] + (1 - self.beta_1) * gradient
        largest = torch.maximum(self.beta_2 * kept["largest"], gradient.abs() + self.epsilon)
        return {"weight": weight - factors["size"] * mean / largest, "mean": mean, "largest": largest}


class EagerLion(torch.optim.Optimizer):
    """Lion for eager PyTorch, which has none: with what a step is compared, and what its state is loaded into."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay, "maximize": maximize})

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Take one step."""
        loss = None if closure is None else closure()
        with torch.no_grad():
            for group in self.param_groups:
                beta_1, beta_2 = group["betas"]
                for weight in group["params"]:
                    if weight.grad is None:
                        continue
                    gradient = -weight.grad if group["maximize"] else weight.grad
                    mean = self.state[weight].setdefault("exp_avg", torch.zeros_like(weight))
                    weight.mul_(1 - group["lr"] * group["weight_decay"])
                    weight.sub_(group["lr"] * mean.lerp(gradient, 1 - beta_1).sign())
                    mean.lerp_(gradient, 1 - beta_2)
        return loss


@dataclass(frozen=True)
class Lion(Optimizer):
    """Steps of one size by the sign of a mean (X. Chen et al., Symbolic discovery of optimization algorithms, 2023)."""

    beta_1: float = 0.9
    beta_2: float = 0.99
    weight_decay: float = 0.0

    IN_TORCH: ClassVar[type[torch.optim.Optimizer]] = EagerLion
    SLOTS: ClassVar[Mapping[str, str]] = {"mean": "exp_avg"}

    @property
    def counts_steps(self) -> bool:
        """Whether an update depends on the number of steps: it does not."""
        return False

    def _update(self, weight: Tensor, gradient: Tensor, kept: Tensors, factors: Tensors) -> Tensors:
        rate, mean = factors["rate"], kept["mean"]
        step = torch.sign(self.beta_1 * mean + (1 - self.beta_1) * gradient)
        weight = weight * (1 - rate * self.weight_decay) if self.weight_decay else weight
        return {"weight": weight - rate * step, "mean": self.beta_2 * mean + (1 - self.beta_2) * gradient}


KINDS: tuple[type[Optimizer], ...] = (SGD, Adadelta, Adagrad, Adam, Adamax, AdamW, Lion, NAdam, RAdam, RMSprop)

_FEWEST_SQUARES = 5
"""RAdam divides by the root of a mean that is longer."""
_LARGE = 2.0
"""From here on, exp(2·y) − 1 has the digits of its exponential."""


def _decayed(gradient: Tensor, weight: Tensor, weight_decay: float) -> Tensor:
    return gradient + weight_decay * weight if weight_decay else gradient


def _of_first_steps(beta: float, steps: Tensor) -> Tensor:
    """Return 1 − βⁿ, of which a difference would lose digits for a β near 1."""
    return -expm1(steps * math.log(beta)) if beta else torch.ones(())
