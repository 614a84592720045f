# SPDX-License-Identifier: Apache-2.0

"""Functions and a model that ask for truth values. pytest writes an `assert` in a module of tests otherwise."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn


def an_assert(x: Any) -> None:
    assert x


def an_assert_with_a_message(x: Any) -> None:
    assert not x, f"{x}"


def handled(x: Any) -> int:
    try:
        assert x
    except AssertionError:
        return 1
    return 0


def suppressed(x: Any) -> None:
    with suppress(AssertionError):
        an_assert(x)


def both(x: Any) -> None:
    if x and x:
        raise ValueError


def one_of_two(x: Any, y: Any = 0) -> None:
    if y or x:
        raise ValueError(str(x))


def a_raise_at_the_end(x: Any) -> int:
    if x:
        return 1
    raise ValueError


def a_raise_in_a_loop(x: Any) -> None:
    for _ in range(2):
        if x:
            continue
        raise ValueError


def two_ways(x: Any) -> int:
    return 1 if x else 2


def a_loop(x: Any) -> None:
    while x:
        break


def no_branch(x: Any) -> bool:
    return not x


class Checked(nn.Module):
    """Checks its numbers, as many models do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        assert x.isfinite().all()
        y = self.layer(x)
        if (y > 1e6).any() or torch.isnan(y.sum()):
            raise ValueError("too large")
        return y


class Counted(nn.Module):
    """A layer with a buffer that has to be 2."""

    number: Tensor

    def __init__(self, number: int) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("number", torch.tensor(number))

    def forward(self, x: Tensor) -> Any:
        assert self.number == 2
        return self.layer(x)
