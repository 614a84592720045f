# SPDX-License-Identifier: Apache-2.0

"""The function body of an adaptive max pool in ONNX text for maxima over whole axes: ReduceMax and ArgMax, in place.

Every axis is pooled to one element or to its own size, so each window is a whole axis, or several adjacent ones. ONNX
does not say which zero ReduceMax returns for +0.0 and −0.0, nor what it does with NaN; in a runtime both depend on how
the elements lie in memory. So the body reduces a view of x in which they lie as in the graph that the pool comes from.
"""

from __future__ import annotations

from poolgrad_lowering.dialect.adaptive_pool import reduced_axis

#: `rows` has the axes: all windows before one another, the elements of a window, and x's axes after the window.
_REDUCED = """
    one = Constant<value = int64 {{1}}>()
    zero = Constant<value = int64 {{0}}>()
    rest = Constant<value = int64[1] {{-1}}>()
    first = Constant<value = int64[1] {{0}}>()
    second = Constant<value = int64[1] {{1}}>()
    third = Constant<value = int64[1] {{2}}>()
    end = Constant<value = int64[1] {{9223372036854775807}}>()

    shape = Shape(x)
    planes_shape = Slice(shape, first, third)
    spatial = Slice(shape, third, end)
    rank = Shape(spatial)
    first_pooled = Neg(rank)
    pooled = Constant<value_ints: ints = @output_size>()
    pooled_spatial = Slice(pooled, first_pooled, end)
    pooled_shape = Concat<axis = 0>(planes_shape, pooled_spatial)

    is_one = Equal(pooled_spatial, second)
    ones = Cast<to = 1>(is_one)
    last_one = ArgMax<axis = 0, keepdims = 1, select_last_index = 1>(ones)
    first_after = Add(last_one, second)
    after = Slice(pooled_spatial, first_after, end)
    plane = ReduceProd<keepdims = 1>(spatial)
    windows = ReduceProd<keepdims = 1>(pooled_spatial)
    length = Div(plane, windows)
    view = Concat<axis = 0>(rest, length, after)
    rows = Reshape(x, view)
    row_values = ReduceMax<{attribute}keepdims = 1>(rows{operand})
    choice = ArgMax<axis = 1, keepdims = 1>(rows)
    y = Reshape(row_values, pooled_shape)

    stepped = Concat<axis = 0>(second, after)
    step = ReduceProd<keepdims = 1>(stepped)
    window_count = Squeeze(windows)
    window = Range(zero, window_count, one)
    leading = Div(window, step)
    longer = Sub(length, second)
    gap = Mul(longer, step)
    skipped = Mul(leading, gap)
    window_start = Add(window, skipped)
    window_starts = Reshape(window_start, pooled_spatial)
    offset = Mul(choice, step)
    offsets = Reshape(offset, pooled_shape)
    wide_argmax = Add(offsets, window_starts)
    argmax = Cast<to = {index_type}>(wide_argmax)
"""


def reduced_pool_text(opset: int, index_type: int, narrow: str | None) -> str:
    """Return nodes in ONNX text that compute y and argmax (of `index_type`, a `TensorProto.DataType`) from x.

    They are default-domain operators of `opset`, and compute in x's own type, so `narrow` is not used.
    """
    del narrow
    return _REDUCED.format(index_type=index_type, **reduced_axis(opset))
