# SPDX-License-Identifier: Apache-2.0

"""Deliberate errors in exported steps, which a comparison has to find."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import onnx

from poolgrad_lowering.torch import TrainingStep


def followed(step: TrainingStep, output: str, *operators: str, factor: float | None = None) -> None:
    """Put operators with one operand, or with the result of the one before twice, or a factor, behind an output."""
    graph = step.model.graph
    [node] = [node for node in graph.node if output in node.output]
    names = [f"{output}.{number}" for number in range(len(operators))] + [output]
    node.output[list(node.output).index(output)] = names[0]
    for reader in graph.node:
        reader.input[:] = [names[0] if name == output else name for name in reader.input]
    others: list[str] = []
    if factor is not None:
        graph.initializer.append(onnx.numpy_helper.from_array(np.array(factor, np.float32), f"{output}.factor"))
        others = [f"{output}.factor"]
    for operator, (source, result) in zip(operators, pairwise(names), strict=True):
        twice = [source] if operator in ("Sub", "Div") and not others else []
        graph.node.append(onnx.helper.make_node(operator, [source, *twice, *others], [result], f"node_{result}_edit"))
