# SPDX-License-Identifier: Apache-2.0

"""The elements of tensors at positions and where masks are true.

How many a mask selects is a size that no one knows before a step runs, a symbol of the trace. Two masks that are
computed in the same way have one such size, since the first of them stands for both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from poolgrad_lowering.torch.internals.recorded import computation, of_constants
from poolgrad_lowering.torch.internals.tracing import NUMBERS_DECIDE
from poolgrad_lowering.torch.internals.trees import flatten, unflatten


class Masks:
    """The masks of a trace that select elements, the first of each computation."""

    def __init__(self) -> None:
        self._first: dict[object, Tensor] = {}

    def first(self, arguments: Any) -> Any:
        """Return the arguments of a function with the first mask in place of each that is computed in the same way."""
        leaves, structure = flatten(arguments)
        return unflatten([self._first_of(each) if _is_mask(each) else each for _, each in leaves], structure)

    def _first_of(self, mask: Tensor) -> Tensor:
        own = computation(mask)
        found = self._first.setdefault(own, mask)
        if computation(found) != own:  # the model wrote to it
            found = self._first[own] = mask
        return found


def _element(x: Tensor, places: Any) -> Tensor:
    """Return torch's function; where that asks for the number in a tensor, a gather.

    A tensor without axes is a position: torch indexes by its number, as Python does. A mask that is the same for all
    batches is the positions where it is true, whose count is a size that is known. Of other sequences than tuples,
    torch takes some for a tuple of places and some for positions along one axis.
    """
    if not isinstance(places, (tuple, Tensor)):
        return x[places]
    each = [known for place in (places if isinstance(places, tuple) else [places]) for known in _known(place)]
    if sum(isinstance(place, Tensor) for place in each) > 1:  # beside other positions, those of a mask
        each = [number for place in each for number in (place.nonzero(as_tuple=True) if _is_mask(place) else [place])]
    try:
        return x[tuple(each)]
    except NUMBERS_DECIDE:
        tensors = [number for number, place in enumerate(each) if isinstance(place, Tensor)]
        if not tensors or any(each[number].ndim or each[number].dtype in _MASKS for number in tensors):
            raise
    found = x[tuple(slice(None) if isinstance(place, Tensor) else place for place in each)]
    for number in reversed(tensors):
        axis = sum(not isinstance(place, int) for place in each[:number])
        if any(place is Ellipsis for place in each[:number]):
            axis += x.ndim - sum(place is not None for place in each)  # an Ellipsis stands for this many more axes
        position = torch.where(each[number] < 0, each[number] + found.shape[axis], each[number])
        found = found.index_select(axis, position.reshape(1)).squeeze(axis)
    return found


def _known(place: Any) -> Sequence[Any]:
    """Return the positions along each axis of a mask that only constants decide; else the place itself."""
    if _is_mask(place) and isinstance(count := place.numel(), int) and count <= _LARGEST:
        found = of_constants(lambda mask: mask.nonzero(as_tuple=True), place)
        return [place] if found is NotImplemented else list(found)
    return [place]


def _is_mask(place: Any) -> bool:
    return isinstance(place, Tensor) and place.dtype == torch.bool and place.ndim > 0


def _masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """Return torch's function, as elements at positions if the mask is the same for all batches."""
    return _element(*torch.broadcast_tensors(x, mask))


_MASKS = (torch.bool, torch.uint8)

_LARGEST = 2**20
"""The elements of masks whose positions a step has as numbers, of which each takes 8 bytes for each axis."""

SELECTIONS: dict[Any, Callable[..., Any]] = {
    Tensor.__getitem__: _element,
    **dict.fromkeys((Tensor.masked_select, torch.masked_select), _masked_select),
    **{function: function for function in (Tensor.nonzero, torch.nonzero, torch.where)},
}
"""The functions of torch that select elements by masks, and what computes them."""
