# SPDX-License-Identifier: Apache-2.0

"""Which sizes of the example inputs are symbolic, as torch.export spells them and in fewer words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from torch import Tensor
from torch.export import Dim

DynamicShapes: TypeAlias = Mapping[str, Any] | Sequence[Any]
"""What `dynamic_shapes` takes: for each example input, in the form of these, a mapping from axes to sizes, or a
sequence with a size for each axis. A size is a name, a multiple of it ("16*height"), a `torch.export.Dim`, or None."""

_MULTIPLE = re.compile(r"(?:([1-9]\d*)\*)?([A-Za-z_]\w*)")


class Symbol(NamedTuple):
    """A name for a size from `least` to `most`. torch takes it that no symbolic size is 0 or 1."""

    name: str
    least: int = 2
    most: int | None = None


class SymbolicSize(NamedTuple):
    """A multiple of a symbol."""

    factor: int
    symbol: Symbol


SymbolicSizes: TypeAlias = Mapping[str, Mapping[int, SymbolicSize]]
"""The symbolic sizes of each input by axis, for the inputs that have some."""


def symbolic_sizes(
    tensors: Mapping[str, Tensor], given: Iterable[tuple[str, Any]], *, dynamic_batch: bool
) -> SymbolicSizes:
    """Return the symbolic sizes as they are given for some tensors; with `dynamic_batch` the first of each is "batch".

    Raises `ValueError` if a size has no such name, an input or an axis does not exist, a name stands for several sizes,
    or a size or what it is a multiple of is less than 2; `TypeError` if something is of another type.
    """
    found: dict[str, dict[int, SymbolicSize]] = {}
    if dynamic_batch:
        first = {name: len(tensor) for name, tensor in tensors.items() if tensor.ndim}
        if len(set(first.values())) != 1 or min(first.values()) < 2:
            raise ValueError("with dynamic_batch, all example inputs need the same first size, 2 or more")
        found = {name: {0: SymbolicSize(1, Symbol("batch"))} for name in first}
    for name, spec in given:
        for axis, size in _sizes(name, tensors[name], spec):
            found.setdefault(name, {})[axis] = size
    _check_values(tensors, found)
    return found


def _sizes(name: str, tensor: Tensor, spec: Any) -> Iterator[tuple[int, SymbolicSize]]:
    """Yield the axes of a tensor with a symbolic size."""
    if not isinstance(spec, (Mapping, list, tuple)):
        raise TypeError(f"dynamic_shapes of '{name}' is a {type(spec).__name__}; it takes a mapping from axes to sizes")
    sizes = spec if isinstance(spec, Mapping) else dict(enumerate(spec))
    for axis, size in sizes.items():
        if not isinstance(axis, int) or not 0 <= axis < tensor.ndim:
            raise ValueError(f"dynamic_shapes of '{name}' has axis {axis!r}; the tensor has {tensor.ndim} axes, from 0")
        if size is not None:
            yield axis, _size(f"dynamic_shapes of '{name}', axis {axis},", size)


def _size(where: str, size: Any) -> SymbolicSize:
    if isinstance(size, str):
        match = _MULTIPLE.fullmatch(size.replace(" ", ""))
        if match is None:
            raise ValueError(f"{where} is {size!r}; it takes a name, or a multiple of one: '16*height'")
        return SymbolicSize(int(match[1] or 1), Symbol(match[2]))
    root = getattr(size, "root", size)  # of what torch.export derives from another
    if not isinstance(root, Dim):
        raise TypeError(f"{where} is a {type(size).__name__}; it takes a name, a torch.export.Dim, or None")
    symbol = Symbol(root.__name__, max(2, root.min), root.max if isinstance(root.max, int) else None)
    if root is size:
        return SymbolicSize(1, symbol)
    if size.fn(0) != 0 or size.fn(1) < 1:
        raise ValueError(f"{where} is {size.__name__}; it takes a multiple of a Dim, and nothing added to it")
    return SymbolicSize(size.fn(1), symbol)


def _check_values(tensors: Mapping[str, Tensor], sizes: SymbolicSizes) -> None:
    """Raise `ValueError` unless each name is one symbol and has one value, in its range."""
    known: dict[str, tuple[Symbol, int]] = {}
    for name, axis, (factor, symbol) in [(name, axis, size) for name, of in sizes.items() for axis, size in of.items()]:
        value, rest = divmod(tensors[name].shape[axis], factor)
        where = f"axis {axis} of '{name}' has size {tensors[name].shape[axis]}"
        if rest:
            raise ValueError(f"{where}, and dynamic_shapes says a multiple of {factor}")
        if value < symbol.least or (symbol.most is not None and value > symbol.most):
            upper = "" if symbol.most is None else f" and {symbol.most} or less"
            raise ValueError(f"{where}, so '{symbol.name}' is {value}; it must be {symbol.least} or more{upper}")
        other = known.setdefault(symbol.name, (symbol, value))
        if other != (symbol, value):
            differs = f"is {value}, and {other[1]}" if value != other[1] else "has another range"
            raise ValueError(f"{where}, so '{symbol.name}' {differs} elsewhere in dynamic_shapes")
