# SPDX-License-Identifier: Apache-2.0

"""Elementary functions whose translation by torch's exporter loses the digits of small results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add, mul
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


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
    right = t * torch.exp(_polynomial(_OF_ERFCX[::-1], t))
    return torch.where(x < 0, 2 * torch.exp(x * x) - right, right)


_OF_ERFINV = (
    (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
     0.246640727, 1.50140941),
    (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
     1.00167406, 2.83297682),
)  # fmt: skip
"""The polynomials of M. Giles, Approximating the erfinv function (2010), for w below 5 and from there on."""


def erfinv(x: Tensor) -> Tensor:
    """Return the number whose erf is x, to some roundings of float32, by w = −ln(1 − x²)."""
    x = _floating(x)
    w = -((1 - x) * (1 + x)).log()
    near, far = _OF_ERFINV
    found = torch.where(w < 5, _polynomial(near, w - 2.5), _polynomial(far, w.sqrt() - 3))
    return torch.where(x.abs() == 1, x * torch.inf, found * x)


def _polynomial(coefficients: Sequence[float], x: Tensor) -> Tensor:
    """Return the polynomial in x with these coefficients, that of the highest power first."""
    total = torch.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


def copysign(x: Tensor, sign: Tensor) -> Tensor:
    """Return x with the sign of another number; that of a zero is the sign of its reciprocal."""
    size = _floating(x).abs()
    return torch.where((sign < 0) | ((sign == 0) & (1 / sign < 0)), -size, size)


def lgamma(x: Tensor) -> Tensor:
    """Return ln |Γ(x)|, to some roundings of float32 of the largest term.

    Formulas 5.4.2 to 5.5.3, 5.11.1 and 5.15.9 of https://dlmf.nist.gov/5, where a small x is moved 4 to the right.
    """
    x, right, large, series = _for_gamma(x, (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188), 1)
    product = reduce(mul, (right + number for number in range(_SHIFT)))
    found = (large - 0.5) * large.log() - large + math.log(2 * math.pi) / 2 + series
    found = found - torch.where(right < _SHIFT, product, 1).log()
    return torch.where(x < 0, (math.pi / _angle(x).sin().abs()).log() - found, found)


def digamma(x: Tensor) -> Tensor:
    """Return the derivative of ln |Γ(x)|, in the same way."""
    x, right, large, series = _for_gamma(x, (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132), 2)
    total = reduce(add, (1 / (right + number) for number in range(_SHIFT)))
    found = large.log() - 0.5 / large + series - torch.where(right < _SHIFT, total, 0)
    return torch.where(x < 0, found - math.pi * _angle(x).cos() / _angle(x).sin(), found)


def polygamma(order: int, x: Tensor) -> Tensor:
    """Return the second derivative of ln |Γ(x)| for order 1, in the same way; else `NotImplemented`."""
    if order != 1:
        return digamma(x) if order == 0 else NotImplemented
    x, right, large, series = _for_gamma(x, (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66), 3)
    total = reduce(add, (1 / (right + number) ** 2 for number in range(_SHIFT)))
    found = 1 / large + 0.5 / large**2 + series + torch.where(right < _SHIFT, total, 0)
    return torch.where(x < 0, (math.pi / _angle(x).sin()) ** 2 - found, found)


def _for_gamma(x: Tensor, coefficients: Sequence[float], first: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return x, x or 1 − x that is not negative, a number of 4 or more, and the series of its odd or even powers."""
    x = _floating(x)
    right = torch.where(x < 0, 1 - x, x)
    large = torch.where(right < _SHIFT, right + _SHIFT, right)
    powers = (large ** -(first + 2 * number) for number in range(len(coefficients)))
    return x, right, large, reduce(add, map(mul, coefficients, powers))


def _angle(x: Tensor) -> Tensor:
    """Return π·x without halves of a turn, which tangents and the sizes of sines do not have."""
    return math.pi * (x - x.round())


_SHIFT = 4


def soft_margin_loss_backward(gradient: Tensor, x: Tensor, target: Tensor, reduction: int) -> Tensor:
    """Return the gradient of ln(1 + exp(−target · x)); as torch writes it, a small one is a difference from 1."""
    slope = -target * torch.sigmoid(-target * x) * gradient
    return slope / x.numel() if reduction == 1 else slope  # 1 is "mean"


def _floating(x: Tensor) -> Tensor:
    return x if x.is_floating_point() else x.to(torch.get_default_dtype())


ELEMENTARY: dict[Any, Callable[..., Tensor]] = {
    aten.copysign.Scalar: lambda x, sign: copysign(x, torch.full((), float(sign))),
    aten.copysign.Tensor: copysign,
    aten.digamma.default: digamma,
    aten.erfinv.default: erfinv,
    aten.expm1.default: expm1,
    aten.lgamma.default: lgamma,
    aten.log1p.default: log1p,
    aten.polygamma.default: polygamma,
    aten.soft_margin_loss_backward.default: soft_margin_loss_backward,
    aten.special_erfcx.default: erfcx,
    aten.tan.default: lambda x: x.sin() / x.cos(),  # onnxruntime's CANN provider has no Tan
}
