# SPDX-License-Identifier: Apache-2.0

"""The parameters of a form's writer for one pool: its input, its windows, and the choices of producers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from hypothesis import strategies as st
from onnx import TensorProto

from tests.generators.windows import PoolWindows, Windows


@lru_cache(maxsize=256)
def _pooled_shape(windows: Windows, x_shape: tuple[int, ...]) -> tuple[int, ...]:
    return windows.record(np.zeros(x_shape, np.float32))[0].shape


@dataclass(frozen=True)
class Spelling:
    """Choices that producers make in several forms; each form uses some of them."""

    remainder: bool = False  # plane-local by Mod, not by Slice and Sub
    extra: bool = False  # the longer of two ways: three axes, kept dims, a table of rows
    int32: bool = False  # indices are narrowed
    bare: bool = False  # attributes with default values are left out
    zeros: int = 0  # the scatter's base: 0 Expand, 1 ConstantOfShape, 2 a constant as large as x


SPELLINGS = st.builds(Spelling, *[st.booleans()] * 4, st.integers(0, 2))


@dataclass(frozen=True)
class Pooling:
    """One pool over x (N, C, spatial…), of which the batch (`symbols` 1) or all but C (2) may be symbols."""

    windows: Windows
    spelling: Spelling
    x_shape: tuple[int, ...]
    element_type: int
    symbols: int = 0

    @property
    def dynamic(self) -> bool:
        return self.symbols > 0

    @property
    def rank(self) -> int:
        return len(self.x_shape) - 2

    @property
    def planes(self) -> int:
        return math.prod(self.x_shape[:2])

    @property
    def plane(self) -> int:
        return math.prod(self.x_shape[2:])

    @property
    def pooled_shape(self) -> tuple[int, ...]:
        return _pooled_shape(self.windows, self.x_shape)

    @property
    def rows(self) -> list[int]:
        """The leading sizes for a Reshape to rows, one per plane."""
        batch = -1 if self.dynamic else self.x_shape[0]
        if self.spelling.extra:
            return [batch, self.x_shape[1]]
        return [-1 if self.dynamic else self.planes]

    @property
    def drops_a_window(self) -> bool:
        return isinstance(self.windows, PoolWindows) and self.windows.drop(self.x_shape[2:])

    @property
    def is_half(self) -> bool:
        return self.element_type in (TensorProto.FLOAT16, TensorProto.BFLOAT16)
