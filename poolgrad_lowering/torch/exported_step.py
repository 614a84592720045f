# SPDX-License-Identifier: Apache-2.0

"""An exported training step: its data, and its values from and to modules and optimizers of PyTorch, by input name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from poolgrad_lowering.model.ir import step_names as names
from poolgrad_lowering.torch.arrays import to_array, to_tensor
from poolgrad_lowering.torch.groups import Group, find_groups, initial_state, load_state, state_of
from poolgrad_lowering.torch.joint import Loss, WithLoss, module_of

GradientTransform: TypeAlias = Callable[[dict[str, Tensor]], Mapping[str, Tensor]]
"""A function of the gradients by parameter name. It returns as many tensors of the same shapes by the same names."""


def transformed(gradients: dict[str, Tensor], transform: GradientTransform | None) -> Mapping[str, Tensor]:
    """Return the gradients after a transform, if there is one, in their own element types.

    Raises `TypeError` if the transform returns something else than a mapping with the same names and shapes.
    """
    if transform is None:
        return gradients
    if not callable(transform):
        raise TypeError(f"gradient_transform is a {type(transform).__name__}; it takes a function of the gradients")
    found = transform(dict(gradients))
    if not isinstance(found, Mapping) or found.keys() != gradients.keys():
        raise TypeError("gradient_transform returns no mapping with a tensor for each gradient, by the same names")
    for name, gradient in gradients.items():
        if found[name].shape != gradient.shape:
            raise TypeError(
                f"gradient_transform returns shape {tuple(found[name].shape)} for the gradient of '{name}', which has "
                f"{tuple(gradient.shape)}"
            )
    return {name: found[name].to(gradient.dtype) for name, gradient in gradients.items()}


@dataclass(frozen=True)
class ExportedStep:
    """A training step without its comparison, or an update. `TrainingStep` describes the fields."""

    model: onnx.ModelProto = field(repr=False)
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    values: Mapping[str, np.ndarray] = field(repr=False)
    examples: Mapping[str, np.ndarray] = field(repr=False)
    groups: tuple[Group, ...]
    module: WithLoss = field(repr=False)
    gradient_transform: GradientTransform | None = field(default=None, repr=False)

    @property
    def carried(self) -> Mapping[str, str]:
        """The input that each output is the next value of, by output."""
        return names.carried(self.outputs)

    def rates(self, optimizer: torch.optim.Optimizer) -> dict[str, float]:
        """Return the learning rates that torch's optimizer has now, by input, e.g. as a schedule of torch sets them.

        Raises `ValueError` if the optimizer has other groups than the step, or other settings, which a schedule may
        change: they are constants of the step.
        """
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f"optimizer is a {type(optimizer).__name__}; it takes an object of torch.optim")
        self._check_has_optimizer()
        if len(optimizer.param_groups) != len(self.groups):
            raise ValueError(f"the optimizer has {len(optimizer.param_groups)} groups, the step {len(self.groups)}")
        rates = {}
        for number, (group, theirs) in enumerate(zip(self.groups, optimizer.param_groups, strict=True)):
            mine = group.optimizer
            if type(optimizer) is not mine.IN_TORCH or type(mine).of_group(theirs) != mine:
                raise ValueError(
                    f"group {number} of the optimizer has not the settings of the step, {mine}: a schedule may change "
                    "the learning rate alone (cycle_momentum=False)"
                )
            rates[group.rate] = float(theirs["lr"])
        return rates

    def values_of(
        self, model: nn.Module, optimizer: torch.optim.Optimizer | None = None, *, loss: Loss | None = None
    ) -> dict[str, np.ndarray]:
        """Return weights, buffers and state of a model and an optimizer as they are now, by input name.

        For a `TrainingLoop` that goes on from there. Without an optimizer or a loss, what is theirs is as in `values`.

        Raises `ValueError` if the model or the optimizer is not of the step's kind.
        """
        parameters, found = self._tensors(model, loss)
        if optimizer is not None:
            found |= state_of(self._same_groups(optimizer, parameters), optimizer, parameters)
        return {name: to_array(found[name]) if name in found else value for name, value in self.values.items()}

    def load_into(
        self,
        model: nn.Module,
        values: Mapping[str, np.ndarray],
        optimizer: torch.optim.Optimizer | None = None,
        *,
        loss: Loss | None = None,
    ) -> None:
        """Copy values by input name, e.g. of `TrainingLoop.values()`, into a model, an optimizer and a loss.

        Nothing is copied if anything does not fit. Values of the optimizer and of the loss are left out where these are
        not given. The optimizer keeps its learning rates.

        Raises `ValueError` if a value is missing, or the model or the optimizer is not of the step's kind.
        """
        if not isinstance(values, Mapping):
            raise TypeError(f"values is a {type(values).__name__}; it takes a mapping, e.g. what loop.values() returns")
        parameters, tensors = self._tensors(model, loss)
        groups = () if optimizer is None else self._same_groups(optimizer, parameters)
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

    def _tensors(self, model: nn.Module, loss: Loss | None) -> tuple[dict[str, nn.Parameter], dict[str, Tensor]]:
        """Return the parameters of a model and a loss by their names, and all tensors of both by input name.

        Raises `ValueError` unless they are those of the step.
        """
        parameters, buffers = WithLoss(module_of(model), loss, self.module.arguments).in_model()
        found = {name: tensor.detach() for name, tensor in names.tensors(parameters, buffers).items()}
        wanted = {name for name in self.values if not names.is_state(name)}
        if loss is None and isinstance(own := self.module.loss, nn.Module):
            wanted -= names.tensors(dict(own.named_parameters("loss")), dict(own.named_buffers("loss"))).keys()
        if different := found.keys() ^ wanted:
            raise ValueError(f"the model is not that of the step: only one of them has {', '.join(sorted(different))}")
        for name, tensor in found.items():
            if tensor.shape != self.values[name].shape:
                raise ValueError(
                    f"{name} of the model has shape {tuple(tensor.shape)}, the step's {self.values[name].shape}"
                )
        return parameters, found

    def _same_groups(self, optimizer: torch.optim.Optimizer, parameters: Mapping[str, Tensor]) -> tuple[Group, ...]:
        """Return the groups of the step. Raises `ValueError` if the optimizer has others, or keeps other state."""
        self._check_has_optimizer()
        trained = [name for group in self.groups for name in group.parameters]
        found = find_groups(optimizer, parameters, trained)
        theirs, own = ([(group.parameters, group.optimizer.slots) for group in each] for each in (found, self.groups))
        if theirs != own:
            raise ValueError("the optimizer has other groups than the step, or keeps other state for them")
        return found

    def _check_has_optimizer(self) -> None:
        if not self.groups:
            raise ValueError("the step has no optimizer: call this method of what export_update returns")
