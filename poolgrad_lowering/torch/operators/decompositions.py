# SPDX-License-Identifier: Apache-2.0

"""Operators that torch's ONNX exporter cannot translate, in operators that it can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from poolgrad_lowering.model.convolution_gradients import WeightGradient
from poolgrad_lowering.torch.errors import TorchExportError
from poolgrad_lowering.torch.explanations import running_place, untranslated
from poolgrad_lowering.torch.internals.tracing import OF_LISTS, decompositions_of, is_known, trace, unknown_sizes
from poolgrad_lowering.torch.operators.convolution import convolution, convolution_backward
from poolgrad_lowering.torch.operators.elementary import ELEMENTARY
from poolgrad_lowering.torch.operators.elementwise import ELEMENTWISE, in_place
from poolgrad_lowering.torch.operators.indexing import INDEXING
from poolgrad_lowering.torch.operators.normalization import NORMALIZATIONS, has_symbolic_planes
from poolgrad_lowering.torch.operators.padding import PADS
from poolgrad_lowering.torch.operators.pools import POOLS
from poolgrad_lowering.torch.operators.quantization import QUANTIZATIONS
from poolgrad_lowering.torch.operators.random_numbers import OF_RANDOM_NUMBERS
from poolgrad_lowering.torch.own_operators import to_depth, to_space

Decompositions = dict[Any, Callable[..., Any]]
"""Functions that compute operators, by the overload of the operator."""

aten = torch.ops.aten


def decompositions(weight_gradient: WeightGradient) -> Decompositions:
    """Return torch's decompositions for an export, and those of this module over them."""
    found = {
        **torch.export.default_decompositions(),
        **decompositions_of([aten.gelu]),  # ONNX has Gelu since opset 20
        aten.convolution.default: convolution,
        aten.convolution_backward.default: partial(convolution_backward, weight_gradient),
        **{operator: partial(_refuse, operator) for operator in _WITHOUT_TRANSLATION},
        **OF_LISTS,
        **OF_RANDOM_NUMBERS,
        **{changing: partial(in_place, write) for operator, write in _OWN.items() if (changing := _changing(operator))},
        **_OWN,
    }
    return found | {each: partial(_also_of_scalars, each, found.get(each)) for each in _ALONG_AN_AXIS}


def _changing(operator: Any) -> Any:
    """Return the operator that changes its first operand to what this one returns, or None."""
    _, name, overload = str(operator).split(".")
    return getattr(getattr(aten, f"{name}_", None), overload, None)


def _scatter_reduce(
    x: Tensor, axis: int, index: Tensor, values: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Return the mean of elements as sum and number, since ONNX has no such reduction; else `NotImplemented`.

    Elements of x that take no part are first replaced by one that no result depends on.
    """
    count = torch.ones_like(x)
    if not include_self and x.dtype != torch.bool:
        x, count = x.scatter(axis, index, _without_effect(reduce, x.dtype)), count.scatter(axis, index, 0)
    elif reduce != "mean":
        return _scatter(aten.scatter_reduce.two, x, axis, index, values, reduce, include_self=include_self)
    if reduce != "mean":
        return x.scatter_reduce(axis, index, values, reduce)
    total, count = x.scatter_add(axis, index, values), count.scatter_add(axis, index, torch.ones_like(values))
    return total / count if x.is_floating_point() else total // count


def _without_effect(reduce: str, dtype: torch.dtype) -> Any:
    """Return the element that a reduction of others does not depend on."""
    if reduce in ("amax", "amin") and not dtype.is_floating_point:
        return torch.iinfo(dtype).min if reduce == "amax" else torch.iinfo(dtype).max
    return {"amax": -torch.inf, "amin": torch.inf, "prod": 1}.get(reduce, 0)


def _scatter_of_numbers(x: Tensor, axis: int, index: Tensor, values: Any) -> Tensor:
    """Return the scatter of truth values, computed as numbers: CANN scatters no others."""
    if not isinstance(values, Tensor) and unknown_sizes(index):
        return _put_number(x, axis, index, values)
    if x.dtype != torch.bool:
        return _scatter(aten.scatter.src, x, axis, index, values) if isinstance(values, Tensor) else NotImplemented
    values = values.to(torch.int32) if isinstance(values, Tensor) else int(bool(values))
    return x.to(torch.int32).scatter(axis, index, values).to(torch.bool)


def _put_number(x: Tensor, axis: int, index: Tensor, number: Any) -> Tensor:
    """Return x with a number at indices along an axis; where each row has one, such as its class, by a comparison."""
    axis %= x.ndim
    rows = [1 if at == axis else size for at, size in enumerate(x.shape)]
    if all(is_known(own == size) for own, size in zip(index.shape, rows, strict=True)):
        places = torch.arange(x.shape[axis]).reshape(-1, *[1] * (x.ndim - 1 - axis))
        return torch.where(places == index, x.new_full((), number), x)
    return aten.scatter.src(x, axis, index, torch.full(index.shape, number, dtype=x.dtype))


def _refuse(operator: Any, *_: Any, **__: Any) -> Any:
    """Raise the error of an operator that torch does not translate.

    torch itself stops at an operator of its gradient, by another message, or writes a model that is not valid.
    """
    raise TorchExportError(untranslated(operator, running_place(trace.__code__)))


def _refuse_symbolic(operator: Any, x: Tensor, *_: Any, **__: Any) -> Any:
    """Raise the same error beside symbolic sizes, of which torch makes numbers first; else return `NotImplemented`."""
    return NotImplemented if all(isinstance(count, int) for count in x.shape) else _refuse(operator)


def _with_axes(operator: Any, x: Tensor, axes: Sequence[int] = (), keepdim: bool = False) -> Any:
    """Return a reduction over all axes, which torch translates only if they are named; `NotImplemented` if they are."""
    return NotImplemented if axes else operator(x, list(range(x.ndim)), keepdim)


def _also_of_scalars(
    operator: Any, otherwise: Callable[..., Any] | None, x: Tensor, *others: Any, **options: Any
) -> Any:
    """Return what an operator gives along the axis 0 of a scalar, which ONNX has not: computed of a vector of it.

    Of other tensors it is `otherwise`.
    """
    if x.ndim:
        return NotImplemented if otherwise is None else otherwise(x, *others, **options)
    vectors = [value.reshape(1) if isinstance(value, Tensor) else value for value in (x, *others)]
    result = operator(*vectors, **options)
    return result.reshape(()) if isinstance(result, Tensor) else tuple(part.reshape(()) for part in result)


def _scatter(operator: Any, x: Tensor, axis: int, index: Tensor, values: Tensor, *others: Any, **options: Any) -> Any:
    """Return what an operator scatters of as many values as there are indices: ONNX takes no others.

    Returns `NotImplemented` if there are no others.
    """
    pairs = enumerate(zip(index.shape, values.shape, strict=False))  # a scalar may stand for a vector
    more = [(at, count) for at, (count, size) in pairs if not is_known(count == size)]
    for at, count in more:
        values = values.narrow(at, 0, count)
    return operator(x, axis, index, values, *others, **options) if more else NotImplemented


def _full_like(x: Tensor, value: Any, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    """Return a tensor of one number with sizes that numbers decide, as `full`; `NotImplemented` for other sizes."""
    return torch.full(x.shape, value, dtype=dtype or x.dtype) if unknown_sizes(x) else NotImplemented


def _copy(x: Tensor, source: Tensor, *_: Any) -> Tensor:
    """Return what x is after `source` was copied into it: torch's translation does not expand it to the shape of x.

    Returns `NotImplemented` if it has the shape and type of x.
    """
    is_like_x = source.shape == x.shape and source.dtype == x.dtype
    return NotImplemented if is_like_x else source.to(x.dtype).expand(x.shape).clone()


def _repeat(x: Tensor, repeats: Sequence[Any]) -> Tensor:
    """Return x repeated along its axes, by an Expand if a size says how often: CANN's Tile has to know it.

    It has memory of its own, of which a model may take views. Returns `NotImplemented` for numbers.
    """
    if all(isinstance(times, int) for times in repeats):
        return NotImplemented
    pairs = [*zip(repeats, [1] * (len(repeats) - x.ndim) + list(x.shape), strict=True)]
    apart = x.reshape([each for _, size in pairs for each in (1, size)])
    repeated = apart.expand([each for pair in pairs for each in pair]).reshape([times * size for times, size in pairs])
    return repeated.clone(memory_format=torch.contiguous_format)


def _split(x: Tensor, size: Any, axis: int = 0) -> Any:
    """Return parts of one size, of which the last may be smaller. Returns `NotImplemented` for numbers."""
    whole = x.shape[axis]
    if isinstance(size, int) and isinstance(whole, int):
        return NotImplemented
    count = int((whole + size - 1) // size)
    return _split_with_sizes(x, [*[size] * (count - 1), whole - (count - 1) * size], axis)


def _split_with_sizes(x: Tensor, sizes: Sequence[Any], axis: int = 0) -> Any:
    """Return parts of symbolic sizes as slices: ONNX has them only as a sequence. `NotImplemented` for numbers."""
    if all(isinstance(size, int) for size in sizes):
        return NotImplemented
    ends = list(accumulate(sizes))
    return [aten.slice(x, axis, end - size, end) for size, end in zip(sizes, ends, strict=True)]


def _blocks(operator: Any, write: Any, x: Tensor, factor: int) -> Any:
    """Return a pixel shuffle or its reverse; of images of symbolic sizes as `write` does."""
    is_written = x.ndim == _IMAGES and factor > 1 and has_symbolic_planes(x)
    return (write if is_written else _BLOCKS[operator])(x, factor)


_IMAGES = 4
_BLOCKS = decompositions_of([aten.pixel_shuffle, aten.pixel_unshuffle])

_OWN: Decompositions = {
    **ELEMENTARY,
    **ELEMENTWISE,
    **INDEXING,
    **NORMALIZATIONS,
    **PADS,
    **POOLS,
    **QUANTIZATIONS,
    **dict.fromkeys((aten.scatter.src, aten.scatter.value), _scatter_of_numbers),
    **{operator: partial(_with_axes, operator) for operator in (aten.amax.default, aten.amin.default)},
    aten._efficientzerotensor.default: torch.zeros,  # noqa: SLF001 - the name of an operator
    aten.copy.default: _copy,
    aten.full_like.default: _full_like,
    # The values of an empty tensor are never read, and ONNX knows no order of axes in memory.
    aten.empty_permuted.default: lambda sizes, *_, dtype=None, **__: torch.zeros(sizes, dtype=dtype),
    aten.new_empty_strided.default: lambda x, sizes, strides, **options: (
        NotImplemented if all(isinstance(stride, int) for stride in strides) else aten.new_empty(x, sizes, **options)
    ),
    **{
        each: partial(_refuse_symbolic, each)
        for each in (aten.fractional_max_pool2d.default, aten.fractional_max_pool3d.default)
    },
    # torch translates these with a number made of symbolic sizes beside a tensor only.
    aten.mul.Scalar: lambda x, by: NotImplemented if isinstance(by, (int, float)) else aten.mul.Tensor(x, by),
    aten.remainder.Scalar: lambda x, by: (
        NotImplemented if isinstance(by, (int, float)) else aten.remainder.Tensor(x, torch.full((), by, dtype=x.dtype))
    ),
    aten.permute.default: lambda x, _: NotImplemented if x.ndim else x.view(()),
    **{
        each: partial(_blocks, each, write)
        for each, write in ((aten.pixel_shuffle.default, to_space), (aten.pixel_unshuffle.default, to_depth))
    },
    aten.repeat.default: _repeat,
    aten.scatter_add.default: partial(_scatter, aten.scatter_add.default),
    aten.scatter_reduce.two: _scatter_reduce,
    aten.sort.stable: lambda x, *, stable=None, dim=-1, descending=False: aten.sort(x, dim, descending),  # noqa: ARG005
    aten.split.Tensor: _split,
    aten.split_with_sizes.default: _split_with_sizes,
}
_WITHOUT_TRANSLATION = (
    aten._linalg_eigh.default,  # noqa: SLF001 - the name of an operator
    aten._linalg_svd.default,  # noqa: SLF001
    aten.linalg_householder_product.default,
    aten.linalg_qr.default,
    aten.ormqr.default,
)
_ALONG_AN_AXIS = (
    *(aten.amax.default, aten.amin.default, aten.any.dim, aten.any.dims, aten.flip.default, aten.kthvalue.default),
    *(aten.linalg_vector_norm.default, aten.median.dim, aten.nanmedian.dim, aten.prod.dim_int, aten.scatter.src),
    *(aten.scatter.value, aten.scatter_add.default, aten.topk.default, aten.var.correction, aten.var_mean.correction),
)
"""Operators of which torch's translation is wrong along the axis of a scalar."""
