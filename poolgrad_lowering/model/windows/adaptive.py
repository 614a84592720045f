# SPDX-License-Identifier: Apache-2.0

"""The windows of adaptive pooling, where a pool may have these or others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from poolgrad_lowering.model.ir.dims import Shape
from poolgrad_lowering.model.windows.onnx_pool import PoolAttributes


@dataclass(frozen=True)
class AdaptiveWindows:
    """The windows of adaptive pooling: on an axis, window `o` spans ⌊o·in/out⌋ … ⌈(o+1)·in/out⌉ − 1 (PyTorch)."""


class Windows(NamedTuple):
    """The windows that a node states, with the output sizes where it states those too."""

    attributes: PoolAttributes | AdaptiveWindows
    sizes: Shape = ()
