# SPDX-License-Identifier: Apache-2.0

"""Functions of torch whose gradients no graph can have as autograd makes them, in other functions of torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from operator import and_
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from poolgrad_lowering.torch.errors import NumbersDecideError, TorchExportError
from poolgrad_lowering.torch.explanations import NO_PLACE, SPARSE, is_own, running_place
from poolgrad_lowering.torch.internals.branches import answer_without_error, asking_frame
from poolgrad_lowering.torch.internals.modes import gradients_in
from poolgrad_lowering.torch.internals.recorded import of_constants
from poolgrad_lowering.torch.internals.tracing import (
    NUMBERS_DECIDE,
    asked_of,
    is_known,
    name_of,
    trace,
    unknown_sizes,
)
from poolgrad_lowering.torch.internals.trees import bound, flatten, unflatten
from poolgrad_lowering.torch.operators.arguments_of_sizes import OF_SIZES
from poolgrad_lowering.torch.operators.compositions import COMPOSITIONS
from poolgrad_lowering.torch.operators.elements import SELECTIONS, Masks
from poolgrad_lowering.torch.operators.inverses import INVERSES
from poolgrad_lowering.torch.operators.recurrent import RECURRENT
from poolgrad_lowering.torch.operators.spectra import SPECTRA
from poolgrad_lowering.torch.symbolic.joined_axes import einsum


class Rewritten(TorchFunctionMode):
    """While it is active, these functions are computed by others.

    What a model checks before it raises an error is left out. If what is computed depends on the numbers in a tensor,
    raises `NumbersDecideError`, which names the function of torch whose result does. Those of tensors in `known` may
    decide, inputs of the trace that have these values in every step; `asked` are the ones that do, with the function of
    the model that asks.
    """

    def __init__(self, known: Mapping[Tensor, Tensor] = MappingProxyType({})) -> None:
        super().__init__()
        self._known = known
        self.asked: dict[Tensor, str] = {}
        self._masks = Masks()
        self._makers: dict[Any, NumbersDecideError] = {}  # of sizes that are not known, by symbol

    @property
    def selects(self) -> bool:
        """Whether the numbers in a tensor decided a size."""
        return bool(self._makers)

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in _ASKING and (answer := self._answer(function, args[0])) is not NotImplemented:
            return answer
        if (
            function is Tensor.__bool__
            and (answer := answer_without_error(asking_frame(is_own), trace.__code__)) is not None
        ):
            return answer
        if function is torch.autograd.grad:  # it may run parts of the forward pass again, whose functions are these
            with gradients_in(self):
                return function(*args, **(kwargs or {}))
        if function is Tensor.numpy:  # torch's own error is about the class of a trace's tensors
            raise _decided_by(function)
        if function is functional.triplet_margin_with_distance_loss and (kwargs or {}).get("distance_function"):
            kwargs = {**(kwargs or {}), "distance_function": self._within(kwargs["distance_function"])}
        try:
            found = self._computed(function, args, kwargs or {})
        except NUMBERS_DECIDE as error:
            raise (self._maker(error) or _decided_by(function)) from error
        if unknown_sizes(found):
            found = self._with_known_sizes(found, function, args, kwargs or {})
        for symbol in unknown_sizes(found):
            self._makers.setdefault(symbol, _decided_by(function))
        return found

    def _within(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of the model that runs in this mode, which is not active in the functions of torch."""

        def run(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return run

    def _answer(self, function: Any, x: Tensor) -> Any:
        """Return what a function gives Python of a tensor that constants and known tensors decide, or `NotImplemented`.

        A known tensor of one element may count steps, with which a step computes: its integer is no answer, if no way
        depends on it. One of several has sizes, as of the images in a batch.
        """
        found = of_constants(function, x)
        if found is not NotImplemented:
            return found
        if function in _DECIDING or (function is Tensor.item and x.dtype == torch.bool):
            return of_constants(function, x, self._known, self._note)
        read: list[Tensor] = []
        found = NotImplemented if x.dtype not in _INTEGERS else of_constants(function, x, self._known, read.append)
        if found is NotImplemented or any(tensor.numel() == 1 for tensor in read):
            return NotImplemented
        for tensor in read:
            self._note(tensor)
        return found

    def _with_known_sizes(self, found: Any, function: Any, args: Any, kwargs: Any) -> Any:
        """Return a result, whose sizes the numbers in tensors decide, with sizes that known tensors give, if they do.

        They decide all of it, or are arguments in place of numbers.
        """
        parts = found if isinstance(found, (list, tuple)) else [found]
        if not all(isinstance(part, Tensor) for part in parts):
            return found
        constants = [of_constants(Tensor.clone, part, self._known, self._note) for part in parts]
        if all(constant is not NotImplemented for constant in constants):
            return constants[0] if isinstance(found, Tensor) else type(found)(constants)
        numbers = self._numbers(args, kwargs)
        return found if numbers is None else _WRITTEN.get(function, function)(*numbers[0], **numbers[1])

    def _computed(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Return what a function gives, or its replacement; with numbers in place of tensors, where these decide."""
        written = _WRITTEN.get(function, function)
        args = self._masks.first(args) if function in SELECTIONS else args
        try:
            return written(*args, **kwargs)
        except NUMBERS_DECIDE:
            if (numbers := self._numbers(args, kwargs)) is None:
                raise
        return written(*numbers[0], **numbers[1])

    def _numbers(self, args: Any, kwargs: Any) -> Any:
        """Return the arguments of a function with numbers in place of tensors that are known; None without such."""
        leaves, structure = flatten((args, kwargs))
        numbers = [self._number(leaf) for _, leaf in leaves]
        are_same = all(number is leaf for number, (_, leaf) in zip(numbers, leaves, strict=True))
        return None if are_same else unflatten(numbers, structure)

    def _number(self, value: Any) -> Any:
        """Return the integer in a tensor that is known, as of a buffer with a size of the model; else the value."""
        if not isinstance(value, Tensor) or value.ndim or value.dtype not in _INTEGERS:
            return value
        found = of_constants(Tensor.item, value, self._known, self._note)
        return value if found is NotImplemented else found

    def _note(self, tensor: Tensor) -> None:
        self.asked.setdefault(tensor, _place())

    def __exit__(self, kind: Any, error: Any, calls: Any) -> None:
        """Name the function, if Python itself asked what only numbers decide."""
        super().__exit__(kind, error, calls)
        if isinstance(error, NUMBERS_DECIDE) and (maker := self._maker(error)) is not None:
            raise maker from error

    def _maker(self, error: Exception) -> NumbersDecideError | None:
        """Return the error of the function that made a size which an error is about, or None."""
        return next((self._makers[symbol] for symbol in asked_of(error) if symbol in self._makers), None)


def _place() -> str:
    return running_place(trace.__code__) or NO_PLACE


def _decided_by(function: Any) -> NumbersDecideError:
    return NumbersDecideError(name_of(function), _place())


def _in_order(rank: int, input: Tensor, output_size: Any) -> Tensor:
    """Return the adaptive pool of an input with its axes in order; a mean, where it has one window.

    Of an input in another order, torch sets the strides of the result: no graph has the gradient of that.
    """
    sizes = [output_size] * rank if isinstance(output_size, int) else output_size
    if all(isinstance(size, int) and size == 1 for size in sizes):
        return input.mean([*range(-1, -rank - 1, -1)], keepdim=True)
    return _ADAPTIVE[rank](input.contiguous(), output_size)


def _avg_pool(rank: int, input: Tensor, kernel_size: Any, *others: Any, **named: Any) -> Tensor:
    """Return torch's function, which makes numbers of symbolic sizes; a mean, where one window is the whole plane."""
    kernel = [kernel_size] * rank if isinstance(kernel_size, int | torch.SymInt) else list(kernel_size)
    is_plain = not others and not named and not all(isinstance(size, int) for size in kernel)
    if is_plain and all(is_known(size == extent) for size, extent in zip(kernel, input.shape[-rank:], strict=True)):
        return input.mean([*range(-rank, 0)], keepdim=True)
    return _AVERAGE[rank](input, kernel_size, *others, **named)


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return the attention by its formula: the gradient of a fused one has no translation to ONNX.

    A model may ask for such a kernel. In torch's formula a row of which everything is masked gets zeros, which costs
    seven operators; a causal mask leaves an element in each row.
    """
    is_wide = query.dtype.itemsize > 2 and not torch.is_autocast_enabled("cpu")
    if is_wide and is_causal and attn_mask is None and not enable_gqa:
        factor = query.shape[-1] ** -0.5 if scale is None else scale
        is_read = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
        scores = (query * factor) @ key.mT + torch.where(is_read, 0.0, -math.inf)
        return functional.dropout(functional.softmax(scores, -1), dropout_p) @ value
    with sdpa_kernel(SDPBackend.MATH):
        return functional.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )


def _max_pool1d(*arguments: Any, return_indices: bool = False, **named: Any) -> Any:
    """Return the pool by torch's function with indices: the one without makes a symbolic size a number."""
    *of_pool, return_indices = (*arguments, return_indices)[:7]  # by position it is the last one of 7
    found = torch.max_pool1d_with_indices(*of_pool, **named)
    return found if return_indices else found[0]


class OneByCount(float):
    """The momentum of a layer of BatchNorm that averages all batches: Python's own would be a constant of the step."""

    layer: nn.Module
    """It counts its batches."""


def _batch_norm(*arguments: Any, **named: Any) -> Tensor:
    """Return torch's function, with the running statistics of a momentum that is one by a count."""
    given = bound(functional.batch_norm, arguments, named)
    x, running_mean, running_var, weight, bias, _, momentum, eps = given
    if not isinstance(momentum, OneByCount) or running_mean is None:
        return functional.batch_norm(*arguments, **named)
    mean, variance = torch.zeros_like(running_mean), torch.zeros_like(running_var)
    found = functional.batch_norm(x, mean, variance, weight, bias, training=True, momentum=1.0, eps=eps)
    share = 1 / momentum.layer.num_batches_tracked.to(mean.dtype)
    running_mean.copy_(share * mean + (1 - share) * running_mean)
    running_var.copy_(share * variance + (1 - share) * running_var)
    return found


def _instance_norm(*arguments: Any, **named: Any) -> Tensor:
    """Return torch's function, whose second gradient makes numbers of symbolic sizes: of those a norm of groups."""
    x, running_mean, _, weight, bias, _, _, eps = bound(functional.instance_norm, arguments, named)
    if running_mean is not None or all(isinstance(size, int) for size in x.shape):
        return functional.instance_norm(*arguments, **named)
    return functional.group_norm(x, x.shape[1], weight, bias, eps)


def _gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """Return ½·(log v + (input − target)²/v) with v = max(var, eps), of whose max the gradient is that of var.

    torch's own asks whether a variance is negative, which no graph can.
    """
    variance = input.new_full(input.shape, var) if isinstance(var, float) else var
    if variance.shape == input.shape[:-1] and variance.ndim < input.ndim:
        variance = variance[..., None]
    variance = variance + (variance.clamp(min=eps) - variance).detach()
    loss = 0.5 * (variance.log() + (input - target) ** 2 / variance)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return {"mean": torch.mean, "sum": torch.sum, "none": lambda value: value}[reduction](loss)


def _fill_diagonal(x: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """Fill the diagonal of x by a mask: torch does it by strides, which no graph has.

    The places on a diagonal are equal along all axes; `wrap` goes on below the square of a matrix.
    """
    first, *others = (torch.arange(size).reshape(-1, *[1] * (x.ndim - axis)) for axis, size in enumerate(x.shape, 1))
    if wrap and x.ndim == 2:
        first = first % (x.shape[1] + 1)
    return x.masked_fill_(reduce(and_, (other == first for other in others)), fill_value)


def _sparse(*_: Any, **named: Any) -> Tensor:  # noqa: ARG001 - the arguments of several functions
    """Raise `TorchExportError`: inside of a trace, torch's own errors are about memory."""
    raise TorchExportError(SPARSE.format(place=_place()))


def _unfold(x: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Return windows that are next to each other as a part of x with other axes, which may be changed in place.

    Others are torch's, whose gradient adds up elements.
    """
    if step != size or not x.ndim or size > x.shape[dimension]:
        return x.unfold(dimension, size, step)
    axis = dimension % x.ndim
    count = x.shape[axis] // size
    return x.narrow(axis, 0, count * size).unflatten(axis, (count, size)).movedim(axis + 1, -1)


def _as_strided(x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """Return torch's function of the elements of x in the order of its memory: in a graph, memory has that of the axes.

    Raises `TorchExportError` if it reads memory that has no elements of x, or others between them.
    """
    if not all(isinstance(each, int) for each in (*x.shape, *size, *stride)):
        return x.as_strided(size, stride, storage_offset)
    in_memory = x.permute(sorted(range(x.ndim), key=x.stride, reverse=True))
    first = 0 if storage_offset is None else storage_offset - x.storage_offset()
    last = first + sum((count - 1) * step for count, step in zip(size, stride, strict=True))
    if not in_memory.is_contiguous() or first < 0 or (last >= x.numel() and 0 not in size):
        raise TorchExportError(
            f"as_strided reads memory that is not all of its tensor, in {_place()}, and a graph has no memory: call it "
            "on a contiguous tensor that has all these elements, or write it with `unfold` or an index"
        )
    if x.is_contiguous() and first == (storage_offset or 0):
        return x.as_strided(size, stride, storage_offset)
    return in_memory.reshape(-1)[first:].as_strided(size, stride)


_DECIDING = frozenset((Tensor.__bool__, Tensor.__float__, Tensor.__index__, Tensor.__int__))
"""Functions that give Python the number in a tensor, of which a trace goes on with no symbol for one."""

_ASKING = _DECIDING | {Tensor.item, Tensor.numpy, Tensor.tolist}
"""Functions that give Python the numbers in a tensor."""

_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)

_ADAPTIVE = {1: functional.adaptive_avg_pool1d, 2: functional.adaptive_avg_pool2d, 3: functional.adaptive_avg_pool3d}

_AVERAGE = {2: functional.avg_pool2d, 3: functional.avg_pool3d}

_WRITTEN: dict[Any, Callable[..., Tensor]] = {
    **COMPOSITIONS,
    **INVERSES,
    **SELECTIONS,
    **OF_SIZES,
    Tensor.fill_diagonal_: _fill_diagonal,
    Tensor.unfold: _unfold,
    **dict.fromkeys((Tensor.as_strided, torch.as_strided), _as_strided),
    **dict.fromkeys((functional.max_pool1d, torch.max_pool1d), _max_pool1d),
    functional.scaled_dot_product_attention: _attention,
    torch.einsum: einsum,
    functional.batch_norm: _batch_norm,
    functional.instance_norm: _instance_norm,
    functional.gaussian_nll_loss: _gaussian_nll_loss,
    **dict.fromkeys((torch.sparse_coo_tensor, torch.sparse_csr_tensor), _sparse),
    **dict.fromkeys((Tensor.to_sparse, Tensor.to_sparse_csr), _sparse),
    **RECURRENT,
    **SPECTRA,
    **{pool: partial(_in_order, rank) for rank, pool in _ADAPTIVE.items()},
    **{pool: partial(_avg_pool, rank) for rank, pool in _AVERAGE.items()},
}
