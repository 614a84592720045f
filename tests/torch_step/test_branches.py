# SPDX-License-Identifier: Apache-2.0

"""A step leaves out what a model checks of the numbers in a tensor before it raises an error."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

import pytest
import torch
from torch import nn

from poolgrad_lowering.torch import TorchExportError, export_training_step
from poolgrad_lowering.torch.internals.branches import answer_without_error
from tests.torch_step import checks


class Asked:
    """Is true, and keeps what the function that asks goes on with."""

    def __init__(self) -> None:
        self.answers: list[bool | None] = []

    def __bool__(self) -> bool:
        self.answers.append(answer_without_error(sys._getframe(1), OUTERMOST))
        return True


ASKED: dict[Callable[[Any], object], list[bool | None]] = {
    checks.an_assert: [True],
    checks.an_assert_with_a_message: [False],
    checks.handled: [None],
    checks.suppressed: [None],
    checks.both: [None, False],  # with a false one, it goes on as well
    checks.one_of_two: [False],
    checks.a_raise_at_the_end: [True],
    checks.a_raise_in_a_loop: [True, True],
    checks.two_ways: [None],
    checks.a_loop: [None],
    checks.no_branch: [None],
}


@pytest.mark.parametrize("function", ASKED, ids=lambda function: function.__name__)
def test_what_a_function_goes_on_with(function: Callable[[Any], object]) -> None:
    asked = Asked()
    with suppress(AssertionError, ValueError):
        function(asked)
    assert asked.answers == ASKED[function]


OUTERMOST = test_what_a_function_goes_on_with.__code__


@pytest.mark.parametrize("number", [2, 3])
def test_a_kept_buffer_is_asked_itself(number: int) -> None:
    model = checks.Counted(number)
    with nullcontext() if number == 2 else pytest.raises(TorchExportError, match="AssertionError"):
        export_training_step(model, nn.functional.mse_loss, (torch.randn(3, 4), torch.randn(3, 4))).check()


def test_a_model_that_checks_its_numbers() -> None:
    x = torch.randn(3, 4)
    step = export_training_step(checks.Checked(), nn.functional.mse_loss, (x, x), optimizer="adam", dynamic_batch=True)
    assert step.check(steps=2)
