# SPDX-License-Identifier: Apache-2.0

"""Values that are put at indices, at masks and on diagonals, in operators that torch's ONNX exporter can translate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from poolgrad_lowering.torch.errors import TorchExportError
from poolgrad_lowering.torch.internals.recorded import of_constants
from poolgrad_lowering.torch.internals.tracing import is_known, unknown_sizes
from poolgrad_lowering.torch.operators.normalization import wide_type
from poolgrad_lowering.torch.symbolic.sizes_of_tensors import positions_along

aten = torch.ops.aten

_MOST_PARTS = 16
"""The positions that are known one by one."""

Indices = Sequence[Tensor | None]
"""What each axis of a tensor is indexed by, None for all of it. A mask is for as many axes as it has."""


def index_put(x: Tensor, indices: Indices, values: Tensor, accumulate: bool = False) -> Tensor:
    """Return x with values at indices, or with values added to them.

    Returns `NotImplemented` where torch's translation is right: if values replace those of x at positions whose number
    is known. Raises `TorchExportError` for values of another type than x has, which PyTorch itself refuses at run time.
    """
    if values.dtype != x.dtype:
        raise TorchExportError(
            f"values of {values.dtype} are put into a tensor of {x.dtype}: convert them in the model by "
            "`values.to(x.dtype)`"
        )
    if any(index.dtype in (torch.bool, torch.uint8) for index in indices if index is not None):
        return _masked_put(x, indices, values, accumulate=accumulate)
    is_unknown = any(index is not None and unknown_sizes(index) for index in indices)
    return _put_at(x, indices, values, accumulate=accumulate) if accumulate or is_unknown else NotImplemented


def index(x: Tensor, indices: Indices) -> Tensor:
    """Return the elements at positions whose number a mask decides, as those at positions along one axis.

    Those at a symbolic number of positions along one axis too. Returns `NotImplemented` for others: torch's translation
    expands positions to the shape that they have together.
    """
    found = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    (first, one), (last, _) = found[0], found[-1]
    if len(found) == 1 and one.ndim == 1:
        if one.dtype == torch.bool:
            return aten.index_select(x, first, one.nonzero().squeeze(1))
        if not isinstance(one.shape[0], int):
            return aten.index_select(x, first, one)
    is_unknown = any(unknown_sizes(index) and index.dtype != torch.bool for _, index in found)
    if not is_unknown or last - first + 1 > len(found):
        return NotImplemented
    positions = one if last == first else _joined(x.shape[first : last + 1], [index for _, index in found])
    rows = aten.index_select(x.flatten(first, last) if last > first else x, first, positions.flatten())
    return rows.reshape(*x.shape[:first], *positions.shape, *x.shape[last + 1 :]) if positions.ndim != 1 else rows


def _put_at(x: Tensor, indices: Indices, values: Tensor, *, accumulate: bool) -> Tensor:
    """Return x with values added or put at positions, as a ScatterElements: compilers may lose ScatterND's reduction.

    Of a ScatterND that puts values, torch computes a shape.
    """
    found = [index for index in indices if index is not None]
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    others = [axis for axis in range(x.ndim) if axis not in axes]
    sizes, rest = [x.shape[axis] for axis in axes], [x.shape[axis] for axis in others]
    if accumulate and sum(not isinstance(size, int) for size in rest) > 1 and (known := _known_positions(sizes, found)):
        return _added_in_runs(x, axes[0], known, values.expand([*rest[: axes[0]], len(known), *rest[axes[0] :]]))
    positions = _joined(sizes, found)
    if any(isinstance(size, int) and size == 0 for size in positions.shape):
        return x.clone()  # an empty list of positions
    count = positions.ndim
    first = axes[0] if axes == list(range(axes[0], axes[-1] + 1)) else 0  # where indexing puts the axes of the indices
    added = values.expand([*rest[:first], *positions.shape, *rest[first:]]).movedim(
        list(range(first, first + count)), list(range(count))
    )
    rows = positions.reshape(-1, 1)
    flat = x.permute(*axes, *others).reshape(math.prod(sizes), math.prod(rest))
    added = added.reshape(-1, math.prod(rest))
    if x.is_floating_point():
        flat, added = flat.to(wide_type(x)), added.to(wide_type(x))
    write = Tensor.scatter_add if accumulate else Tensor.scatter
    written = write(flat, 0, rows.expand(-1, added.shape[1]), added).to(x.dtype).reshape(*sizes, *rest)
    order = [*axes, *others]
    return written.permute([order.index(axis) for axis in range(x.ndim)])


def _joined(sizes: Sequence[Any], indices: Sequence[Tensor]) -> Tensor:
    """Return the positions along one axis that joins axes, of positions along each of them."""
    positions: Any = 0
    for size, index in zip(sizes, indices, strict=True):
        positions = positions * size + torch.where(index < 0, index + size, index)
    return positions


def _known_positions(sizes: Sequence[Any], indices: Sequence[Tensor]) -> list[int]:
    """Return the positions along a single axis that constants decide; none if there are no such, or many."""
    if len(sizes) > 1 or not isinstance(sizes[0], int) or indices[0].ndim != 1 or len(indices[0]) > _MOST_PARTS:
        return []
    known = of_constants(Tensor.tolist, indices[0])
    return [] if known is NotImplemented else [position % sizes[0] for position in known]


def _added_in_runs(x: Tensor, axis: int, positions: Sequence[int], values: Tensor) -> Tensor:
    """Return x with values added at positions along an axis: each run of consecutive ones with zeros around it.

    Joined axes of several symbolic sizes would have a size that CANN cannot compute.
    """
    first = 0
    for end in range(1, len(positions) + 1):
        if end < len(positions) and positions[end] == positions[end - 1] + 1:
            continue
        around = positions[first], x.shape[axis] - positions[end - 1] - 1
        run = aten.slice(values, axis, first, end)
        x = x + aten.constant_pad_nd(run, [0, 0] * (x.ndim - axis - 1) + [*around])
        first = end
    return x


def _masked_put(x: Tensor, indices: Indices, values: Tensor, *, accumulate: bool) -> Tensor:
    """Return x with values where a mask is true. The n-th of the values is for the n-th of these places.

    Returns `NotImplemented` for a mask beside other indices.
    """
    first, mask = next((axis, index) for axis, index in enumerate(indices) if index is not None)
    if any(index is not None for index in indices[first + 1 :]):
        return NotImplemented
    mask = mask.to(torch.bool)
    where = mask.reshape(*mask.shape, *[1] * (x.ndim - first - mask.ndim))
    rest = x.ndim - first - mask.ndim  # the axes behind those of the mask, in x and in the values
    if values.ndim > rest and not is_known(values.shape[-rest - 1] == 1):
        values = _spread(values, mask, values.ndim - rest - 1)
    elif values.ndim > rest:
        values = values.reshape(*values.shape[: -rest - 1], *[1] * mask.ndim, *values.shape[values.ndim - rest :])
    return torch.where(where, x + values if accumulate else values, x)


def _spread(values: Tensor, mask: Tensor, axis: int) -> Tensor:
    """Return a tensor with the axes of the mask in the place of an axis: where it is true, the next of the values.

    Where it is false are other numbers: 0 before the first value.
    """
    chosen, before = mask.to(torch.int64), list(values.shape)
    before[axis] = 1
    numbered = torch.cat([values.new_zeros(before), values], axis)
    if sum(not isinstance(size, int) for size in mask.shape) > 1:  # joined, a graph could not part them
        return aten.index(numbered, [*[None] * axis, _running(chosen)])
    spread: Tensor = aten.index_select(numbered, axis, chosen.flatten().cumsum(0))  # 0: none yet
    return spread.reshape(*values.shape[:axis], *mask.shape, *values.shape[axis + 1 :])


def _running(x: Tensor) -> Tensor:
    """Return for each element the sum of all up to it, whose axes stay apart."""
    along = x.cumsum(-1)
    if x.ndim == 1:
        return along
    rows = along.select(-1, -1)
    return along + (_running(rows) - rows).unsqueeze(-1)


def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """Return the elements of x where the mask is true, both expanded to their common shape."""
    x, mask = torch.broadcast_tensors(x, mask)
    return aten.index(x, [mask])


def masked_scatter_backward(gradient: Tensor, mask: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the gradient of the values that were put where a mask is true: the n-th is that of the n-th place.

    One more value, which is left out, takes the others: there may be no place at all.
    """
    mask = mask.expand(gradient.shape).flatten()
    number = torch.where(mask, mask.to(torch.int64).cumsum(0), 0)
    zeros = torch.cat([gradient.new_zeros(1), gradient.new_zeros(math.prod(sizes))])
    return aten.slice(zeros.scatter_add(0, number, gradient.flatten()), 0, 1).reshape(sizes)


def embedding_renorm(weight: Tensor, index: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scale the rows that an index has to a norm of at most `max_norm`, in place; torch sorts equal indices out."""
    norms = torch.linalg.vector_norm(weight, norm_type, 1, keepdim=True)
    occurs = torch.zeros_like(norms[:, 0]).scatter(0, index.flatten(), 1)[:, None] > 0
    scaled = weight * (max_norm / (norms + 1e-7))
    return weight.copy_(torch.where(occurs & (norms > max_norm), scaled, weight))


def put(x: Tensor, index: Tensor, values: Tensor, accumulate: bool = False) -> Tensor:
    """Return x with values put at positions in its elements, or added to them."""
    places = index.flatten()
    places = torch.where(places < 0, places + x.numel(), places)
    write = Tensor.scatter_add if accumulate else Tensor.scatter
    return write(x.flatten(), 0, places, values.flatten()).reshape(x.shape)


def searchsorted(
    ordered: Tensor,
    x: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Return for each number how many of the `ordered` ones in its row are smaller, or on the right side not larger."""
    ordered = ordered if sorter is None else ordered.gather(-1, sorter)
    ordered, x = (ordered if ordered.ndim == 1 else ordered[..., None, :]), x[..., None]
    is_behind = ordered > x if right or side == "right" else ordered >= x
    return (~is_behind).sum(-1, dtype=torch.int32 if out_int32 else torch.int64)


def repeated_positions(repeats: Tensor, *, output_size: int | None = None) -> Tensor:
    """Return each position as often as `repeats` says, `output_size` positions in all.

    torch's translation knows no such size. Returns `NotImplemented` without one.
    """
    if output_size is None:
        return NotImplemented
    return searchsorted(repeats.cumsum(0), torch.arange(output_size), right=True)


def diagonal_scatter(x: Tensor, values: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Return x with values in place of `x.diagonal(offset, dim1, dim2)`, whose axis is their last one."""
    moved = x.movedim((dim1, dim2), (-2, -1))
    rows, columns = moved.shape[-2:]
    row, column = (torch.arange(size, device=x.device) for size in (rows, columns))
    above = max(-offset, 0)
    below = rows - above - values.shape[-1]
    is_whole = above == 0 and is_known(below == 0)
    by_row = values if is_whole else aten.constant_pad_nd(values, [above, below])
    found = torch.where(column == row[:, None] + offset, by_row[..., None], moved)
    return found.movedim((-2, -1), (dim1, dim2))


def diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Return the elements on a diagonal: every (columns + 1)-th of the joined axes, or the sums of a masked square.

    Returns `NotImplemented` for others of symbolic sizes. torch's translation multiplies with a mask of computed sizes.
    """
    moved = x.movedim((dim1, dim2), (-2, -1))
    rows, columns = moved.shape[-2:]
    if offset == 0 and not isinstance(rows, int) and is_known(rows == columns) and x.is_floating_point():
        is_on_it = positions_along(moved, moved.ndim - 1) == positions_along(moved, moved.ndim - 2)[:, None]
        return torch.where(is_on_it, moved, 0).sum(-2)
    if not (isinstance(rows, int) and isinstance(columns, int)):
        return NotImplemented
    count = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    first = max(offset, 0) - min(offset, 0) * columns
    joined = moved.reshape(*moved.shape[:-2], rows * columns)
    return aten.slice(joined, -1, first, first + (count - 1) * (columns + 1) + 1 if count else first, columns + 1)


OF_VIEWS: dict[Any, Callable[..., Tensor]] = {
    aten.diagonal.default: diagonal,
    aten.diagonal_scatter.default: diagonal_scatter,
}
"""Views of tensors and writes to them, which only a trace without writes has as operators."""

INDEXING: dict[Any, Callable[..., Tensor]] = {
    aten.diagonal_scatter.default: diagonal_scatter,
    aten.bucketize.Tensor: lambda x, boundaries, **options: searchsorted(boundaries, x, **options),
    aten.embedding_renorm_.default: embedding_renorm,
    aten.index.Tensor: index,
    aten.index_put.default: index_put,
    aten.masked_scatter_backward.default: masked_scatter_backward,
    aten.masked_select.default: masked_select,
    aten.put.default: put,
    aten.repeat_interleave.Tensor: repeated_positions,
    aten.searchsorted.Tensor: searchsorted,
}
