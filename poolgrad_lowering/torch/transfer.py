# SPDX-License-Identifier: Apache-2.0

"""Weights, buffers and state of a training step, from and to modules and optimizers of PyTorch, by input name."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from poolgrad_lowering.torch import names
from poolgrad_lowering.torch.arrays import to_array, to_tensor
from poolgrad_lowering.torch.exported_step import ExportedStep
from poolgrad_lowering.torch.groups import Group, find_groups, initial_state, load_state, state_of
from poolgrad_lowering.torch.joint import Loss, WithLoss

Arrays = dict[str, np.ndarray]


def values_of(
    step: ExportedStep, model: nn.Module, optimizer: torch.optim.Optimizer | None, loss: Loss | None
) -> Arrays:
    """Return the values of a model and an optimizer. See `TrainingStep.values_of`."""
    parameters, found = _tensors(step, model, loss)
    if optimizer is not None:
        found |= state_of(_groups(step, optimizer, parameters), optimizer, parameters)
    return {name: to_array(found[name]) if name in found else value for name, value in step.values.items()}


def load_into(
    step: ExportedStep,
    model: nn.Module,
    values: Mapping[str, np.ndarray],
    optimizer: torch.optim.Optimizer | None,
    loss: Loss | None,
) -> None:
    """Copy values into a model and an optimizer. See `TrainingStep.load_into`."""
    if not isinstance(values, Mapping):
        raise TypeError(f"values is a {type(values).__name__}; it takes a mapping, e.g. what loop.values() returns")
    parameters, tensors = _tensors(step, model, loss)
    groups = () if optimizer is None else _groups(step, optimizer, parameters)
    state = initial_state(groups, parameters)
    tensors |= state
    for name, tensor in tensors.items():
        if name not in values:
            raise ValueError(f"values lacks {name}")
        if np.shape(values[name]) != tensor.shape:
            raise ValueError(f"{name} has shape {np.shape(values[name])}, not {tuple(tensor.shape)}")
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(to_tensor(np.asarray(values[name])))
    if optimizer is not None:
        load_state(groups, state, optimizer, parameters)


def _tensors(
    step: ExportedStep, model: nn.Module, loss: Loss | None
) -> tuple[dict[str, nn.Parameter], dict[str, Tensor]]:
    """Return the parameters of a model and a loss by their names, and all tensors of both by input name.

    Raises `ValueError` unless they are those of the step.
    """
    parameters, buffers = WithLoss(model, loss, step.module.arguments).in_model()
    found = {name: tensor.detach() for name, tensor in names.tensors(parameters, buffers).items()}
    apart = _names_of_loss(step) if loss is None else set()
    wanted = {name for name in step.values if not names.is_state(name)} - apart
    if different := found.keys() ^ wanted:
        raise ValueError(f"the model is not that of the step: only one of them has {', '.join(sorted(different))}")
    for name, tensor in found.items():
        if tensor.shape != step.values[name].shape:
            raise ValueError(
                f"{name} of the model has shape {tuple(tensor.shape)}, the step's {step.values[name].shape}"
            )
    return parameters, found


def _names_of_loss(step: ExportedStep) -> set[str]:
    """Return the input names of the weights and buffers of the loss."""
    own = step.module.loss
    if not isinstance(own, nn.Module):
        return set()
    return {*names.tensors(dict(own.named_parameters("loss")), dict(own.named_buffers("loss")))}


def _groups(
    step: ExportedStep, optimizer: torch.optim.Optimizer, parameters: Mapping[str, Tensor]
) -> tuple[Group, ...]:
    """Return the groups of the step. Raises `ValueError` if the optimizer has others, or keeps other state."""
    trained = [name for group in step.groups for name in group.parameters]
    found = find_groups(optimizer, parameters, trained)
    theirs, own = ([(group.parameters, group.optimizer.slots) for group in each] for each in (found, step.groups))
    if theirs != own:
        raise ValueError("the optimizer has other groups than the step, or keeps other state for them")
    return found
