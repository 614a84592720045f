# SPDX-License-Identifier: Apache-2.0

"""Gradients of maxima by reduction, as text: the genuine ones with some steps replaced, as look-alikes are made."""

from __future__ import annotations

from collections.abc import Mapping

from tests.heads import head

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


def global_max(
    *,
    inputs: str = "float[2,3,4,5] x, float[2,3,1,1] dy",
    outputs: str = "float[2,3,1,1] y, float[2,3,4,5] dx",
    constants: Mapping[str, str] | None = None,
    **steps: str,
) -> str:
    """Return the gradient of AdaptiveMaxPool2d(1) over x float[2,3,4,5], with some steps or constants replaced."""
    return _text(inputs, outputs, _GLOBAL_CONSTANTS | dict(constants or {}), _GLOBAL | steps)


def axis_max(
    *,
    inputs: str = "float[2,3,4,5] x, float[2,3,4] dy",
    outputs: str = "float[2,3,4] y, float[2,3,4,5] dx",
    constants: Mapping[str, str] | None = None,
    **steps: str,
) -> str:
    """Return the gradient of torch.max(x, 3) over x float[2,3,4,5], with some steps or constants replaced."""
    return _text(inputs, outputs, _AXIS_CONSTANTS | dict(constants or {}), _AXIS | steps)


def _text(inputs: str, outputs: str, constants: Mapping[str, str], steps: Mapping[str, str]) -> str:
    nodes, initializers = "\n".join(steps.values()), ", ".join(constants.values())
    return f"""{head(18)}
        g ({inputs}) => ({outputs}) <{initializers}> {{ {nodes} }}"""
