# SPDX-License-Identifier: Apache-2.0

"""Look-alikes of the form that PyTorch's exporter writes: pool Indices, made plane-local, into ScatterElements.

Each is the genuine gradient (`gradient()` unchanged) with one step replaced.
"""

from __future__ import annotations

from tests.heads import head

# The genuine form over x float[2,3,9,12] with a 3x3 window, stride 2, padding 1: step name -> node.
_STEPS = {
    "pool": "y, i = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)",
    "companion": "y1, i1 = MaxPool <kernel_shape=[1,1], strides=[1,1]> (x)",
    "first": "d = Slice (i1, starts, ends, axes)",
    "plane_local": "p = Sub (i, d)",
    "rows": "r = Reshape (p, row_shape)",
    "updates": "u = Reshape (dy, row_shape)",
    "canvas": "z = Expand (zero, canvas_shape)",
    "scatter": 's = ScatterElements <axis=1, reduction="add"> (z, r, u)',
    "result": "dx = Reshape (s, x_shape)",
}

_CONSTANTS = {
    "starts": "int64[2] starts = {0, 0}",
    "ends": "int64[2] ends = {1, 1}",
    "axes": "int64[2] axes = {2, 3}",
    "row_shape": "int64[2] row_shape = {6, 30}",
    "canvas_shape": "int64[2] canvas_shape = {6, 108}",
    "x_shape": "int64[4] x_shape = {2, 3, 9, 12}",
    "zero": "float zero = {0}",
}


def gradient(
    *,
    inputs: str = "float[2,3,9,12] x, float[2,3,5,6] dy",
    outputs: str = "float[2,3,5,6] y, float[2,3,9,12] dx",
    constants: dict[str, str] | None = None,
    **steps: str,
) -> str:
    """Return the text of the genuine gradient with some steps (several nodes in a step: one per line),
    constants, inputs or outputs replaced; a step replaced by "" is left out."""
    nodes = "\n".join((_STEPS | steps).values())
    initializers = ", ".join((_CONSTANTS | (constants or {})).values())
    return f"""{head(18)}
        g ({inputs}) => ({outputs}) <{initializers}> {{ {nodes} }}"""


def constant_indices() -> str:
    """Return the row indices a trace would have frozen: one per pooled position, every plane alike."""
    row = [(7 * position) % 108 for position in range(30)]
    return f"int64[6,30] frozen = {{{', '.join(map(str, row * 6))}}}"
