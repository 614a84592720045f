# SPDX-License-Identifier: Apache-2.0

"""One row of the table of look-alikes, and what its model is fed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from poolgrad_lowering.model.diagnostics.codes import Code

Array = npt.NDArray[Any]
Feeds = Mapping[str, Array]


@dataclass(frozen=True)
class Window:
    """The forward pool's attributes per spatial axis; pads as ONNX has them, begins before ends."""

    kernel_shape: tuple[int, ...] = (3, 3)
    strides: tuple[int, ...] = (2, 2)
    pads: tuple[int, ...] = (1, 1, 1, 1)


@dataclass(frozen=True)
class Lookalike:
    """A graph whose output `output` is, or only resembles, a pool gradient.

    A gradient of the pool `window` over the pair `operands(feeds)`, the pooled tensor and the incoming gradient, is
    lowered, anything else refused with the code. `reason` says why. `is_gradient` marks a gradient that is refused;
    `stays` that the forward pool does not move.
    """

    text: str
    reason: str
    code: Code | None = None
    is_gradient: bool = False
    stays: bool = False
    window: Window = Window()
    operands: Callable[[Feeds], tuple[Array, Array]] = lambda feeds: (feeds["x"], feeds["dy"])
    output: str = "dx"

    def build(self) -> onnx.ModelProto:
        """Return the graph as a model."""
        return onnx.parser.parse_model(self.text)

    def feeds(self, seed: int = 0) -> dict[str, Array]:
        """Return random inputs.

        The first and the last element of every plane are far below the others: an index shifted by one or two
        from a maximum is then still inside the tensor, and runs.
        """
        random = np.random.default_rng(seed)
        return {value.name: _sample(value, random) for value in self.build().graph.input}


def _sample(value: onnx.ValueInfoProto, random: np.random.Generator) -> Array:
    """Draw one input: normal floats, indices inside a plane of 16, or booleans."""
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    if dtype == np.bool_:
        return random.integers(0, 2, shape).astype(np.bool_)
    if dtype.kind == "i":
        return random.integers(0, 16, shape).astype(dtype)
    sample = random.standard_normal(shape).astype(dtype)
    if value.name.startswith("x"):
        sample.reshape(*shape[:2], -1)[..., [0, -1]] = -100
    return sample
