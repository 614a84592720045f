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
from poolgrad_lowering.torch.arrays import to_array, to_tensor
from poolgrad_lowering.torch.exporter import to_onnx
from poolgrad_lowering.torch.groups import AnyOptimizer, find_groups, state_of, update
from poolgrad_lowering.torch.step import TrainingStep


@dataclass(frozen=True)
class Update:
    """A model that computes `new_weight.*` and `new_state.*` from `weight.*`, `grad.*`, `state.*`, `learning_rate`.

    `values` are those of the inputs `state.*` before the first step.
    """

    model: onnx.ModelProto
    values: Mapping[str, np.ndarray] = field(repr=False)


def export_update(step: TrainingStep, optimizer: AnyOptimizer, *, opset: int = 18) -> Update:
    """Return the optimizer of a training step that was exported without one. See `export_training_step`.

    Raises:
        ValueError: an optimizer of this name is unknown, or has settings that are not taken, or the step has one.
        TypeError: it is something else.
        TorchExportError: torch cannot export it.
    """
    if step.groups:
        raise ValueError("the step has an optimizer already: export it without one")
    trained = tuple(
        name.removeprefix(names.gradient("")) for name in step.outputs if name.startswith(names.gradient(""))
    )
    parameters, _ = step.module.in_model()
    groups = find_groups(optimizer, parameters, trained)
    weights = {name: to_tensor(step.values[names.weight(name)]) for name in trained}
    state = state_of(groups, optimizer, parameters)
    inputs = {
        **{names.weight(name): weight for name, weight in weights.items()},
        **{names.gradient(name): torch.zeros_like(weight) for name, weight in weights.items()},
        **state,
        **{group.rate: torch.tensor(0.0) for group in groups},
    }

    def run(*values: Tensor) -> list[Tensor]:
        named = dict(zip(inputs, values, strict=True))
        return list(update(groups, named, {name: named[names.gradient(name)] for name in trained}).values())

    outputs = list(map(names.new, update(groups, inputs, weights)))
    model = to_onnx(run, inputs, outputs, opset=opset)
    return Update(model, {name: to_array(value) for name, value in state.items()})
