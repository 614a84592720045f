# SPDX-License-Identifier: Apache-2.0

"""torch's operators of lists of tensors (`_foreach_…`), as the operator of each tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

_NAMES = (
    "abs", "add", "clamp_max", "clamp_min", "copy", "div", "exp", "lerp", "max", "mul", "neg",
    "pow", "reciprocal", "rsqrt", "sign", "sqrt", "sub", "zero",
)  # fmt: skip


def _of_each(operator: Callable[..., Tensor]) -> Callable[..., list[Tensor] | None]:
    """Return the function of lists that calls an operator of tensors. One that writes in place has no result."""

    def run(*arguments: Any, **options: Any) -> list[Tensor] | None:
        found = [operator(*each, **options) for each in _each(arguments)]
        return None if str(operator).endswith("_") else found

    return run


def _each(arguments: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield the arguments for each tensor of the first list. What is no list is for all of them."""
    for position in range(len(arguments[0])):
        yield [value[position] if isinstance(value, (list, tuple)) else value for value in arguments]


def _table() -> Iterator[tuple[Any, Callable[..., Any]]]:
    yield aten._foreach_norm.Scalar, _of_each(aten.linalg_vector_norm)  # noqa: SLF001 - the name of an operator
    for name in (*_NAMES, *(f"{name}_" for name in _NAMES)):
        packet = getattr(aten, f"_foreach_{name}", None)
        for overload in packet.overloads() if packet is not None else ():
            yield getattr(packet, overload), _of_each(getattr(aten, name))


OF_LISTS = dict(_table())
"""The functions by the overload of the operator that they compute."""
