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


def soft_margin_loss_backward(gradient: Tensor, x: Tensor, target: Tensor, reduction: int) -> Tensor:
    """Return the gradient of ln(1 + exp(−target · x)); as torch writes it, a small one is a difference from 1."""
    slope = -target * torch.sigmoid(-target * x) * gradient
    return slope / x.numel() if reduction == _MEAN else slope


_MEAN = 1
"""The number of reduction="mean" in operators of losses."""


def _floating(x: Tensor) -> Tensor:
    return x if x.is_floating_point() else x.to(torch.get_default_dtype())
