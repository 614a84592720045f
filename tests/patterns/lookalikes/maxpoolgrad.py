# SPDX-License-Identifier: Apache-2.0

"""Look-alikes of onnxruntime-training's form, `MaxPoolGrad(dY, Indices)` in the default domain."""

from __future__ import annotations

from tests.heads import edges, head

_WINDOW = "kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]"


def gradient(
    *,
    pool: str = _WINDOW,
    attributes: str = f"<{_WINDOW}>",
    indices: str = "i",
    between: str = "",
    **ends: str,
) -> str:
    """Return the text of a forward pool with attributes `pool`, nodes `between`, and MaxPoolGrad with
    `attributes` on the value `indices`; `ends` are operands of `edges`."""
    inputs, outputs = edges(**ends)
    return f"""{head(17)}
        g ({inputs}) => ({outputs}) {{
            y, i = MaxPool <{pool}> (x)
            {between}
            dx = MaxPoolGrad {attributes} (dy, {indices})
        }}"""
