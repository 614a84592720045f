# SPDX-License-Identifier: Apache-2.0

"""Bounds, extremes, norms and products, in operators that torch's ONNX exporter can translate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from operator import mul
from typing import Any

import torch
from torch import Tensor

from poolgrad_lowering.torch.internals.tracing import unknown_sizes
from poolgrad_lowering.torch.operators.normalization import wide_type

aten = torch.ops.aten

Number = int | float


def in_place(write: Callable[..., Tensor], x: Tensor, *others: Any, **named: Any) -> Tensor:
    """Change x to what a function returns of it, and return it."""
    found = write(x, *others, **named)
    return NotImplemented if found is NotImplemented else x.copy_(found)


def clamp(x: Tensor, lower: Number | None = None, upper: Number | None = None) -> Tensor:
    """Return x between numbers, all of one type: torch's exporter looks in vain for an operator of an int and a float.

    Returns `NotImplemented` if they are, or if one is a symbolic size.
    """
    bounds = [bound for bound in (lower, upper) if bound is not None]
    if any(isinstance(bound, torch.SymInt) for bound in bounds):
        return NotImplemented
    dtype = x.dtype
    for bound in bounds:
        dtype = torch.result_type(torch.empty(0, dtype=dtype), bound)
    kind: Any = float if dtype.is_floating_point else int
    if x.dtype == dtype and all(isinstance(bound, kind) for bound in bounds):
        return NotImplemented
    lower, upper = (None if bound is None else kind(bound) for bound in (lower, upper))
    return aten.clamp(x.to(dtype), lower, upper)


def cumprod(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    """Return the product of each element and those before it along an axis, in ⌈log₂ n⌉ products of n elements.

    Each of these doubles the elements that a product is of. Returns `NotImplemented` for a symbolic size.
    """
    if dtype is None:
        dtype = x.dtype if x.is_floating_point() else torch.int64
    products = x.to(dtype)
    if x.ndim == 0:
        return products
    size, behind = x.shape[dim], x.ndim - 1 - dim % x.ndim
    if not isinstance(size, int):
        return NotImplemented
    shift = 1
    while shift < size:
        earlier = aten.slice(products, dim, 0, size - shift)
        products = products * aten.constant_pad_nd(earlier, [*[0] * (2 * behind), shift, 0], 1)
        shift *= 2
    return products


def kth_value(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Return the k-th smallest value along an axis, and its position."""
    found = aten.topk(x, k, dim, False)
    values, positions = (aten.slice(each, dim, k - 1, k) for each in found)
    return (values, positions) if keepdim else (values.squeeze(dim), positions.squeeze(dim))


def median(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Return the lower one of the values in the middle along an axis, or the first NaN, and its position."""
    values, positions = kth_value(x, (x.shape[dim] + 1) // 2, dim, keepdim)
    if not x.is_floating_point():
        return values, positions
    is_nan = x.isnan()
    has_nan = is_nan.any(dim, keepdim)
    first = is_nan.to(torch.int32).argmax(dim, keepdim)
    return torch.where(has_nan, torch.nan, values), torch.where(has_nan, first, positions)


def nanmedian(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Return the lower one of the values in the middle along an axis among those that are no NaN, and its position."""
    if not x.is_floating_point():
        return median(x, dim, keepdim)
    is_nan = x.ne(x)
    values, positions = aten.topk(torch.where(is_nan, torch.inf, x), x.shape[dim], dim, False)
    count = (~is_nan).to(torch.int64).sum(dim, keepdim=True)
    middle = ((count - 1) // 2).clamp(min=0)
    value, position = torch.where(count > 0, values.gather(dim, middle), torch.nan), positions.gather(dim, middle)
    return (value, position) if keepdim else (value.squeeze(dim), position.squeeze(dim))


def running(is_beyond: Callable[[Tensor, Tensor], Tensor], x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return the extreme of each element and those before it along an axis, and its position.

    It is the last one that no earlier one `is_beyond`, or the last NaN. Each of the ⌈log₂ n⌉ steps doubles the elements
    it is found of. Returns `NotImplemented` for a symbolic size.
    """
    if x.ndim == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    size, axis = x.shape[dim], dim % x.ndim
    if not isinstance(size, int):
        return NotImplemented
    positions = torch.arange(size).reshape(-1, *[1] * (x.ndim - 1 - axis)).expand(x.shape)
    values, shift = x, 1
    while shift < size:
        earlier, places = (
            torch.cat([each.narrow(axis, 0, shift), each.narrow(axis, 0, size - shift)], axis)
            for each in (values, positions)
        )
        is_earlier = is_beyond(earlier, values)
        if x.is_floating_point():
            is_earlier = (is_earlier | earlier.isnan()) & ~values.isnan()
        values, positions = torch.where(is_earlier, earlier, values), torch.where(is_earlier, places, positions)
        shift *= 2
    return values, positions.contiguous()


def of_numbers(operator: Any, x: Tensor, dim: int = -1, option: bool = False) -> tuple[Tensor, Tensor]:
    """Return the extreme of truth values along an axis, or their order, with positions: ONNX has those of numbers.

    Returns `NotImplemented` for other types.
    """
    if x.dtype != torch.bool:
        return NotImplemented
    values, positions = operator(x.to(torch.int32), dim, option)
    return values.to(torch.bool), positions


def number_first(operator: Any, x: Tensor | Number, y: Tensor, *others: Any, **named: Any) -> Tensor:
    """Return what an operator gives of a number and a tensor, of tensors of one type: torch's exporter takes no others.

    Returns `NotImplemented` if x is a tensor.
    """
    if not isinstance(x, Number):
        return NotImplemented
    dtype = torch.result_type(y, x)
    found: Tensor = operator(torch.full((), x, dtype=dtype), y.to(dtype), *others, **named)
    return found


def added(x: Any, y: Any, *others: Any, **named: Any) -> Tensor:
    """Return the sum of truth values, whether one is true, which ONNX has not; and that of a number and a tensor."""
    if all(isinstance(each, Tensor) and each.dtype == torch.bool for each in (x, y)):
        return x | y
    return number_first(aten.add.Tensor, x, y, *others, **named)


def trilinear(
    one: Tensor,
    two: Tensor,
    three: Tensor,
    expand_one: Sequence[int],
    expand_two: Sequence[int],
    expand_three: Sequence[int],
    summed: Sequence[int],
    unroll_dim: int = 1,  # noqa: ARG001 - the axis along which torch computes it in parts
) -> Tensor:
    """Return the product of three tensors, each with further axes of size 1, summed over axes."""
    given = (one, expand_one), (two, expand_two), (three, expand_three)
    product = reduce(mul, (reduce(Tensor.unsqueeze, axes, factor) for factor, axes in given))
    return product.sum(list(summed)) if summed else product


def logsumexp(x: Tensor, dim: Sequence[int], keepdim: bool = False) -> Tensor:
    """Return ln Σ exp(x) along axes, of as many elements as numbers decide: torch asks first whether there are any.

    Returns `NotImplemented` for other sizes.
    """
    if not unknown_sizes(x):
        return NotImplemented
    largest = x.amax(dim, keepdim=True)
    largest = torch.where(largest.abs() == torch.inf, 0, largest)
    found = (x - largest).exp().sum(dim, keepdim=True).log() + largest
    return found if keepdim else found.squeeze(dim)


def vector_norm(
    x: Tensor,
    order: Number = 2,
    dim: list[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return the norm of order 1 as a sum, which GE has at every opset, and that of 16 bits computed in float32.

    Axes that stay are named: torch's translation loses them if they are all. Returns `NotImplemented` for others.
    """
    wide = wide_type(x) if dtype is None else dtype
    if order == 1:
        sizes = x.to(wide).abs()
        return sizes.sum(dim or list(range(x.ndim)), keepdim).to(dtype or x.dtype)
    is_wide = wide == x.dtype or dtype is not None
    if is_wide and (dim or not keepdim):
        return NotImplemented
    axes = dim or list(range(x.ndim)) if keepdim else dim
    norm: Tensor = aten.linalg_vector_norm(x if is_wide else x.to(wide), order, axes, keepdim, dtype=dtype)
    return norm if is_wide else norm.to(x.dtype)


def power(x: Tensor, exponent: Tensor) -> Tensor:
    """Return a power of operands of two types, computed in that of the result: ONNX's has the type of x.

    Returns `NotImplemented` for operands of one type.
    """
    if x.dtype == exponent.dtype:
        return NotImplemented
    dtype = torch.result_type(x, exponent)
    return torch.pow(x.to(dtype), exponent.to(dtype))


def choice(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Return one of two truth values by logic: onnxruntime has no Where of them.

    Returns `NotImplemented` for other types.
    """
    return (condition & x) | (~condition & y) if x.dtype == y.dtype == torch.bool else NotImplemented


ELEMENTWISE: dict[Any, Callable[..., Any]] = {
    aten._trilinear.default: trilinear,  # noqa: SLF001 - the name of an operator
    aten.add.Tensor: added,
    aten.clamp.default: clamp,
    aten.cummax.default: partial(running, torch.gt),
    aten.cummin.default: partial(running, torch.lt),
    aten.cumprod.default: cumprod,
    aten.fmax.default: lambda x, y: torch.where((x >= y) | y.isnan(), x, y),
    aten.fmin.default: lambda x, y: torch.where((x <= y) | y.isnan(), x, y),
    aten.hypot.default: lambda x, y: (x * x + y * y).sqrt(),
    aten.kthvalue.default: kth_value,
    aten.linalg_vector_norm.default: vector_norm,
    aten.logsumexp.default: logsumexp,
    aten.max.dim: partial(of_numbers, aten.max.dim),
    aten.median.default: lambda x: median(x.flatten())[0],
    aten.median.dim: median,
    aten.min.dim: partial(of_numbers, aten.min.dim),
    aten.nanmedian.default: lambda x: nanmedian(x.flatten())[0],
    aten.nanmedian.dim: nanmedian,
    aten.pow.Tensor_Tensor: power,
    aten.sort.default: partial(of_numbers, aten.sort.default),
    aten.where.self: choice,
    aten.xlogy.Scalar_Self: partial(number_first, aten.xlogy.Tensor),
    **{
        operator: partial(number_first, operator)
        for operator in (aten.div.Tensor_mode, aten.mul.Tensor, aten.sub.Tensor)
    },
}
