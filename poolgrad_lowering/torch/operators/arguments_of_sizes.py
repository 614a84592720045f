# SPDX-License-Identifier: Apache-2.0

"""Functions of torch that make numbers of symbolic sizes among their arguments, in others that do not.

And those of two numbers, of which the sizes of a tensor are the ones that models give them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def _diagonal(input: Tensor, offset: Any = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Return torch's function, which makes a number of a symbolic offset: the main diagonal of the square beside it."""
    if not isinstance(offset, torch.SymInt):
        return input.diagonal(offset, dim1, dim2)
    if offset < 0:
        offset, dim1, dim2 = -offset, dim2, dim1
    count = min(input.shape[dim1], input.shape[dim2] - offset)
    return input.narrow(dim1, 0, count).narrow(dim2, offset, count).diagonal(0, dim1, dim2)


def _diag(input: Tensor, diagonal: Any = 0, **named: Any) -> Tensor:
    """Return torch's function, of a matrix with a symbolic offset too."""
    if isinstance(diagonal, torch.SymInt) and input.ndim == 2:
        return _diagonal(input, diagonal)
    return torch.diag(input, diagonal, **named)


def _one_hot(tensor: Tensor, num_classes: Any = -1) -> Tensor:
    """Return torch's function, which makes a number of a symbolic number of classes, of that number too."""
    if isinstance(num_classes, int):
        return functional.one_hot(tensor, num_classes)
    return (tensor.unsqueeze(-1) == torch.arange(num_classes)).long()


def _linspace(start: Any, end: Any, steps: Any, **named: Any) -> Tensor:
    """Return torch's function, which makes a number of a symbolic number of steps, of that number too."""
    if isinstance(steps, int):
        return torch.linspace(start, end, steps, **named)
    numbers = torch.arange(steps, **{"dtype": torch.get_default_dtype(), **named})
    return start + numbers * ((end - start) / (steps - 1))


def _tensor(make: Callable[..., Tensor], data: Any, dtype: Any = None, **named: Any) -> Tensor:
    """Return the tensor that a function of torch makes of data, which makes numbers of symbolic sizes, of those too."""
    if not any(isinstance(number, torch.SymInt) for number in _numbers(data)):
        return make(data, dtype=dtype, **named)
    is_whole = all(isinstance(number, (int, torch.SymInt)) for number in _numbers(data))
    return _stacked(data, dtype or (torch.int64 if is_whole else torch.get_default_dtype()))


def _numbers(data: Any) -> Iterator[Any]:
    for each in data if isinstance(data, (list, tuple)) else ():
        yield from _numbers(each)
    if not isinstance(data, (list, tuple)):
        yield data


def _stacked(data: Any, dtype: torch.dtype) -> Tensor:
    if isinstance(data, (list, tuple)):
        return torch.stack([_stacked(each, dtype) for each in data])
    return data.detach().to(dtype) if isinstance(data, Tensor) else torch.scalar_tensor(data, dtype=dtype)


def _new_tensor(x: Tensor, data: Any, *, dtype: Any = None, **named: Any) -> Tensor:
    """Return torch's function, of data with symbolic sizes too."""
    return _tensor(x.new_tensor, data, dtype or x.dtype, **named)


def _of_two(function: Callable[..., Tensor], *operands: Any, **named: Any) -> Tensor:
    """Return torch's function, of two numbers too, such as sizes: inside of a trace, a tensor has to be among them."""
    if operands and not any(isinstance(each, Tensor) for each in (*operands, *named.values())):
        operands = (_tensor(torch.tensor, operands[0]), *operands[1:])
    return function(*operands, **named)


OF_SIZES: dict[Any, Callable[..., Tensor]] = {
    **dict.fromkeys((Tensor.diagonal, torch.diagonal), _diagonal),
    **dict.fromkeys((Tensor.diag, torch.diag), _diag),
    **dict.fromkeys((Tensor.trace, torch.trace), lambda x: _diagonal(x).sum()),
    functional.one_hot: _one_hot,
    torch.linspace: _linspace,
    **{make: partial(_tensor, make) for make in (torch.tensor, torch.as_tensor)},
    Tensor.new_tensor: _new_tensor,
    **{
        function: partial(_of_two, function)
        for function in (torch.add, torch.div, torch.floor_divide, torch.mul, torch.sub, torch.true_divide)
    },
}
"""The functions by those of torch that they compute."""
