# SPDX-License-Identifier: Apache-2.0

"""What tests of symbolic sizes share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from poolgrad_lowering import export_cann, verify
from poolgrad_lowering.torch import TrainingStep, export_training_step
from poolgrad_lowering.torch.arrays import to_array


class Function(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def check_for(step: TrainingStep, *examples: Tensor) -> None:
    given = {name: to_array(value) for name, value in zip(step.examples, examples, strict=True)}
    replace(step, examples=given).check()


def squared(model: nn.Module, x: Tensor, shapes: Mapping[str, Any], **options: Any) -> TrainingStep:
    """Return the step of a model whose loss is the mean of squares."""
    return export_training_step(
        model, lambda y, _: (y * y).mean(), (x, torch.zeros(1)), dynamic_shapes=shapes, optimizer="sgd", **options
    )


def check_squared(step: TrainingStep, other: Tensor) -> None:
    """Compare two steps, and one of another input."""
    step.check(steps=2)
    check_for(step, other, torch.zeros(1))


def assert_whole(step: TrainingStep) -> None:
    """Graph mode takes the whole step, which provably computes the same in its export."""
    export = export_cann(step.model)
    assert not export.report.obstacles
    assert verify(step.model, export.model, whole_model=False).proven
