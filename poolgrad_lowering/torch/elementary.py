# SPDX-License-Identifier: Apache-2.0

"""Elementary functions whose translation by torch's exporter loses the digits of small results."""

from __future__ import annotations

import torch
from torch import Tensor


def log1p(x: Tensor) -> Tensor:
    """Return ln(1 + x) with the digits of a small x: with u = 1 + x as it is rounded, x · ln(u) / (u − 1)."""
    x = _floating(x)
    u = 1 + x
    return torch.where(u == 1, x, torch.log(u) * torch.where(x > 1, 1, x / (u - 1)))


def expm1(x: Tensor) -> Tensor:
    """Return exp(x) − 1 with the digits of a small x: tanh(x / 2) · (exp(x) + 1)."""
    x = _floating(x)
    return torch.tanh(x / 2) * (torch.exp(x) + 1)


_OF_ERFCX = (
    -1.26551223, 1.00002368, 0.37409196, 0.0967841895, -0.186288062, 0.278868084, -1.135204, 1.48851589, -0.822152234,
    0.170872778,
)  # fmt: skip
"""The polynomial in t = 1 / (1 + x / 2) that is nearest to ln(erfcx(x) / t) for x ≥ 0, by a fit of this degree."""


def erfcx(x: Tensor) -> Tensor:
    """Return exp(x²) · erfc(x), to some roundings of float32; both factors by themselves overflow and vanish."""
    x = _floating(x)
    t = 1 / (1 + x.abs() / 2)
    exponent = torch.full_like(t, _OF_ERFCX[-1])
    for coefficient in reversed(_OF_ERFCX[:-1]):
        exponent = exponent * t + coefficient
    right = t * torch.exp(exponent)
    return torch.where(x < 0, 2 * torch.exp(x * x) - right, right)


def soft_margin_loss_backward(gradient: Tensor, x: Tensor, target: Tensor, reduction: int) -> Tensor:
    """Return the gradient of ln(1 + exp(−target · x)); as torch writes it, a small one is a difference from 1."""
    slope = -target * torch.sigmoid(-target * x) * gradient
    return slope / x.numel() if reduction == _MEAN else slope


_MEAN = 1
"""The number of reduction="mean" in operators of losses."""


def _floating(x: Tensor) -> Tensor:
    return x if x.is_floating_point() else x.to(torch.get_default_dtype())
