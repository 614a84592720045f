# SPDX-License-Identifier: Apache-2.0

"""Look-alikes of the form that PyTorch's exporter writes: pool Indices, made plane-local, into ScatterElements.

Each is the genuine gradient (`gradient()` unchanged) with one step replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.heads import edges, head

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


def gradient(x: str = "2,3,9,12", y: str = "2,3,5,6", **changes: Any) -> str:
    """Return the text of the genuine gradient, changed as `written` says."""
    return written(x, y, _CONSTANTS, _STEPS, **changes)


def written(
    x: str,
    y: str,
    initializers: Mapping[str, str],
    nodes: Mapping[str, str],
    *,
    element: str = "float",
    more: str = "",
    inputs: str = "",
    outputs: str = "",
    constants: Mapping[str, str] | None = None,
    **steps: str | list[int],
) -> str:
    """Return the text of a gradient over x and y of these sizes, with `more` inputs, or others, and with some steps
    (several nodes in a step: one per line) or constants replaced.

    A step replaced by "" is left out; one that is a list of integers is the constant of its name.
    """
    texts = {name: step for name, step in steps.items() if isinstance(step, str)}
    lists = {
        name: f"int64[{len(step)}] {name} = {{{', '.join(map(str, step))}}}"
        for name, step in steps.items()
        if isinstance(step, list)
    }
    body = "\n".join({**nodes, **texts}.values())
    held = ", ".join({**initializers, **(constants or {}), **lists}.values())
    given, results = edges(x, y, element=element, more=more, inputs=inputs, outputs=outputs)
    return f"""{head(18)}
        g ({given}) => ({results}) <{held}> {{ {body} }}"""


def constant_indices() -> str:
    """Return the row indices a trace would have frozen: one per pooled position, every plane alike."""
    row = [(7 * position) % 108 for position in range(30)]
    return f"int64[6,30] frozen = {{{', '.join(map(str, row * 6))}}}"
