# SPDX-License-Identifier: Apache-2.0

"""The optimizers of onnxruntime's artifacts, for one weight at a time, and what all weights share.

The operators update sequences of tensors in place. Here an update is a body for each weight, like the definitions of
operators. `steps` is the number of updates with this one.

An optimizer has the names of the tensors that are kept for each weight, its `slots`; the number of updates is kept too
if there are any. `factors` returns what all updates share, by the names that updates read, from `rate` and `steps`, and
`update` the `new_weight` and each `new_<slot>` from `weight`, `gradient`, slots and factors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from poolgrad_lowering.model.ir.bodies import Tensor

Tensors = Mapping[str, Tensor]

CLIP_EPSILON = 1e-6
"""Added to the norm of the gradients, as by onnxruntime's ClipGradNormV2 and torch's clip_grad_norm_."""


@dataclass(frozen=True)
class SGD:
    """SGDOptimizerV2: weight − rate · gradient."""

    slots: tuple[str, ...] = ()

    def factors(self, given: Tensors) -> Tensors:
        """The size of the step is the rate."""
        return {"size": given["rate"]}

    def update(self, given: Tensors) -> Tensors:
        """weight − size · gradient."""
        return {"new_weight": given["weight"] - given["size"] * given["gradient"]}


@dataclass(frozen=True)
class AdamW:
    """AdamWOptimizer with its attributes. Mode 0 decays the weight before its update, as torch; mode 1 after it."""

    alpha: float = 0.9
    beta: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.01
    adam_mode: int = 0
    correct_bias: int = 1
    slots: tuple[str, ...] = ("mean", "square")

    def factors(self, given: Tensors) -> Tensors:
        """size = rate · √(1 − βᵗ) / (1 − αᵗ); in mode 0 the root, a divisor of √square, is in ε too."""
        rate, steps = given["rate"], given["steps"]
        decay_rate = rate * self.weight_decay
        if self.adam_mode and not self.correct_bias:
            return {"size": rate, "decay_rate": decay_rate}
        alpha_rest, beta_rest = (1 - rate.constant(base).op("Pow", steps) for base in (self.alpha, self.beta))
        root = beta_rest.op("Sqrt")
        return {"size": rate * root / alpha_rest, "decay_rate": decay_rate, "epsilon": root * self.epsilon}

    def update(self, given: Tensors) -> Tensors:
        """The weight moves along mean / (√square + ε)."""
        weight, gradient = given["weight"], given["gradient"]
        if not self.adam_mode:
            weight = self._decayed(weight, given)
        mean = given["mean"] * self.alpha + gradient * (1 - self.alpha)
        square = given["square"] * self.beta + gradient * gradient * (1 - self.beta)
        epsilon = self.epsilon if self.adam_mode else given["epsilon"]
        weight -= given["size"] * (mean / (square.op("Sqrt") + epsilon))
        if self.adam_mode:
            weight = self._decayed(weight, given)
        return {"new_weight": weight, "new_mean": mean, "new_square": square}

    def _decayed(self, weight: Tensor, given: Tensors) -> Tensor:
        return weight - given["decay_rate"] * weight if self.weight_decay else weight


Optimizer = SGD | AdamW


def clipped(gradients: Sequence[Tensor], most: float) -> list[Tensor]:
    """Return gradients, scaled so that their norm is at most `most`."""
    first, *others = [(each * each).total() for each in gradients]
    raised = first.op("Sum", *others).op("Sqrt") + CLIP_EPSILON
    factor = (raised.constant(most) / raised).op("Min", 1)
    return [each * factor for each in gradients]
