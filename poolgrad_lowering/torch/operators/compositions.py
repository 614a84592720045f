# SPDX-License-Identifier: Apache-2.0

"""Functions of torch whose gradients have no translation to ONNX or a wrong one, in operators that have a right one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import pairwise, product
from operator import add, and_, mul
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from poolgrad_lowering.torch.internals.tracing import GROUPED_MM
from poolgrad_lowering.torch.internals.trees import bound
from poolgrad_lowering.torch.operators.ctc import ctc_loss
from poolgrad_lowering.torch.operators.normalization import wide_type

aten = torch.ops.aten


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """Return the distances of all pairs of rows; that of equal rows has the gradient 0, as in PyTorch.

    That of order 0 is the number of elements that differ, and has the gradient 0. Of an infinite order, the gradient
    goes to each of the largest differences; of an order below 1, equal elements have the gradient 0.
    """
    if p < 0:
        return torch.cdist(x1, x2, p, compute_mode)  # which says that it takes none
    sizes = (x1[..., :, None, :] - x2[..., None, :, :]).abs()
    if p == 0:
        return sizes.sign().sum(-1)
    if p == 1:
        return sizes.sum(-1)
    if p == float("inf"):
        largest = sizes.detach().amax(-1, keepdim=True)
        return largest[..., 0] + torch.where(sizes == largest, sizes - sizes.detach(), 0).sum(-1)
    if p < 1:
        powers = torch.where(sizes == 0, 0, torch.where(sizes == 0, 1, sizes) ** p).sum(-1)
    else:
        powers = (sizes * sizes if p == 2 else sizes**p).sum(-1)
    is_zero = powers == 0
    roots = torch.where(is_zero, 1, powers) ** (1 / p) if p != 2 else torch.where(is_zero, 1, powers).sqrt()
    return torch.where(is_zero, 0, roots)


def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """Return the covariances of rows; torch's own asks whether sums of weights are positive, which no graph can."""
    if fweights is not None or aweights is not None:
        return torch.cov(input, correction=correction, fweights=fweights, aweights=aweights)  # refused by its name
    rows = input.reshape(1, -1) if input.ndim < 2 else input
    centred = rows - rows.mean(1, keepdim=True)
    return (centred @ centred.T / (rows.shape[1] - correction)).squeeze()


def corrcoef(input: Tensor) -> Tensor:
    """Return the correlations of rows."""
    found = cov(input)
    if not found.ndim:
        return found / found
    deviations = found.diagonal().sqrt()
    return (found / deviations[:, None] / deviations).clamp(-1, 1)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """Return the distances of all pairs of different rows."""
    first, second = torch.triu_indices(len(input), len(input), 1)
    return cdist(input, input, p)[first, second]


def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Return the elements of images (N, C, axes) at the positions of a grid (N, …), from −1 to 1, the last axis first.

    Between elements, they are interpolated along each axis: between two, or by a cubic function of four.
    """
    sizes = input.shape[2:]
    is_cubic = mode == "bicubic" and len(sizes) == 2
    if mode not in ("bilinear", "nearest") and not is_cubic:
        return functional.grid_sample(input, grid, mode, padding_mode, align_corners)  # which says that it takes none

    def inside(at: Tensor, size: Any) -> Tensor:
        if padding_mode == "reflection":
            at = _reflected(at, 0 if align_corners else -0.5, size - 1 if align_corners else size)
        return at if padding_mode == "zeros" else at.clamp(0, size - 1)

    pairs = zip(sizes, reversed(grid.unbind(-1)), strict=True)
    positions = [(at + 1) / 2 * (size - 1) if align_corners else ((at + 1) * size - 1) / 2 for size, at in pairs]
    if not is_cubic:
        positions = list(map(inside, positions, sizes))
    if mode == "nearest":
        return _elements(input, [at.round() for at in positions])
    total, firsts = torch.zeros(()), [at.floor().detach() for at in positions]
    for corner in product(range(-1, 3) if is_cubic else (0, 1), repeat=len(positions)):
        places = [low + tap for low, tap in zip(firsts, corner, strict=True)]
        parts = (_share(*each, is_cubic) for each in zip(positions, places, corner, strict=True))
        found = _elements(input, list(map(inside, places, sizes)) if is_cubic else places)
        total = total + found * reduce(mul, parts)[:, None]
    return total


def _share(at: Tensor, place: Tensor, tap: int, is_cubic: bool) -> Tensor:
    """Return the share in what lies at a position of the element at a place, so many places from that before it."""
    distance = place - at if tap > 0 else at - place
    if not is_cubic:
        return 1 - distance
    if tap in (0, 1):
        return (1.25 * distance - 2.25) * distance * distance + 1
    return -0.75 * (((distance - 5) * distance + 8) * distance - 4)


def affine_grid(theta: Tensor, size: Sequence[Any], align_corners: bool | None = None) -> Tensor:
    """Return the positions in images of a size (N, C, axes), the last axis first, that matrices (N, …, …) map.

    torch's own makes numbers of symbolic sizes, the batch among them.
    """
    if all(isinstance(count, int) for count in size):
        return functional.affine_grid(theta, size, align_corners)
    spatial, rest = size[2:], [1] * (len(size) - 2)
    positions = []
    for axis, count in enumerate(spatial):
        at = torch.arange(count, dtype=theta.dtype)
        if not align_corners:
            at = (2 * at + 1) / count - 1
        elif not isinstance(count, int) or count > 1:
            at = at * (2 / (count - 1)) - 1
        positions.append(at.reshape([-1, *rest[axis + 1 :]]))
    found = []
    for row in theta.unbind(1):
        *factors, offset = (each.reshape(-1, *rest) for each in row.unbind(1))
        found.append(reduce(add, map(mul, factors, reversed(positions))) + offset)
    return torch.stack(found, -1)


def _reflected(position: Tensor, low: float, span: int) -> Tensor:
    """Return positions from `low` to `low + span`, at both of which those outside are reflected."""
    if not span:
        return torch.zeros_like(position)
    size = torch.where(position < low, low - position, position - low)
    turns = (size / span).floor().detach()
    rest = size - turns * span
    return torch.where((turns / 2).floor() * 2 == turns, rest, span - rest) + low


def _elements(images: Tensor, places: Sequence[Tensor]) -> Tensor:
    """Return the elements at whole positions along the axes, 0 outside of the images."""
    sizes = images.shape[2:]
    is_inside = reduce(and_, ((at >= 0) & (at < size) for at, size in zip(places, sizes, strict=True)))
    place = torch.zeros((), dtype=torch.int64)
    for at, size in zip(places, sizes, strict=True):
        place = place * size + at.clamp(0, size - 1).long()
    flat = place.flatten(1)[:, None].expand(-1, images.shape[1], -1)
    found = images.flatten(2).gather(2, flat).unflatten(2, place.shape[1:])
    return torch.where(is_inside[:, None], found, 0)


def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Return x with each part along an axis scaled to a norm of at most `maxnorm`; torch's gradient is in float64."""
    axes = [axis for axis in range(input.ndim) if axis != dim % input.ndim]
    norms = torch.linalg.vector_norm(input.to(wide_type(input)), p, axes, keepdim=True)
    return input * torch.where(norms > maxnorm, maxnorm / (norms + 1e-7), 1).to(input.dtype)


def householder_product(input: Tensor, tau: Tensor) -> Tensor:
    """Return the first columns of the product of reflections 1 − τ·v·vᵀ, each with v below the diagonal of a column."""
    vectors = input.tril(-1) + torch.eye(*input.shape[-2:])
    found = torch.eye(*input.shape[-2:]).expand(input.shape)
    for number in reversed(range(tau.shape[-1])):
        vector = vectors[..., number : number + 1]
        found = found - tau[..., number, None, None] * vector @ (vector.mT @ found)
    return found


def solve_triangular(
    A: Tensor,  # noqa: N803 - the name in torch
    B: Tensor,  # noqa: N803
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Tensor:
    """Return the X of A·X = B, row by row, for a triangular A; of X·A = B if it is not `left`."""
    if not left:
        return solve_triangular(A.mT, B.mT, upper=not upper, unitriangular=unitriangular).mT
    wanted = B.expand(*torch.broadcast_shapes(A.shape[:-2], B.shape[:-2]), *B.shape[-2:])
    found = wanted[..., :0, :]
    for number in reversed(range(A.shape[-1])) if upper else range(A.shape[-1]):
        factors = A[..., number : number + 1, number + 1 :] if upper else A[..., number : number + 1, :number]
        row = wanted[..., number : number + 1, :]
        row = row - factors @ found if found.shape[-2] else row
        row = row if unitriangular else row / A[..., number : number + 1, number : number + 1]
        found = torch.cat([row, found] if upper else [found, row], -2)
    return found


def cholesky(input: Tensor, *, upper: bool = False) -> Tensor:
    """Return the triangular L of L·Lᵀ, column by column. The gradient of the matrix is symmetric, as in PyTorch."""
    matrix = (input + input.mT) / 2
    found, size = matrix[..., :0], matrix.shape[-1]
    for number in range(size):
        rest = matrix[..., number:, number : number + 1]
        rest = rest - found[..., number:, :] @ found[..., number : number + 1, :].mT if number else rest
        column = functional.pad(rest / rest[..., :1, :].sqrt(), (0, 0, number, 0))
        found = torch.cat([found, column], -1)
    return found.mT if upper else found


def embedding_bag(*arguments: Any, **named: Any) -> Tensor:
    """Return the sum, the mean or the maximum of the rows in each bag: a row of indices, or what begins at an offset.

    That of no rows is 0.
    """
    given = bound(functional.embedding_bag, arguments, named)
    words, weight, offsets, max_norm, _, is_scaled, mode, _, factors, include_last_offset, padding_idx = given
    if max_norm is not None or is_scaled:
        return functional.embedding_bag(*arguments, **named)  # refused by its name
    factors = torch.ones(words.shape, dtype=weight.dtype) if factors is None else factors
    if padding_idx is not None:
        factors = torch.where(words == padding_idx % len(weight), 0, factors)
    rows = functional.embedding(words, weight)
    if offsets is not None:
        begins = offsets[:-1] if include_last_offset else offsets
        number = (torch.arange(len(words))[:, None] >= begins).sum(1) - 1
        factors = torch.where(torch.arange(len(begins))[:, None] == number, factors, 0)  # of each bag for all rows
    if mode == "max":
        largest = torch.where(factors[..., None] != 0, rows, -torch.inf).max(1).values
        return torch.where((factors != 0).any(1, keepdim=True), largest, 0)
    total = factors @ rows if offsets is not None else (rows * factors[..., None]).sum(1)
    return total if mode == "sum" else total / factors.sum(1, keepdim=True).clamp(min=1)


def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Return the reduction of x with the parts of a source along an axis, each into the part that an index says."""
    shape = [-1 if at == dim % input.ndim else 1 for at in range(input.ndim)]
    places = index.long().reshape(shape).expand(source.shape)
    return input.scatter_reduce(dim, places, source, reduce, include_self=include_self)


def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """Return the margin of each class over each label before the first -1; torch's formula also counts what is behind.

    https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiLabelMarginLoss.html
    """
    if size_average is not None or reduce is not None:
        reduction = functional._Reduction.legacy_get_string(size_average, reduce)  # noqa: SLF001
    input, target = torch.atleast_1d(input, target)  # noqa: A001 - the name in torch
    classes = input.shape[-1]
    is_label = (target != -1).long().cumprod(-1).bool()[..., None]
    labels = torch.where(is_label, target[..., None], 0)
    is_labelled = ((labels == torch.arange(classes)) & is_label).any(-2, keepdim=True)
    margins = functional.relu(1 - input.gather(-1, labels[..., 0])[..., None] + input[..., None, :])
    loss = torch.where(is_label & ~is_labelled, margins, 0).sum((-2, -1)) / classes
    return {"mean": loss.mean, "sum": loss.sum}.get(reduction, lambda: loss)()


def grouped_mm(
    x: Tensor, weight: Tensor, offs: Tensor | None = None, bias: Any = None, out_dtype: Any = None
) -> Tensor:
    """Return the rows of x times a matrix for each group of rows, (groups, K, N); `offs` are the ends of the groups.

    Each matrix is multiplied with all rows, of which those of other groups are zeros. Other shapes and options are left
    to torch.
    """
    if offs is None or (x.ndim, weight.ndim) != (2, 3) or bias is not None or out_dtype is not None:
        return GROUPED_MM(x, weight, offs, bias, out_dtype)
    rows, starts = torch.arange(x.shape[0])[:, None], torch.cat([torch.zeros_like(offs[:1]), offs[:-1]])
    owns = [(rows >= start) & (rows < end) for start, end in zip(starts.unbind(), offs.unbind(), strict=True)]
    return sum(
        (torch.where(own, x, 0) @ each for own, each in zip(owns, weight.unbind(), strict=True)), torch.zeros(())
    )


def _grouped_mm(x: Tensor, weight: Tensor, offs: Tensor, *_: Any) -> Tensor:
    """Return the same of numbers; of two matrices the products of their groups of columns and rows."""
    groups = [slice(start, end) for start, end in pairwise([0, *offs.tolist()])]
    if weight.ndim == x.ndim:
        return torch.stack([x[:, group] @ weight[group] for group in groups])
    return torch.cat([x[group] @ each for group, each in zip(groups, weight.unbind(), strict=True)])


GROUPED = {aten._grouped_mm.default: _grouped_mm}  # noqa: SLF001 - the name of an operator
"""An operator that PyTorch has not in float64, in others."""

COMPOSITIONS: dict[Any, Callable[..., Tensor]] = {
    GROUPED_MM: grouped_mm,
    torch.cdist: cdist,
    functional.ctc_loss: ctc_loss,
    functional.embedding_bag: embedding_bag,
    functional.embedding: lambda *arguments, **named: functional.embedding(
        *arguments[:6], **{**named, "sparse": False}
    ),
    functional.affine_grid: affine_grid,
    functional.grid_sample: grid_sample,
    torch.linalg.householder_product: householder_product,
    torch.linalg.solve_triangular: solve_triangular,
    torch.linalg.cholesky: cholesky,
    **dict.fromkeys((torch.renorm, Tensor.renorm), renorm),
    Tensor.renorm_: lambda x, *arguments, **named: x.copy_(renorm(x.clone(), *arguments, **named)),
    **dict.fromkeys((torch.cov, Tensor.cov), cov),
    **dict.fromkeys((torch.corrcoef, Tensor.corrcoef), corrcoef),
    torch.pdist: pdist,
    **dict.fromkeys((torch.index_reduce, Tensor.index_reduce), index_reduce),
    Tensor.index_reduce_: lambda x, *arguments, **named: x.copy_(index_reduce(x.clone(), *arguments, **named)),
    functional.multilabel_margin_loss: multilabel_margin_loss,
}
"""The functions by those of torch that they compute."""
