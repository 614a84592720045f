"""The body of a max pool in ONNX text: ONNX's own MaxPool, and three nodes that count its Indices within a plane.

The windows are the node's attributes in ONNX's words, taken by reference, so one body serves every rank and window.
Values, ties, -inf and NaN come out as the runtime's MaxPool has them: a lowered pool gives what the pool in its place
gave. The body is small because a runtime's optimizers work on every node of it: each release has its own faults there.
"""

from __future__ import annotations

from poolgrad_lowering.dialect import onnx_window

#: The first opset whose MaxPool has `ceil_mode` and `dilations`, and the first with Mod.
OLDEST_POOL_OPSET = 10

_PARTIAL_SHAPE_OPSET = 15

_POOL = f"""
    {{values}}, indices = MaxPool<kernel_shape: ints = @{onnx_window.KERNEL}, strides: ints = @{onnx_window.STRIDES},
        pads: ints = @{onnx_window.PADS}, dilations: ints = @{onnx_window.DILATIONS},
        ceil_mode: int = @{onnx_window.CEIL}>({{x}})
{{plane_shape}}    plane = ReduceProd<keepdims = 0>(plane_shape)
    in_plane = Mod(indices, plane)
    argmax = Cast<to = {{index_type}}>(in_plane)
"""

_PLANE_SHAPE = """    plane_shape = Shape<start = 2>(x)
"""

_SLICED_PLANE_SHAPE = """    first_spatial = Constant<value = int64[1] {2}>()
    end = Constant<value = int64[1] {9223372036854775807}>()
    shape = Shape(x)
    plane_shape = Slice(shape, first_spatial, end)
"""


def pool_text(opset: int, index_type: int, narrow: str | None) -> str:
    """Nodes that compute y and argmax (`index_type`) from x, in ONNX text.

    `narrow` is the node, with a place for its operand, that converts float32 to x's type, where MaxPool does not take
    that; else None. Only default-domain operators as of `opset`.
    """
    plane_shape = _PLANE_SHAPE if opset >= _PARTIAL_SHAPE_OPSET else _SLICED_PLANE_SHAPE
    if narrow is None:
        return _POOL.format(x="x", values="y", plane_shape=plane_shape, index_type=index_type)
    pool = _POOL.format(x="wide_x", values="values", plane_shape=plane_shape, index_type=index_type)
    return f"    wide_x = Cast<to = 1>(x)\n{pool}    y = {narrow.format('values')}\n"
