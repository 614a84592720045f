# SPDX-License-Identifier: Apache-2.0

"""The data of an exported training step, on which the comparison with PyTorch and the transfer of values work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import onnx
from torch import Tensor

from poolgrad_lowering.torch.groups import Group
from poolgrad_lowering.torch.joint import WithLoss

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
    """The fields of `TrainingStep`, where they are described."""

    model: onnx.ModelProto = field(repr=False)
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    values: Mapping[str, np.ndarray] = field(repr=False)
    examples: Mapping[str, np.ndarray] = field(repr=False)
    groups: tuple[Group, ...]
    module: WithLoss = field(repr=False)
    gradient_transform: GradientTransform | None = field(default=None, repr=False)
