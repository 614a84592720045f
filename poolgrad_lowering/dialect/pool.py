# SPDX-License-Identifier: Apache-2.0

"""The function body of a max pool in ONNX text: ONNX's MaxPool, and nodes that make its Indices plane-local.

The body uses the op's ONNX window attributes by reference, so one body is valid for every rank and window. Results for
ties, -inf and NaN are those of the runtime's MaxPool, as before the lowering. The body is kept small because runtimes
optimize each of its nodes, and some releases do so incorrectly.
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
    """Return nodes in ONNX text that compute y and argmax (of `index_type`, a `TensorProto.DataType`) from x.

    `narrow` is the node that converts float32 to x's type, with `{}` for its operand, or None if MaxPool supports x's
    type. The nodes are default-domain operators of `opset`.
    """
    plane_shape = _PLANE_SHAPE if opset >= _PARTIAL_SHAPE_OPSET else _SLICED_PLANE_SHAPE
    if narrow is None:
        return _POOL.format(x="x", values="y", plane_shape=plane_shape, index_type=index_type)
    pool = _POOL.format(x="wide_x", values="values", plane_shape=plane_shape, index_type=index_type)
    return f"    wide_x = Cast<to = 1>(x)\n{pool}    y = {narrow.format('values')}\n"
