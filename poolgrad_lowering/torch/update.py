# SPDX-License-Identifier: Apache-2.0

"""The optimizer as a model of its own, for what has to happen between gradients and update, e.g. an average."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
import torch
from torch import Tensor

from poolgrad_lowering.torch import names
from poolgrad_lowering.torch.exporter import to_onnx
from poolgrad_lowering.torch.optimizers import Optimizer, OptimizerName, find_optimizer
from poolgrad_lowering.torch.step import TrainingStep


@dataclass(frozen=True)
class Update:
    """A model that computes `new_weight.*` and `new_state.*` from `weight.*`, `grad.*`, `state.*`, `learning_rate`.

    `values` are those of the inputs `state.*` before the first step.
    """

    model: onnx.ModelProto
    values: Mapping[str, np.ndarray] = field(repr=False)


def export_update(step: TrainingStep, optimizer: Optimizer | OptimizerName, *, opset: int = 18) -> Update:
    """Return the optimizer of a training step that was exported without one.

    Raises:
        ValueError: an optimizer of this name is unknown.
        TorchExportError: torch cannot export it.
    """
    chosen = find_optimizer(optimizer)
    trained = tuple(
        name.removeprefix(names.gradient("")) for name in step.outputs if name.startswith(names.gradient(""))
    )
    weights = {name: torch.from_numpy(np.array(step.values[names.weight(name)])) for name in trained}
    state = chosen.initial_state(weights)
    inputs = {
        **{names.weight(name): weight for name, weight in weights.items()},
        **{names.gradient(name): torch.zeros_like(weight) for name, weight in weights.items()},
        **state,
        names.LEARNING_RATE: torch.tensor(0.0),
    }
    updated = chosen.update(weights, weights, state, torch.tensor(0.0))

    def update(*values: Tensor) -> list[Tensor]:
        named = dict(zip(inputs, values, strict=True))
        own = {name: named[names.weight(name)] for name in trained}
        gradients = {name: named[names.gradient(name)] for name in trained}
        return list(chosen.update(own, gradients, named, named[names.LEARNING_RATE]).values())

    model = to_onnx(update, inputs, [names.new(name) for name in updated], opset=opset)
    return Update(model, {name: value.numpy() for name, value in state.items()})
