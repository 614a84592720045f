# SPDX-License-Identifier: Apache-2.0

"""A step of eager PyTorch with the tensors of an exported step, in their types or in a wider one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from poolgrad_lowering.model.ir import step_names as names
from poolgrad_lowering.torch.arrays import Arrays, to_array, to_tensor
from poolgrad_lowering.torch.errors import TorchExportError
from poolgrad_lowering.torch.explanations import sentence
from poolgrad_lowering.torch.exported_step import ExportedStep, transformed
from poolgrad_lowering.torch.groups import in_torch, load_state, state_of
from poolgrad_lowering.torch.internals.modes import Draws, InWiderType, without_one_dnn
from poolgrad_lowering.torch.joint import WithLoss
from poolgrad_lowering.torch.model_state import attributes_restored, replace
from poolgrad_lowering.torch.operators.compositions import GROUPED
from poolgrad_lowering.torch.operators.quantization import QUANTIZATIONS
from poolgrad_lowering.torch.operators.random_numbers import OF_RANDOM_NUMBERS

LEARNING_RATE = 0.01
"""That of the steps that are compared."""

MovedGradient = Callable[[str, Tensor], Tensor]


def rates(step: ExportedStep) -> dict[str, float]:
    """Return the learning rates of the comparison by input, another one for each group."""
    return {group.rate: LEARNING_RATE / 2**number for number, group in enumerate(step.groups)}


def eager_step(
    step: ExportedStep,
    inputs: Arrays,
    draws: Sequence[Tensor] | None = None,
    *,
    wide: torch.dtype | None = None,
    moved_gradient: MovedGradient | None = None,
) -> tuple[Arrays, list[Tensor]]:
    """Return the outputs of a step of eager PyTorch by name, and its random numbers.

    It computes in the types of the model, or in a wider one, float32 or float64. Random numbers are drawn, or given.
    The optimizer gets what `moved_gradient` makes of each gradient. The module is afterwards what it was. Raises
    `TorchExportError` if eager PyTorch cannot run the step, of which a trace computes nothing.
    """
    mode = None if wide is None else InWiderType(wide, {**QUANTIZATIONS, **GROUPED})
    values = {name: to_tensor(value) for name, value in inputs.items()}
    if mode is not None:
        values = {name: mode.widened(value) for name, value in values.items()}
    drawn = Draws(OF_RANDOM_NUMBERS, draws)
    with attributes_restored(step.module):
        parameters = _set(step.module, values)
        is_short = step.module.is_mixed or any(p.dtype.itemsize == 2 for p in parameters.values())
        with (
            without_one_dnn() if is_short else nullcontext(),
            torch.autocast("cpu", enabled=False),  # but the module's own
            mode or nullcontext(),
        ):
            found = _found(step, values, parameters, drawn, moved_gradient, wide)
    return {name: to_array(value) for name, value in found.items()}, drawn.values


def _set(module: WithLoss, values: Mapping[str, Tensor]) -> dict[str, nn.Parameter]:
    """Give the module copies of values as parameters and buffers, and return the parameters by name."""
    parameters, buffers = module.in_model()
    copies = {tensor: values[name].clone() for name, tensor in names.tensors(parameters, buffers).items()}
    copies |= {each: nn.Parameter(copies[each], each.requires_grad) for each in parameters.values()}
    replace(module, copies)
    return {name: copies[parameter] for name, parameter in parameters.items()}


def _found(
    step: ExportedStep,
    values: Mapping[str, Tensor],
    parameters: dict[str, nn.Parameter],
    drawn: Draws,
    moved_gradient: MovedGradient | None,
    wide: torch.dtype | None,
) -> dict[str, Tensor]:
    torch.clear_autocast_cache()  # of the weights before the last update
    try:
        with torch.enable_grad():
            with drawn:
                loss = step.module(*(values[name] for name in step.examples))
            loss.backward()
    except (RuntimeError, ValueError, TypeError, IndexError) as error:  # those of torch
        where = "" if wide is None else f" in {wide}".replace("torch.", "")
        raise TorchExportError(
            f"the step cannot be compared, since eager PyTorch cannot run it{where}: {sentence(error)}"
        ) from error
    gradients = {name: p.grad.to_dense() for name, p in parameters.items() if p.grad is not None}
    with drawn:
        changed = transformed(gradients, step.gradient_transform)
    for name, gradient in changed.items():
        parameters[name].grad = gradient if moved_gradient is None else moved_gradient(name, gradient)
    found = {names.LOSS: loss}
    found |= {names.gradient(name): p.grad for name, p in parameters.items() if p.grad is not None}
    after = names.tensors(*step.module.in_model())
    if step.groups:
        optimizer = in_torch(step.groups, parameters, rates(step))
        load_state(step.groups, values, optimizer, parameters)
        optimizer.step()
        after |= state_of(step.groups, optimizer, parameters)
        if isinstance(optimizer, torch.optim.SGD) and names.STEPS in after:
            after[names.STEPS] = values[names.STEPS] + 1  # SGD counts none
    return found | {names.new(name): value for name, value in after.items()}
