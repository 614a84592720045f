# SPDX-License-Identifier: Apache-2.0

"""The data of an exported training step, on which the comparison with PyTorch and the transfer of values work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx

from poolgrad_lowering.torch.gradients import GradientTransform
from poolgrad_lowering.torch.groups import Group
from poolgrad_lowering.torch.joint import WithLoss


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
