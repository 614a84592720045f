# SPDX-License-Identifier: Apache-2.0

"""The names of the inputs and outputs of training steps."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

LOSS = "loss"
LEARNING_RATE = "learning_rate"
TARGET = "target"

RANDOM = ("RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike")
"""The operators whose results are named by `random`."""

_NEW = "new_"
_RANDOM = "random."


def weight(parameter: str) -> str:
    """Return the input of a parameter, by the parameter's name in the model."""
    return f"weight.{parameter}"


def gradient(parameter: str) -> str:
    """Return the output, and the input of an update, that is the gradient of a parameter."""
    return f"grad.{parameter}"


def buffer(name: str) -> str:
    """Return the input of a buffer, e.g. of a running mean, by its name in the model."""
    return f"buffer.{name}"


def state(slot: str, parameter: str) -> str:
    """Return the input of a tensor that an optimizer keeps for a parameter."""
    return f"state.{slot}.{parameter}"


def tensors(parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return parameters and buffers, by their names in the model, as values of inputs."""
    found = {weight(name): parameter for name, parameter in parameters.items()}
    return found | {buffer(name): value for name, value in buffers.items()}


def is_state(name: str) -> bool:
    """Whether an input is one that an optimizer keeps."""
    return name.startswith("state.")


def random(number: int) -> str:
    """Return the value within the graph that has random numbers, e.g. of a dropout layer, in PyTorch's order."""
    return f"{_RANDOM}{number}"


def random_number(name: str) -> int:
    """Return the number in a name that `random` made."""
    return int(name.removeprefix(_RANDOM))


def new(name: str) -> str:
    """Return the output that is the next value of an input."""
    return _NEW + name


def carried(outputs: tuple[str, ...]) -> dict[str, str]:
    """Return the input that each output is the next value of, by output."""
    return {name: name.removeprefix(_NEW) for name in outputs if name.startswith(_NEW)}
