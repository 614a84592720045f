# SPDX-License-Identifier: Apache-2.0

"""A small network with one pool, its training step, and deliberate errors in steps."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import torch
from torch import Tensor, nn

from poolgrad_lowering.torch import TrainingStep, export_training_step

X = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(4) % 2
LOSS = nn.functional.cross_entropy


def small(*layers: nn.Module) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), *layers, nn.MaxPool2d(2), nn.Flatten(), nn.LazyLinear(2))


def initialised(model: nn.Module, x: Tensor = X) -> nn.Module:
    """The model after its lazy layers got their sizes."""
    with torch.no_grad():
        model.eval()(x)
    return model.train()


def export(model: nn.Module, x: Tensor = X, **options: Any) -> TrainingStep:
    return export_training_step(initialised(model, x), LOSS, (x, LABELS), **options)


def followed(step: TrainingStep, output: str, *operators: str, factor: Any = None) -> None:
    """Put operators with one operand, or with the result of the one before twice, or a factor, behind an output."""
    graph = step.model.graph
    [node] = [node for node in graph.node if output in node.output]
    names = [f"{output}.{number}" for number in range(len(operators))] + [output]
    node.output[list(node.output).index(output)] = names[0]
    for reader in graph.node:
        reader.input[:] = [names[0] if name == output else name for name in reader.input]
    others: list[str] = []
    if factor is not None:
        graph.initializer.append(
            onnx.numpy_helper.from_array(np.asarray(factor, getattr(factor, "dtype", np.float32)), f"{output}.factor")
        )
        others = [f"{output}.factor"]
    for operator, (source, result) in zip(operators, pairwise(names), strict=True):
        twice = [source] if operator in ("Sub", "Div") and not others else []
        graph.node.append(onnx.helper.make_node(operator, [source, *twice, *others], [result], f"node_{result}_edit"))
