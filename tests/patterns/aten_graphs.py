# SPDX-License-Identifier: Apache-2.0

"""Texts of graphs in which the pool and its gradient are kept as PyTorch's operators, or as a user's nodes.

`ends` are operands of `tests.heads.edges`.
"""

from __future__ import annotations

from tests.heads import edges, head

SIZES = edges()
ARGUMENTS = "k, s, p, d, ceil"
CONSTANTS = """k = Constant <value = int64[2] {3,3}> ()
    s = Constant <value = int64[2] {2,2}> ()
    p = Constant <value = int64[2] {1,1}> ()
    d = Constant <value = int64[2] {1,1}> ()
    ceil = Constant <value = bool {0}> ()"""
FORWARD = 'y, i = org.pytorch.aten.ATen <operator="max_pool2d_with_indices"> (x, k, s, p, d, ceil)'
WHOLE_PLANE = """shape = Shape (x)
    from = Constant <value = int64[1] {2}> ()
    to = Constant <value = int64[1] {4}> ()
    k = Slice (shape, from, to)
    p = Constant <value = int64[2] {0,0}> ()
    d = Constant <value = int64[2] {1,1}> ()
    ceil = Constant <value = bool {0}> ()"""
"""The kernel of a pool over the whole plane, whatever its size."""
PLANE_INDICES = """y, t = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)
    plane = Constant <value = int64 {108}> ()
    i = Mod (t, plane)"""


def model(body: str, inputs: str = SIZES[0], outputs: str = SIZES[1], *, opset: int = 17, types: str = "") -> str:
    """Return a model's text; `types` declares inner values."""
    declared = f"<{types}>" if types else ""
    return f"""{head(opset, "org.pytorch.aten", "npu", "com.microsoft")}
        g ({inputs}) => ({outputs}) {declared} {{ {body} }}"""


def max_pool_gradient(
    *,
    constants: str = CONSTANTS,
    forward: str = FORWARD,
    between: str = "",
    backward: str = 'dx = org.pytorch.aten.ATen <operator="max_pool2d_with_indices_backward">',
    operands: str = f"dy, x, {ARGUMENTS}, i",
    opset: int = 17,
    types: str = "",
    **ends: str,
) -> str:
    """Return the text of a 3×3 pool with stride 2 and padding 1, and its gradient, as ORTModule writes them."""
    body = "\n".join(filter(None, (constants, forward, between, f"{backward} ({operands})")))
    inputs, outputs = edges(**ends)
    return model(body, inputs, outputs, opset=opset, types=types)


def adaptive_gradient(
    sizes: str = "4,5",
    *,
    extent: str = "9,12",
    forward: str = 'y, i = org.pytorch.aten.ATen <operator="adaptive_max_pool2d"> (x, size)',
    backward: str = 'dx = org.pytorch.aten.ATen <operator="adaptive_max_pool2d_backward"> (dy, x, i)',
    constant: str = "",
    outputs: str = "",
) -> str:
    """Return the text of an adaptive pool over [2, 3, extent] to `sizes`, and its gradient."""
    rank = len(sizes.split(","))
    constant = constant or f"size = Constant <value = int64[{rank}] {{{sizes}}}> ()"
    return model(
        "\n".join((constant, forward, backward)),
        f"float[2,3,{extent}] x, float[2,3,{sizes}] dy",
        outputs or f"float[2,3,{sizes}] y, float[2,3,{extent}] dx",
    )


def axis_gradient(
    *,
    dim: str = "2",
    keepdim: str = "0",
    forward: str = 'y, i = org.pytorch.aten.ATen <operator="max", overload_name="dim"> (x, dim, keep)',
    sizes: str = "sizes = Shape (x)",
    between: str = "",
    backward: str = 'dx = org.pytorch.aten.ATen <operator="value_selecting_reduction_backward">',
    operands: str = "dy, dim, i, sizes, keep",
    x: str = "2,3,9,12",
    y: str = "2,3,12",
    **ends: str,
) -> str:
    """Return the text of a maximum over one axis, by default the first spatial one, and its gradient."""
    inputs, outputs = edges(x, y, **ends)
    return model(
        f"""dim = Constant <value = int64 {{{dim}}}> ()
            keep = Constant <value = bool {{{keepdim}}}> ()
            {forward}
            {sizes}
            {between}
            {backward} ({operands})""",
        inputs,
        outputs,
    )


def user_gradient(
    *,
    forward: str = PLANE_INDICES,
    attributes: str = "kernel_size=[3,3], stride=[2,2], padding=[1,1], dilation=[1,1], ceil_mode=0",
    operands: str = "dy, x, i",
    types: str = "",
    **ends: str,
) -> str:
    """Return the text of a pool and a user's backward node."""
    node = f"dx = npu.NPUMaxPool2dWithIndicesBackward <{attributes}> ({operands})"
    inputs, outputs = edges(**ends)
    return model(f"{forward}\n{node}", inputs, outputs, types=types)
