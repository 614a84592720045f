# SPDX-License-Identifier: Apache-2.0

"""Inverses and determinants of square matrices, and solutions with them, which ONNX has no operators for.

Rows are eliminated one column after the other, without gradients. With the X that this gives of A, and E = X·A − 1,
which is zero up to rounding, the inverse of A is (1 − E + E² − …)·X and ln |det A| is that of X less, plus
tr(E) − tr(E²) / 2 + …. These terms have the first and the second gradient of A.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def _eliminated(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the inverse of matrices, and of their determinants the sign and the logarithm of the absolute value."""
    size, shape = matrix.shape[-1], matrix.shape[:-2]
    numbers, unit = torch.arange(size), torch.eye(size, dtype=matrix.dtype).expand(matrix.shape)
    rows = torch.cat([matrix.detach(), unit], -1)
    sign, logarithm = torch.ones(shape, dtype=matrix.dtype), torch.zeros(shape, dtype=matrix.dtype)
    for at in range(size):
        largest = rows[..., at:, at].abs().argmax(-1, keepdim=True) + at
        order = torch.where(numbers == at, largest, torch.where(numbers == largest, at, numbers))
        rows = rows.gather(-2, order[..., None].expand(rows.shape))
        pivot = rows[..., at, at]
        sign = sign * pivot.sign() * torch.where(largest[..., 0] == at, 1, -1)
        logarithm = logarithm + pivot.abs().log()
        own = rows[..., at : at + 1, :] / torch.where(pivot == 0, 1, pivot)[..., None, None]
        rows = torch.where(numbers[:, None] == at, own, rows - rows[..., at : at + 1] * own)
    return rows[..., size:], sign, logarithm


def _rest(inverse: Tensor, matrix: Tensor) -> Tensor:
    """Return the E of X·A = 1 + E."""
    return inverse @ matrix - torch.eye(matrix.shape[-1], dtype=matrix.dtype)


def inv(A: Tensor) -> Tensor:  # noqa: N803 - the name in torch
    """Return the inverse of matrices, NaN for one that has none, of which PyTorch raises an error."""
    inverse, sign, _ = _eliminated(A)
    inverse = torch.where((sign == 0)[..., None, None], torch.nan, inverse)
    rest = _rest(inverse, A)
    return inverse - rest @ (inverse - rest @ inverse)


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:  # noqa: N803
    """Return the X of A·X = B, or of X·A = B if it is not `left`. B may be one column for each matrix."""
    if B.ndim == 1 or B.shape == A.shape[:-1]:
        return (inv(A) @ B[..., None])[..., 0]
    return inv(A) @ B if left else B @ inv(A)


def slogdet(A: Tensor) -> Any:  # noqa: N803
    """Return the sign of the determinant of matrices, and the logarithm of its absolute value."""
    inverse, sign, logarithm = _eliminated(A)
    rest = _rest(inverse, A)
    traces = rest.diagonal(0, -2, -1).sum(-1) - (rest * rest.mT).sum((-2, -1)) / 2
    return torch.return_types.linalg_slogdet((sign, logarithm + traces))


def det(A: Tensor) -> Tensor:  # noqa: N803
    """Return the determinant of matrices."""
    sign, logarithm = slogdet(A)
    return sign * logarithm.exp()


def logdet(input: Tensor) -> Tensor:
    """Return the logarithm of the determinant of matrices, NaN for one that is below 0."""
    sign, logarithm = slogdet(input)
    return torch.where(sign < 0, torch.nan, logarithm)


def cholesky_solve(input: Tensor, L: Tensor, upper: bool = False) -> Tensor:  # noqa: N803
    """Return the X of L·Lᵀ·X = B for a triangular L, or of Lᵀ·L·X = B for an upper one.

    In PyTorch elements on the other side of the diagonal have a gradient too.
    """
    lower = L.mT if upper else L
    inverse = inv(lower + (lower.tril() - lower).detach())
    return inverse.mT @ (inverse @ input)


INVERSES: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys((torch.linalg.inv, torch.inverse, Tensor.inverse), inv),
    torch.linalg.solve: solve,
    **dict.fromkeys((torch.linalg.slogdet, torch.slogdet, Tensor.slogdet), slogdet),
    **dict.fromkeys((torch.linalg.det, torch.det, Tensor.det), det),
    **dict.fromkeys((torch.logdet, Tensor.logdet), logdet),
    **dict.fromkeys((torch.cholesky_solve, Tensor.cholesky_solve), cholesky_solve),
}
"""The functions by those of torch that they compute."""
