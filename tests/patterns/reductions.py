# SPDX-License-Identifier: Apache-2.0

"""Gradients of maxima by reduction, as text: the genuine ones with some steps replaced, as look-alikes are made."""

from __future__ import annotations

from typing import Any

from tests.patterns.lookalikes.scatter import written

_GLOBAL = {
    "forward": "y = ReduceMax <keepdims=1> (x, axes)",
    "flat": "f = Reshape (x, flat_shape)",
    "maximum": "a = ArgMax <axis=-1, keepdims=0, select_last_index=0> (f)",
    "indices": "a1 = Unsqueeze (a, last)\na2 = Unsqueeze (a1, last)\nr = Reshape (a2, row_shape)",
    "updates": "u = Reshape (dy, row_shape)",
    "canvas": "z = Expand (zero, canvas_shape)",
    "scatter": 's = ScatterElements <axis=1, reduction="add"> (z, r, u)',
    "result": "dx = Reshape (s, x_shape)",
}
_GLOBAL_CONSTANTS = {
    "axes": "int64[2] axes = {2, 3}",
    "flat_shape": "int64[3] flat_shape = {2, 3, 20}",
    "last": "int64[1] last = {-1}",
    "row_shape": "int64[2] row_shape = {6, 1}",
    "canvas_shape": "int64[2] canvas_shape = {6, 20}",
    "x_shape": "int64[4] x_shape = {2, 3, 4, 5}",
    "zero": "float zero = {0}",
}
_AXIS = {
    "forward": "y = ReduceMax <keepdims=0> (x, axes)",
    "maximum": "a = ArgMax <axis=3, keepdims=0, select_last_index=0> (x)",
    "indices": "r = Unsqueeze (a, axes)",
    "updates": "u = Unsqueeze (dy, axes)",
    "canvas": "z = Expand (zero, x_shape)",
    "scatter": 'dx = ScatterElements <axis=3, reduction="none"> (z, r, u)',
}
_AXIS_CONSTANTS = {
    "axes": "int64[1] axes = {3}",
    "x_shape": "int64[4] x_shape = {2, 3, 4, 5}",
    "zero": "float zero = {0}",
}


def global_max(x: str = "2,3,4,5", y: str = "2,3,1,1", **changes: Any) -> str:
    """Return the gradient of AdaptiveMaxPool2d(1), changed as `written` says."""
    return written(x, y, _GLOBAL_CONSTANTS, _GLOBAL, **changes)


def axis_max(x: str = "2,3,4,5", y: str = "2,3,4", **changes: Any) -> str:
    """Return the gradient of torch.max(x, 3), changed as `written` says."""
    return written(x, y, _AXIS_CONSTANTS, _AXIS, **changes)
