# SPDX-License-Identifier: Apache-2.0

"""Elementary functions whose translation by torch's exporter loses the digits of small results."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def log1p(x: Tensor) -> Tensor:
    """Return ln(1 + x) with the digits of a small x: with u = 1 + x as it is rounded, x · ln(u) / (u − 1)."""
    x = _floating(x)
    u = 1 + x
    return torch.where(u == 1, x, torch.log(u) * torch.where(x > 1, 1, x / (u - 1)))


def expm1(x: Tensor) -> Tensor:
    """Return exp(x) − 1 with the digits of a small x: tanh(x / 2) · (exp(x) + 1)."""
    x = _floating(x)
    return torch.tanh(x / 2) * (torch.exp(x) + 1)


def mish_backward(gradient: Tensor, x: Tensor) -> Tensor:
    """Return the gradient of x · tanh(softplus(x)), with a sigmoid that has the digits of a very negative x.

    onnxruntime's Sigmoid has an error of 1e-8, whatever the result is.
    """
    slope = torch.tanh(functional.softplus(x))
    sigmoid = torch.exp(x.clamp(max=0)) / (1 + torch.exp(-x.abs()))
    return gradient * (slope + x * sigmoid * (1 - slope * slope))


def _floating(x: Tensor) -> Tensor:
    return x if x.is_floating_point() else x.to(torch.get_default_dtype())
