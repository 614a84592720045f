# SPDX-License-Identifier: Apache-2.0

"""What tests of symbolic sizes share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor, nn

from poolgrad_lowering.torch import TrainingStep
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
