# SPDX-License-Identifier: Apache-2.0

"""Training steps at the widths of real networks: PyTorch's joint forward and backward graphs, exported on demand.

The networks are reduced so that a step takes about a second on a CPU: fewer images, and no layers after the last pool.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx


@dataclass(frozen=True)
class Step:
    """A network's training step: its name, a description, the number of pools, and the shape of the input."""

    name: str
    remarks: str
    pools: int
    input_shape: tuple[int, ...]


STEPS = (
    Step("ResNet-50", "the stem, whose windows overlap", 1, (4, 3, 112, 112)),
    Step("VGG-16", "the features, five pools between 13 convolutions", 5, (1, 3, 96, 96)),
    Step("U-Net", "four levels down and up, 64 to 512 channels", 3, (1, 1, 96, 96)),
    Step("C3D", "three of its blocks, with 3-D pools", 3, (1, 3, 8, 56, 56)),
)


def export(step: Step) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The joint graph of a step with its float32 weights, and its feeds by name. Needs PyTorch."""
    from benchmarks.training_networks import NETWORKS
    from models import torch_joint
    from models.torch_nets import Net

    net = Net(step.remarks, NETWORKS[step.name], step.input_shape, pools=step.pools)
    model, arrays = torch_joint.export(net)
    return model, {key.removeprefix("in:"): array for key, array in arrays.items() if key.startswith("in:")}
