# SPDX-License-Identifier: Apache-2.0

"""Function bodies of an adaptive max pool in ONNX text: the elements of each window are gathered into a row.

On an axis of size I pooled to size O, window o spans the positions from ⌊o·I/O⌋ up to, not including, ⌈(o+1)·I/O⌉. If O
does not divide I, windows differ in length.

One body selects the element at the first ArgMax. In it shorter rows repeat their last element, which does not change
the first maximum, and NaN behaves as on Ascend and in PyTorch: it is the maximum, and the last NaN of a window is
selected. The others are for maxima that were a ReduceMax before: ReduceMax and ArgMax, of the same rows or of rows with
−inf instead of the repeated elements.
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

_ELEMENTS = """
    planes = Flatten<axis = 2>(x)
    elements = Gather<axis = 1>(planes, position)
"""

#: Computes `padded`: the elements, −inf in place of those that are beyond the end of a window.
_FILL = """
    fits = Equal(unbounded, place)
    fits_depth = Gather(fits, zero)
    fits_height = Gather(fits, one)
    fits_width = Gather(fits, two)
    fits_row = And(fits_height, fits_width)
    inside = And(fits_depth, fits_row)
    minus_infinity = Constant<value = float {{-inf}}>()
    lowest = {narrow}
    padded = Where(inside, elements, lowest)
"""

#: As `_CHOICE`, by ReduceMax and ArgMax over `taken`.
_REDUCED = """
    rows = Flatten<axis = 2>({taken})
    row_values = ReduceMax<{attribute}keepdims = 1>(rows{operand})
    choice = ArgMax<axis = 1, keepdims = 1>(rows)
"""

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
    if narrow is None:
        choice = _CHOICE.format(rows="rows", widen="", row_values="row_values", narrow="")
    else:
        choice = _CHOICE.format(
            rows="narrow_rows",
            widen="    rows = Cast<to = 1>(narrow_rows)\n",
            row_values="wide_values",
            narrow=f"    row_values = {narrow.format('wide_values')}\n",
        )
    return _positions(opset) + choice + _RESULT.format(index_type=index_type)


def gathered_pool_text(opset: int, index_type: int, narrow: str | None) -> str:
    """As `adaptive_pool_text`, with ReduceMax for y and ArgMax for argmax, NaN included, in x's own type."""
    del narrow  # no element is computed with
    return _reduced_text(opset, index_type, "", "elements")


def filled_pool_text(opset: int, index_type: int, narrow: str | None) -> str:
    """As `gathered_pool_text`, with −inf in place of repeated elements."""
    fill = _FILL.format(narrow=(narrow or "Identity({})").format("minus_infinity"))
    return _reduced_text(opset, index_type, fill, "padded")


def _reduced_text(opset: int, index_type: int, fill: str, taken: str) -> str:
    reduced = _REDUCED.format(taken=taken, **reduced_axis(opset))
    return _positions(opset) + _ELEMENTS + fill + reduced + _RESULT.format(index_type=index_type)


def _positions(opset: int) -> str:
    axis = reduced_axis(opset)
    return _POSITIONS.format(longest=f"ReduceMax<{axis['attribute']}keepdims = 0>(length{axis['operand']})")


def reduced_axis(opset: int) -> dict[str, str]:
    """How a ReduceMax says that it reduces axis 1, the value of `second`: its `attribute`, or its `operand`."""
    if opset >= _REDUCED_AXES_OPSET:
        return {"attribute": "", "operand": ", second"}
    return {"attribute": "axes = [1], ", "operand": ""}
