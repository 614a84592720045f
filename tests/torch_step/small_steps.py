# SPDX-License-Identifier: Apache-2.0

"""A small network with one pool, and its training step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from poolgrad_lowering.torch import TrainingStep, export_training_step

X = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(4) % 2
LOSS = nn.functional.cross_entropy


def small(*layers: nn.Module) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), *layers, nn.MaxPool2d(2), nn.Flatten(), nn.LazyLinear(2))


def initialised(model: nn.Module, x: Tensor = X) -> nn.Module:
    """The model after its lazy layers got their sizes."""
    with torch.no_grad():
        model.eval()(x)
    return model.train()


def export(model: nn.Module, x: Tensor = X, **options: Any) -> TrainingStep:
    return export_training_step(initialised(model, x), LOSS, (x, LABELS), **options)
