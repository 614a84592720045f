# SPDX-License-Identifier: Apache-2.0

"""Whether a model keeps something from one forward pass to the next beside its parameters and buffers.

A number that forward counts up, or a tensor in a list that it replaces, would be a constant of the exported step. Most
of what modules keep so is a cache or a counter that no result depends on; so a model is run twice to see.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from poolgrad_lowering.torch.errors import TorchExportError
from poolgrad_lowering.torch.model_state import (
    CONTAINERS,
    attributes_restored,
    identities,
    numbers_restored,
    random_numbers_restored,
    replace,
)


def check_second_pass(module: nn.Module, examples: Mapping[str, Tensor]) -> None:
    """Raise `TorchExportError` if the loss is another one in a second pass with the same tensors and random numbers.

    Random numbers of torch, that is: those of Python and numpy go on, and would be constants of the step.
    A module that does not give one loss twice from the same attributes either, or cannot run, is not judged.
    """
    try:
        with attributes_restored(module), numbers_restored(module), random_numbers_restored():
            before = _kept(module)
            first = _loss(module, examples)
            kept = [name.removeprefix("model.") for name, value in _kept(module).items() if before.get(name) != value]
            second = _loss(module, examples)
        if first.equal(second) or bool(second.isnan().all()):
            return
        with attributes_restored(module), numbers_restored(module), random_numbers_restored():
            again = _loss(module, examples)
    except Exception:
        return
    if first.equal(again):
        outside = "something outside of its modules, maybe Python's random numbers"
        names = ", ".join(map(repr, kept[:3])) or outside
        raise TorchExportError(
            f"the model's forward changes {names}, which is neither parameter nor buffer, and the loss depends on it: "
            f"a second pass gives {second.item():.6g} in place of {first.item():.6g}. Each step would begin with its "
            "value of now: register it as a buffer; draw random numbers by torch"
        )


def _loss(module: nn.Module, examples: Mapping[str, Tensor]) -> Tensor:
    """Return the loss of one pass, which has copies of parameters and buffers."""
    own = [(entries, dict(entries)) for part in module.modules() for entries in (part._parameters, part._buffers)]  # noqa: SLF001
    replace(module, {tensor: _copy(tensor) for tensor in (*module.parameters(), *module.buffers())})
    with torch.random.fork_rng(devices=[]), torch.autocast("cpu", enabled=False), torch.enable_grad():
        loss: Tensor = module(*map(_copy, examples.values()))
    for entries, held in own:
        entries.update(held)
    return loss.detach()


def _copy(tensor: Tensor) -> Tensor:
    copied = tensor.detach().clone()
    return nn.Parameter(copied, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else copied


def _kept(module: nn.Module) -> dict[str, Any]:
    """Return the identities of what all modules hold in attributes, but parameters, buffers and modules, by name."""
    return {
        f"{path}.{name}".removeprefix("."): identities(value) if isinstance(value, CONTAINERS) else id(value)
        for path, part in module.named_modules()
        for name, value in vars(part).items()
        if not name.startswith(("_parameters", "_buffers", "_modules"))
    }
