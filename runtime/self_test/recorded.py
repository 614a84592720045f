# SPDX-License-Identifier: Apache-2.0

"""What Ascend's own kernels compute: inputs and results of calls of them, which are data of this package.

docs/hardware.md says how they were recorded, and what they do not show.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from poolgrad_lowering.dialect import OPS, Op
from poolgrad_lowering.runtime.self_test.cases import ELEMENT_TYPES, ElementType
from poolgrad_lowering.runtime.self_test.poolings import Pooling
from poolgrad_lowering.runtime.self_test.reference import Array

_FILE = Path(__file__).with_name("recorded.npz")


@dataclass(frozen=True)
class Recorded:
    """A call of the kernel of `op` on Atlas A2.

    `tensors` has "x", "grad", "argmax" and "y", as far as the operator has them; the result of a gradient is "y". A
    gradient does not read x. Those of float16 and bfloat16 are their bits, as uint16.
    """

    op: Op
    element: ElementType
    pooling: Pooling
    tensors: Mapping[str, Array]

    def floats(self, name: str) -> Array:
        """Return a tensor, other than argmax, in float32."""
        bits = self.tensors[name]
        if self.element.name == "bfloat16":
            return (bits.astype(np.uint32) << 16).view(np.float32)
        return bits.view(np.float16 if self.element.name == "float16" else np.float32).astype(np.float32)


@cache
def recorded() -> tuple[Recorded, ...]:
    """Return all recorded calls, by operator."""
    with np.load(_FILE) as file:
        rows, data = json.loads(str(file["cases"])), file["data"].tobytes()
    elements = {element.name: element for element in ELEMENT_TYPES}
    calls, offset = list[Recorded](), 0
    for row in rows:
        op, element = OPS[row.pop("operator")], elements[row.pop("element")]
        windows: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in row.items()}
        pooling = Pooling("recorded", **windows)
        tensors = dict[str, Array]()
        for name, shape in _shapes(op, pooling).items():
            floats = np.float32 if element.name == "float32" else np.uint16
            flat = np.frombuffer(data, np.int32 if name == "argmax" else floats, math.prod(shape), offset)
            tensors[name] = flat.reshape(shape).copy()  # aligned
            offset += flat.nbytes
        calls.append(Recorded(op, element, pooling, tensors))
    return tuple(calls)


def _shapes(op: Op, pooling: Pooling) -> dict[str, tuple[int, ...]]:
    """The shapes of a call's tensors, in the order of the file."""
    x, pooled = pooling.x_shape, pooling.pooled_shape
    argmax = {"argmax": pooled} if op.has_argmax else {}
    return {"grad": pooled, **argmax, "y": x} if op.is_gradient else {"x": x, **argmax, "y": pooled}
