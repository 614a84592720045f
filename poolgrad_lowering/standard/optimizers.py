# SPDX-License-Identifier: Apache-2.0

"""The optimizers of onnxruntime's artifacts, for one weight at a time, and what all weights share.

The operators update sequences of tensors in place. Here an update is a body for each weight, in ONNX's text syntax like
the definitions of operators. `steps` is the number of updates with this one.

An optimizer has the names of the tensors that are kept for each weight, its `slots`; the number of updates is kept too
if there are any. `factors` returns the nodes that compute what all updates share, the `FACTORS`, from `rate` and
`steps`, and `update` those that compute `new_weight` and `new_<slot>` from `weight`, `gradient`, slots and factors.
"""

from __future__ import annotations

from dataclasses import dataclass

from poolgrad_lowering.standard.nodes import scalar

CLIP_EPSILON = 1e-6
"""Added to the norm of the gradients, as by onnxruntime's ClipGradNormV2 and torch's clip_grad_norm_."""

FACTORS = ("size", "decay_rate", "root")
"""What updates may read of what all of them share."""


@dataclass(frozen=True)
class SGD:
    """SGDOptimizerV2: weight − rate · gradient."""

    slots: tuple[str, ...] = ()

    def factors(self) -> str:
        """The size of the step is the rate."""
        return "size = Identity(rate)\n"

    def update(self) -> str:
        """weight − size · gradient."""
        return "change = Mul(size, gradient)\nnew_weight = Sub(weight, change)\n"


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

    def factors(self) -> str:
        """size = rate · √(1 − βᵗ) / (1 − αᵗ) in mode 1; in mode 0 the root is a factor of the denominator."""
        text = scalar("one", 1) + scalar("decay", self.weight_decay) + "decay_rate = Mul(rate, decay)\n"
        if self.adam_mode and not self.correct_bias:
            return text + "size = Identity(rate)\n"
        text += scalar("alpha", self.alpha) + scalar("beta", self.beta)
        text += "alpha_power = Pow(alpha, steps)\nbeta_power = Pow(beta, steps)\n"
        text += "alpha_rest = Sub(one, alpha_power)\nbeta_rest = Sub(one, beta_power)\nroot = Sqrt(beta_rest)\n"
        if self.adam_mode:
            return text + "scaled = Mul(rate, root)\nsize = Div(scaled, alpha_rest)\n"
        return text + "size = Div(rate, alpha_rest)\n"

    def update(self) -> str:
        """The weight moves along mean / (√square + ε)."""
        text = scalar("alpha", self.alpha) + scalar("alpha_left", 1 - self.alpha)
        text += scalar("beta", self.beta) + scalar("beta_left", 1 - self.beta) + scalar("epsilon", self.epsilon)
        text += "weight_before = Identity(weight)\n" if self.adam_mode else self._decayed("weight_before", "weight")
        text += "old_mean = Mul(mean, alpha)\ntaken_mean = Mul(gradient, alpha_left)\n"
        text += "new_mean = Add(old_mean, taken_mean)\n"
        text += "gradient_square = Mul(gradient, gradient)\nold_square = Mul(square, beta)\n"
        text += "taken_square = Mul(gradient_square, beta_left)\nnew_square = Add(old_square, taken_square)\n"
        text += "deviation = Sqrt(new_square)\n"
        text += "corrected = Identity(deviation)\n" if self.adam_mode else "corrected = Div(deviation, root)\n"
        text += "denominator = Add(corrected, epsilon)\ndirection = Div(new_mean, denominator)\n"
        text += "change = Mul(size, direction)\nweight_after = Sub(weight_before, change)\n"
        after = (
            self._decayed("new_weight", "weight_after") if self.adam_mode else "new_weight = Identity(weight_after)\n"
        )
        return text + after

    def _decayed(self, result: str, weight: str) -> str:
        if not self.weight_decay:
            return f"{result} = Identity({weight})\n"
        return f"{result}_decay = Mul(decay_rate, {weight})\n{result} = Sub({weight}, {result}_decay)\n"


Optimizer = SGD | AdamW


def clipped(count: int, most: float) -> str:
    """Return the nodes that scale gradients g0 … to c0 … so that their norm is at most `most`."""
    names = [f"part_{number}" for number in range(count)]
    text = scalar("most", most) + scalar("tiny", CLIP_EPSILON) + scalar("one", 1)
    for number, part in enumerate(names):
        text += f"square_{number} = Mul(g{number}, g{number})\n{part} = ReduceSum<keepdims = 0>(square_{number})\n"
    text += f"total = Sum({', '.join(names)})\nnorm = Sqrt(total)\nraised = Add(norm, tiny)\n"
    text += "ratio = Div(most, raised)\nfactor = Min(ratio, one)\n"
    return text + "".join(f"c{number} = Mul(g{number}, factor)\n" for number in range(count))
