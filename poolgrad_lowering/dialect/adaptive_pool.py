# SPDX-License-Identifier: Apache-2.0

"""The function body of an adaptive max pool in ONNX text: gathers the elements of each window into a row, then ArgMax.

On an axis of size I pooled to size O, window o spans the positions from ⌊o·I/O⌋ up to, not including, ⌈(o+1)·I/O⌉. If O
does not divide I, windows differ in length: shorter rows repeat their last element, which does not change the first
maximum. NaN behaves as on Ascend and in PyTorch: it is the maximum, and the last NaN of a window is selected.
"""

from __future__ import annotations

#: The first opset with Min of int64, and with `Constant` of a list, which turns an attribute of the op into a tensor.
OLDEST_ADAPTIVE_OPSET = 12

#: The first opset in which the axes of ReduceMax are an input.
_REDUCED_AXES_OPSET = 18

#: Computes `position`: for each window, in row-major order, the positions of its elements in a plane. The first axis of
#: the tensors before it is D, H, W.
_POSITIONS = """
    zero = Constant<value = int64 {{0}}>()
    one = Constant<value = int64 {{1}}>()
    two = Constant<value = int64 {{2}}>()
    flat = Constant<value = int64[1] {{-1}}>()
    first = Constant<value = int64[1] {{0}}>()
    second = Constant<value = int64[1] {{1}}>()
    third = Constant<value = int64[1] {{2}}>()
    last_three = Constant<value = int64[1] {{-3}}>()
    end = Constant<value = int64[1] {{9223372036854775807}}>()
    absent = Constant<value = int64[2] {{1, 1}}>()
    column = Constant<value = int64[2] {{3, 1}}>()
    by_window = Constant<value = int64[3] {{3, -1, 1}}>()
    by_tap = Constant<value = int64[3] {{3, 1, -1}}>()

    shape = Shape(x)
    spatial = Slice(shape, third, end)
    filled = Concat<axis = 0>(absent, spatial)
    plane = Slice(filled, last_three, end)
    pooled = Constant<value_ints: ints = @output_size>()
    size = Reshape(plane, column)
    count = Reshape(pooled, column)
    windows = ConstantOfShape<value = int64[1] {{1}}>(pooled)
    window = NonZero(windows)
    scaled = Mul(window, size)
    start = Div(scaled, count)
    next_scaled = Add(scaled, size)
    rounded = Add(next_scaled, count)
    reach = Sub(rounded, one)
    stop = Div(reach, count)
    length = Sub(stop, start)
    longest = {longest}
    taps = ConstantOfShape<value = int64[1] {{1}}>(longest)
    tap = NonZero(taps)
    last = Sub(stop, one)
    starts = Reshape(start, by_window)
    lasts = Reshape(last, by_window)
    steps = Reshape(tap, by_tap)
    unbounded = Add(starts, steps)
    place = Min(unbounded, lasts)
    depth = Gather(place, zero)
    row = Gather(place, one)
    element = Gather(place, two)
    height = Gather(plane, one)
    width = Gather(plane, two)
    depth_rows = Mul(depth, height)
    plane_row = Add(depth_rows, row)
    row_start = Mul(plane_row, width)
    position = Add(row_start, element)
    flat_position = Reshape(position, flat)
"""

#: Rows are the windows of all planes, plane by plane; columns are the elements of a window.
_CHOICE = """
    planes = Flatten<axis = 2>(x)
    elements = Gather<axis = 1>(planes, position)
    {rows} = Flatten<axis = 2>(elements)
{widen}    lowest = Constant<value = float {{-inf}}>()
    is_nan = IsNaN(rows)
    nan_numbers = Cast<to = 1>(is_nan)
    comparable = Where(is_nan, lowest, rows)
    first_maximum = ArgMax<axis = 1, keepdims = 1>(comparable)
    last_nan = ArgMax<axis = 1, keepdims = 1, select_last_index = 1>(nan_numbers)
    nan_at_last = GatherElements<axis = 1>(nan_numbers, last_nan)
    has_nan = Cast<to = 9>(nan_at_last)
    choice = Where(has_nan, last_nan, first_maximum)
    {row_values} = GatherElements<axis = 1>(rows, choice)
{narrow}"""

_RESULT = """
    rank = Shape(spatial)
    first_pooled = Neg(rank)
    planes_shape = Slice(shape, first, third)
    pooled_spatial = Slice(pooled, first_pooled, end)
    pooled_shape = Concat<axis = 0>(planes_shape, pooled_spatial)
    y = Reshape(row_values, pooled_shape)

    positions = Size(position)
    position_shape = Shape(position)
    window_length = Gather(position_shape, one)
    window_starts = Range(zero, positions, window_length)
    window_start = Reshape(window_starts, pooled_spatial)
    offset = Reshape(choice, pooled_shape)
    flat_place = Add(offset, window_start)
    wide_argmax = Gather(flat_position, flat_place)
    argmax = Cast<to = {index_type}>(wide_argmax)
"""


def adaptive_pool_text(opset: int, index_type: int, narrow: str | None) -> str:
    """Return nodes in ONNX text that compute y and argmax (of `index_type`, a `TensorProto.DataType`) from x.

    `narrow` is the node that converts float32 to x's type, with `{}` for its operand; None if x is float32. The nodes
    are default-domain operators of `opset`.
    """
    attribute, operand = ("", ", second") if opset >= _REDUCED_AXES_OPSET else ("axes = [1], ", "")
    positions = _POSITIONS.format(longest=f"ReduceMax<{attribute}keepdims = 0>(length{operand})")
    if narrow is None:
        choice = _CHOICE.format(rows="rows", widen="", row_values="row_values", narrow="")
    else:
        choice = _CHOICE.format(
            rows="narrow_rows",
            widen="    rows = Cast<to = 1>(narrow_rows)\n",
            row_values="wide_values",
            narrow=f"    row_values = {narrow.format('wide_values')}\n",
        )
    return positions + choice + _RESULT.format(index_type=index_type)
