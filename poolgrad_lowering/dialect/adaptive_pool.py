"""The body of an adaptive max pool in ONNX text: every window laid out side by side, then an ArgMax over each.

Windows of one axis differ in length where sizes do not divide: shorter ones repeat their last element, which does not
change the first maximum. NaN is as on Ascend and in PyTorch: it outranks everything, and the last NaN of a window is
the one.
"""

from __future__ import annotations

from poolgrad_lowering.dialect.volume import POOLED_SHAPE, TO_VOLUME

#: Of one axis: `table`, the position in x of each element of each window, and its gather. An axis becomes two.
_TABLE = """
    number_{a} = Constant<value = int64 {{{a}}}>()
    size_{a} = Gather(plane, number_{a})
    count_{a} = Gather(pooled_sizes, number_{a})
    window_{a} = Range(zero, count_{a}, one)
    window_size_{a} = Mul(window_{a}, size_{a})
    start_{a} = Div(window_size_{a}, count_{a})
    next_size_{a} = Add(window_size_{a}, size_{a})
    rounded_{a} = Add(next_size_{a}, count_{a})
    reach_{a} = Sub(rounded_{a}, one)
    stop_{a} = Div(reach_{a}, count_{a})
    length_{a} = Sub(stop_{a}, start_{a})
    longest_{a} = ReduceMax<keepdims = 0>(length_{a})
    tap_{a} = Range(zero, longest_{a}, one)
    start_column_{a} = Reshape(start_{a}, column)
    last_{a} = Sub(stop_{a}, one)
    last_column_{a} = Reshape(last_{a}, column)
    unbounded_{a} = Add(start_column_{a}, tap_{a})
    table_{a} = Min(unbounded_{a}, last_column_{a})
    volume_{a} = Gather<axis = {value_axis}>({volume}, table_{a})
    places_{a} = Gather<axis = {a}>({places}, table_{a})
"""

_HEAD = """
    zero = Constant<value = int64 {{0}}>()
    one = Constant<value = int64 {{1}}>()
    column = Constant<value = int64[2] {{-1, 1}}>()
    flat = Constant<value = int64[1] {{-1}}>()
    lowest = Constant<value = float {{-inf}}>()
    pooled_sizes = Constant<value_ints: ints = @output_size>()
    plane_size = ReduceProd<keepdims = 0>(plane)
    numbers = Range(zero, plane_size, one)
    index_numbers = Cast<to = {index_type}>(numbers)
    places = Reshape(index_numbers, plane)
"""

# Rows are windows, columns their elements in row-major order: d, h, w of the window, then d, h, w inside it.
_CHOICE = """
    windows = Transpose<perm = [0, 1, 2, 4, 6, 3, 5, 7]>(volume_0)
    place_windows = Transpose<perm = [0, 2, 4, 1, 3, 5]>(places_0)
    rows = Flatten<axis = 5>(windows)
    place_rows = Flatten<axis = 3>(place_windows)

    is_nan = IsNaN(rows)
    nan_numbers = Cast<to = 1>(is_nan)
    comparable = Where(is_nan, lowest, rows)
    first_maximum = ArgMax<axis = 1, keepdims = 1>(comparable)
    last_nan = ArgMax<axis = 1, keepdims = 1, select_last_index = 1>(nan_numbers)
    nan_at_last = GatherElements<axis = 1>(nan_numbers, last_nan)
    has_nan = Cast<to = 9>(nan_at_last)
    choice = Where(has_nan, last_nan, first_maximum)
    row_values = GatherElements<axis = 1>(rows, choice)

    row_counts = Shape(choice)
    row_count = Gather(row_counts, zero)
    row = Range(zero, row_count, one)
    place_counts = Shape(place_rows)
    plane_windows = Gather(place_counts, zero)
    window_length = Gather(place_counts, one)
    plane_row = Mod(row, plane_windows)
    row_start = Mul(plane_row, window_length)
    row_start_column = Reshape(row_start, column)
    flat_index = Add(row_start_column, choice)
    flat_places = Reshape(place_rows, flat)
    row_argmax = Gather(flat_places, flat_index)
    values = Reshape(row_values, pooled_shape)
    argmax = Reshape(row_argmax, pooled_shape)
"""


def adaptive_pool_text(index_type: int) -> str:
    """Nodes that compute `values` (float32) and `argmax` (`index_type`), both in y's shape.

    Default-domain operators of opset 12 or newer.
    """
    tables = "".join(
        _TABLE.format(
            a=axis,
            value_axis=axis + 2,
            volume="volume" if axis == 2 else f"volume_{axis + 1}",
            places="places" if axis == 2 else f"places_{axis + 1}",
        )
        for axis in (2, 1, 0)
    )
    return TO_VOLUME + _HEAD.format(index_type=index_type) + tables + POOLED_SHAPE + _CHOICE
