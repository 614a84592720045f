# SPDX-License-Identifier: Apache-2.0

"""The names of the inputs and outputs of training steps, and of the random numbers within them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

LOSS = "loss"
LEARNING_RATE = "learning_rate"
TARGET = "target"
UPDATE = "update"
"""The input of a step that accumulates gradients: whether it also updates the weights."""
STEPS = "state.steps"
"""The input with the number of steps before this one, a float32 scalar."""
ACCUMULATED = "gradient"
"""The slot of the gradients that a step keeps for a later update."""

RANDOM = ("RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike")
"""The operators whose results are named by `random`."""

_WEIGHT, _STATE, _NEW, _RANDOM = "weight.", "state.", "new_", "random."

T = TypeVar("T")


def weight(parameter: str) -> str:
    """Return the input of a parameter, by the parameter's name in the model."""
    return _WEIGHT + parameter


def gradient(parameter: str) -> str:
    """Return the output, and the input of an update, that is the gradient of a parameter."""
    return f"grad.{parameter}"


def buffer(name: str) -> str:
    """Return the input of a buffer, e.g. of a running mean, by its name in the model."""
    return f"buffer.{name}"


def state(slot: str, parameter: str) -> str:
    """Return the input of a tensor that an optimizer keeps for a parameter."""
    return f"{_STATE}{slot}.{parameter}"


def tensors(parameters: Mapping[str, T], buffers: Mapping[str, T]) -> dict[str, T]:
    """Return parameters and buffers, by their names in the model, as values of inputs."""
    found = {weight(name): parameter for name, parameter in parameters.items()}
    return found | {buffer(name): value for name, value in buffers.items()}


def is_state(name: str) -> bool:
    """Whether an input is one that an optimizer keeps."""
    return name.startswith(_STATE)


def is_of_checkpoint(name: str) -> bool:
    """Whether an input is a weight or what an optimizer keeps, but for gradients that wait for an update."""
    return name.startswith((_WEIGHT, _STATE)) and not name.startswith(state(ACCUMULATED, ""))


def random(number: int) -> str:
    """Return the value within the graph that has random numbers, e.g. of a dropout layer, in PyTorch's order."""
    return f"{_RANDOM}{number}"


def random_number(name: str) -> int:
    """Return the number in a name that `random` made."""
    return int(name.removeprefix(_RANDOM))


def new(name: str) -> str:
    """Return the output that is the next value of an input."""
    return _NEW + name


def carried(outputs: Iterable[str]) -> dict[str, str]:
    """Return the input that each output is the next value of, by output."""
    return {name: name.removeprefix(_NEW) for name in outputs if name.startswith(_NEW)}
