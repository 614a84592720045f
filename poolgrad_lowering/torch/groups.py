# SPDX-License-Identifier: Apache-2.0

"""The groups of parameters that an optimizer updates: in tensors by name, and in an optimizer of torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from poolgrad_lowering.model.ir import step_names as names
from poolgrad_lowering.torch.internals.trees import has_step_hooks
from poolgrad_lowering.torch.optimizers import KINDS, Optimizer, Tensors

OptimizerName = Literal["sgd", "adadelta", "adagrad", "adam", "adamax", "adamw", "lion", "nadam", "radam", "rmsprop"]
AnyOptimizer: TypeAlias = Optimizer | OptimizerName | torch.optim.Optimizer

_BY_NAME = {kind.__name__.lower(): kind() for kind in KINDS}
_BY_CLASS = {kind.IN_TORCH: kind for kind in KINDS}


@dataclass(frozen=True)
class Group:
    """Parameters that an optimizer updates with the same settings and the same learning rate.

    `rate` is the input with the rate: `learning_rate`, and `learning_rate.<n>` where there are several groups.
    """

    optimizer: Optimizer
    parameters: tuple[str, ...]
    rate: str


def _state(group: Group, parameter: str) -> dict[str, str]:
    """Return the inputs with what is kept for a parameter, by slot."""
    return {slot: names.state(slot, parameter) for slot in group.optimizer.slots}


def find_groups(optimizer: object, parameters: Mapping[str, Tensor], trained: Iterable[str]) -> tuple[Group, ...]:
    """Return the groups of the trained parameters in an optimizer: of this package, a name, or an object of torch.

    `parameters` are those of the model by name, to find the ones that torch's optimizer holds. What it does not hold
    is in no group.

    Raises `ValueError` for a name that is unknown, settings that are not taken, and parameters of another model;
    `TypeError` for another optimizer.
    """
    if isinstance(optimizer, torch.optim.Optimizer) and type(optimizer) in _BY_CLASS:
        return _groups_of_torch(optimizer, parameters, frozenset(trained))
    if isinstance(optimizer, str) and optimizer in _BY_NAME:
        optimizer = _BY_NAME[optimizer]
    if isinstance(optimizer, Optimizer):
        return (Group(optimizer, tuple(trained), names.LEARNING_RATE),)
    taken = (
        f"it takes None, {', '.join(map(repr, _BY_NAME))}, and objects of the classes of these names, of torch.optim "
        "or of poolgrad_lowering.torch"
    )
    if isinstance(optimizer, str):
        raise ValueError(f"optimizer is {optimizer!r}; {taken}")  # noqa: TRY004 - a name of the right type
    kind = optimizer if isinstance(optimizer, type) else type(optimizer)
    what = f"the class {kind.__name__}" if kind is optimizer else f"a {kind.__module__}.{kind.__qualname__}"
    raise TypeError(f"optimizer is {what}; {taken}")


def _groups_of_torch(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, Tensor], trained: frozenset[str]
) -> tuple[Group, ...]:
    if has_step_hooks(optimizer):
        raise ValueError(
            "the optimizer has a hook on its step, which no exported step runs: remove it, and call it in the loop"
        )
    by_tensor = {parameter: name for name, parameter in parameters.items()}
    groups = []
    for number, group in enumerate(optimizer.param_groups):
        if not all(parameter in by_tensor for parameter in group["params"]):
            raise ValueError(f"group {number} of the optimizer has a parameter that neither model nor loss have")
        held = tuple(name for parameter in group["params"] if (name := by_tensor[parameter]) in trained)
        rate = names.LEARNING_RATE if len(optimizer.param_groups) == 1 else f"{names.LEARNING_RATE}.{number}"
        groups.append(Group(_BY_CLASS[type(optimizer)].of_group(group), held, rate))
    return tuple(groups)


def initial_state(groups: Sequence[Group], weights: Mapping[str, Tensor]) -> Tensors:
    """Return the state before the first step, by input name."""
    state = {names.STEPS: torch.zeros(())} if any(group.optimizer.counts_steps for group in groups) else {}
    for group in groups:
        for name in group.parameters:
            kept = _state(group, name).items()
            state |= {value: group.optimizer.initial(slot, weights[name]) for slot, value in kept}
    return state


def update_names(groups: Sequence[Group]) -> list[str]:
    """Return the input names of what `update` returns a new value of."""
    found = [names.STEPS] if any(group.optimizer.counts_steps for group in groups) else []
    for group in groups:
        for name in group.parameters:
            found += [names.weight(name), *_state(group, name).values()]
    return found


def update(groups: Sequence[Group], values: Mapping[str, Tensor], gradients: Mapping[str, Tensor]) -> Tensors:
    """Return the new weights and the new state, by input name. `values` has weights, state and rates."""
    results = {}
    steps = torch.zeros(())
    if names.STEPS in values:
        results[names.STEPS] = steps = values[names.STEPS] + 1
    for group in groups:
        factors = group.optimizer.factors(values[group.rate], steps)
        for name in group.parameters:
            inputs = {"weight": names.weight(name), **_state(group, name)}
            given = {slot: values[source] for slot, source in inputs.items()}
            found = group.optimizer.update(given["weight"], gradients[name], given, factors)
            results |= {inputs[slot]: value for slot, value in found.items()}
    return results


def in_torch(
    groups: Sequence[Group], parameters: Mapping[str, Tensor], rates: Mapping[str, float]
) -> torch.optim.Optimizer:
    """Return torch's optimizer with the same groups."""
    settings = [
        {"params": [parameters[name] for name in group.parameters], "lr": rates[group.rate], **group.optimizer.settings}
        for group in groups
    ]
    return groups[0].optimizer.IN_TORCH(settings, lr=0.0)


def state_of(groups: Sequence[Group], optimizer: object, parameters: Mapping[str, Tensor]) -> Tensors:
    """Return what torch's optimizer keeps, by input name; where it keeps nothing yet, the state before the first step.

    So is the state of an optimizer that is none of torch.

    Raises `ValueError` if it has taken another number of steps for one parameter than for another.
    """
    state = initial_state(groups, parameters)
    if not isinstance(optimizer, torch.optim.Optimizer):
        return state
    counted = set()
    for group in groups:
        for name in group.parameters:
            kept = optimizer.state.get(parameters[name], {})
            if group.optimizer.counts_steps:
                counted.add(float(kept.get("step", bool(kept))))  # SGD counts none
            for slot, theirs in group.optimizer.slots.items():
                if kept.get(theirs) is not None:
                    state[names.state(slot, name)] = kept[theirs]
    if names.STEPS in state:
        if len(counted) > 1:
            raise ValueError("the optimizer has counted other numbers of steps for some parameters than for others")
        state[names.STEPS] = torch.tensor(*counted)
    return state


def load_state(
    groups: Sequence[Group],
    state: Mapping[str, Tensor],
    optimizer: torch.optim.Optimizer,
    parameters: Mapping[str, Tensor],
) -> None:
    """Make a state, by input name, that of torch's optimizer."""
    for group in groups:
        for name in group.parameters:
            kept = {theirs: state[names.state(slot, name)] for slot, theirs in group.optimizer.slots.items()}
            if names.STEPS in state:
                kept["step"] = state[names.STEPS].clone()
                if isinstance(optimizer, torch.optim.SGD) and not kept["step"]:
                    kept = {}  # with a momentum, the first step would be a later one
            optimizer.state[parameters[name]] = kept
