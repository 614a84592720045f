# SPDX-License-Identifier: Apache-2.0

"""Function bodies of max pools and of their gradients in ONNX text.

That of a pool with windows is ONNX's MaxPool, and nodes that make its Indices plane-local. It uses the op's ONNX window
attributes by reference, so one body is valid for every rank and window. Results for ties, -inf and NaN are those of the
runtime's MaxPool, as before the lowering. It is kept small because runtimes optimize each of its nodes, and some
releases do so incorrectly.

An adaptive pool has several bodies. In most of them the elements of each window are gathered into a row. On an axis of
size I pooled to size O, window o spans the positions from ⌊o·I/O⌋ up to, not including, ⌈(o+1)·I/O⌉. If O does not
divide I, windows differ in length.

One body selects the element at the first ArgMax. In it shorter rows repeat their last element, which does not change
the first maximum, and NaN behaves as on Ascend and in PyTorch: it is the maximum, and the last NaN of a window is
selected. The others are for maxima that were a ReduceMax before: ReduceMax and ArgMax, of the same rows or of rows with
−inf instead of the repeated elements.

The last one is for maxima over whole axes: every axis is pooled to one element or to its own size, so each window is a
whole axis, or several adjacent ones. ONNX does not say which zero ReduceMax returns for +0.0 and −0.0, nor what it does
with NaN; in a runtime both depend on how the elements lie in memory. So this body reduces a view of x in which they lie
as in the graph that the pool comes from.

That of a gradient is a scatter-add, in one variant for each range of opsets. All variants view (N, C, spatial axes) as
planes × positions (`Flatten` at axis 2) and add the terms of a plane in row-major order of the output, in float32, so
that all give the same bits. They depend neither on the rank nor on attributes. An index outside its plane is an error
of the caller: it can stop the run, but never writes outside the result. No variant has an If: some releases of
onnxruntime inline the branch of an If with a constant condition and lose values. Below opset 14, Reshape cannot create
a size of zero, so the older variants support empty tensors only if the batch is empty.
"""

from __future__ import annotations

from poolgrad_lowering.dialect import body_windows

#: The first opset with Min of int64, and with `Constant` of a list, which turns an attribute of the op into a tensor.
OLDEST_ADAPTIVE_OPSET = 12

#: The first opset in which the axes of ReduceMax are an input.
_REDUCED_AXES_OPSET = 18

#: Computes `position` in `plane`, a tensor of sizes, from `place`. The first axis of both is D, H, W.
POSITION = """    depth = Gather(place, zero)
    row = Gather(place, one)
    {column} = Gather(place, two)
    height = Gather({plane}, one)
    width = Gather({plane}, two)
    depth_rows = Mul(depth, height)
    plane_row = Add(depth_rows, row)
    row_start = Mul(plane_row, width)
    position = Add(row_start, {column})
"""

#: Computes `inside`: which of the places fit on all three axes.
INSIDE = """    fits_depth = Gather(fits, zero)
    fits_height = Gather(fits, one)
    fits_width = Gather(fits, two)
    fits_row = And(fits_height, fits_width)
    inside = And(fits_depth, fits_row)
"""

#: Computes `position`: for each window, in row-major order, the positions of its elements in a plane. The first axis of
#: the tensors before it is D, H, W. Then the `elements` at these positions in all planes.
_GATHERED = """
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
{position}    flat_position = Reshape(position, flat)
    planes = Flatten<axis = 2>(x)
    elements = Gather<axis = 1>(planes, position)
"""

#: Rows are the windows of all planes, plane by plane; columns are the elements of a window.
_CHOICE = """
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

#: Computes `padded`: the elements, −inf in place of those that are beyond the end of a window.
_FILL = """
    fits = Equal(unbounded, place)
{inside}    minus_infinity = Constant<value = float {{-inf}}>()
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
    y = Reshape{as_given}(row_values, pooled_shape)

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
    return _gathered_text(opset, index_type, choice)


def gathered_pool_text(opset: int, index_type: int, _: str | None) -> str:
    """As `adaptive_pool_text`, with ReduceMax for y and ArgMax for argmax, NaN included, in x's own type."""
    return _reduced_text(opset, index_type, "", "elements")


def filled_pool_text(opset: int, index_type: int, narrow: str | None) -> str:
    """As `gathered_pool_text`, with −inf in place of repeated elements."""
    fill = _FILL.format(inside=INSIDE, narrow=(narrow or "Identity({})").format("minus_infinity"))
    return _reduced_text(opset, index_type, fill, "padded")


def _reduced_text(opset: int, index_type: int, fill: str, taken: str) -> str:
    return _gathered_text(opset, index_type, fill + _REDUCED.format(taken=taken, **reduced_axis(opset)))


def _gathered_text(opset: int, index_type: int, chosen: str) -> str:
    """The body in which the nodes `chosen` make `row_values` and `choice` of the windows' elements."""
    axis = reduced_axis(opset)
    longest = f"ReduceMax<{axis['attribute']}keepdims = 0>(length{axis['operand']})"
    gathered = _GATHERED.format(longest=longest, position=POSITION.format(column="element", plane="plane"))
    return gathered + chosen + _RESULT.format(index_type=index_type, as_given=as_given(opset))


def as_given(opset: int) -> str:
    """How a Reshape takes its sizes, 0 too. onnxruntime 1.24 joins others to one of the model, and fails."""
    return "<allowzero = 1>" if opset >= _ALLOWZERO_OPSET else ""


def reduced_axis(opset: int) -> dict[str, str]:
    """How a ReduceMax says that it reduces axis 1, the value of `second`: its `attribute`, or its `operand`."""
    if opset >= _REDUCED_AXES_OPSET:
        return {"attribute": "", "operand": ", second"}
    return {"attribute": "axes = [1], ", "operand": ""}


#: `rows` has the axes: all windows before one another, the elements of a window, and x's axes after the window.
_WHOLE = """
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
    y = Reshape{as_given}(row_values, pooled_shape)

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


def reduced_pool_text(opset: int, index_type: int, _: str | None) -> str:
    """Return nodes in ONNX text that compute y and argmax (of `index_type`, a `TensorProto.DataType`) from x.

    They are default-domain operators of `opset`, and compute in x's own type.
    """
    return _WHOLE.format(index_type=index_type, as_given=as_given(opset), **reduced_axis(opset))


#: The first opset whose MaxPool has `ceil_mode` and `dilations`, and the first with Mod.
OLDEST_POOL_OPSET = 10

_PARTIAL_SHAPE_OPSET = 15

_POOL = f"""
    {{values}}, indices = MaxPool<kernel_shape: ints = @{body_windows.KERNEL}, strides: ints = @{body_windows.STRIDES},
        pads: ints = @{body_windows.PADS}, dilations: ints = @{body_windows.DILATIONS},
        ceil_mode: int = @{body_windows.CEIL}>({{x}})
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


#: The first opset with the operators of the oldest variant (`ConstantOfShape`, `NonZero`, `Where`).
OLDEST_GRADIENT_OPSET = 9

_SORT_OPSET = 11
_ALLOWZERO_OPSET = 14
_SCATTER_ADD_OPSET = 16

_PLANES = """
    shape = Shape(x)
    {terms} = Flatten<axis = 2>(grad)
    argmax_planes = Flatten<axis = 2>(argmax)
"""

# The conversions are where PyTorch writes them: after the view of grad, and at the end. onnxruntime removes a pair of
# conversions to a half type and back, together with their rounding; here it removes the same pairs in both models.
_WIDEN = """
    terms = Cast<to = 1>(grad_planes)
"""

_ZEROS = """
    zeros_of_x = ConstantOfShape(shape)
    zeros = Flatten<axis = 2>(zeros_of_x)
"""

_SCATTER_ADD = """
    sums = ScatterElements<axis = 1, reduction = "add">(zeros, argmax_planes, terms)
"""

# The other variants compute with indices, in int64.
_WIDE_INDEX = """
    index = Cast<to = 7>(argmax_planes)
"""

# Sorts the terms of a plane by (index, position), so that the terms of one index form a run. In round r of the loop,
# every term with at least r terms before it in its run is set to the sum of the previous term's partial sum and
# itself; so after the last round each term holds the sum of its run up to itself.
# Then the last term of a run is scattered to its index, and every other term to its own spare column before the plane,
# because ScatterElements is undefined for duplicate indices; an index after the plane stays out of range.
# `previous` and `next` wrap around within the row; `joins` is false in column 0, so both ends of a row are correct.
# A run starts with +0 plus its first term, which turns -0 into +0. This is a Where, because optimizers remove an Add
# of 0. Gather works on flat tensors, because onnx's reference evaluator gathers elements from narrow planes only. The
# count of TopK is a Slice: some releases of onnxruntime infer a scalar for a Gather, which TopK does not accept.
_SORT = """
    zero = Constant<value = int64 {0}>()
    one = Constant<value = int64 {1}>()
    zero_1d = Constant<value = int64[1] {0}>()
    one_1d = Constant<value = int64[1] {1}>()
    two_1d = Constant<value = int64[1] {2}>()
    flat = Constant<value = int64[1] {-1}>()
    upright = Constant<value = int64[2] {-1, 1}>()
    no_sum = Constant<value = float {0.0}>()

    index_shape = Shape(index)
    plane_count = Gather(index_shape, zero)
    count = Gather(index_shape, one)
    count_1d = Slice(index_shape, one_1d, two_1d)
    position = Range(zero, count, one)
    previous = Sub(position, one)
    final = Sub(count, one)
    next = Sub(position, final)

    index_part = Mul(index, count)
    key = Add(index_part, position)
    sorted_key, order = TopK<axis = 1, largest = 0, sorted = 1>(key, count_1d)
    plane = Range(zero, plane_count, one)
    plane_start_row = Mul(plane, count)
    plane_start = Reshape(plane_start_row, upright)
    flat_order = Add(order, plane_start)
    flat_index = Reshape(index, flat)
    run_index = Gather(flat_index, flat_order)
    flat_terms = Reshape(terms, flat)
    run_terms = Gather(flat_terms, flat_order)

    previous_index = Gather<axis = 1>(run_index, previous)
    same_index = Equal(run_index, previous_index)
    not_first = Greater(position, zero)
    joins = And(same_index, not_first)
    join_numbers = Cast<to = 7>(joins)
    join_count = ReduceSum<keepdims = 0>(join_numbers)
    any_joins = Cast<to = 9>(join_count)
    is_zero = Equal(run_terms, no_sum)
    first_sums = Where(is_zero, no_sum, run_terms)
    waited, run_sums = Loop<body = round (int64 r, bool more, bool[] waits, float[] partial)
        => (bool more_next, bool[] waits_next, float[] partial_next) {
        before = Gather<axis = 1>(partial, previous)
        joined = Add(before, run_terms)
        partial_next = Where(waits, joined, partial)
        waits_before = Gather<axis = 1>(waits, previous)
        waits_next = And(waits_before, joins)
        wait_numbers = Cast<to = 7>(waits_next)
        wait_count = ReduceSum<keepdims = 0>(wait_numbers)
        more_next = Cast<to = 9>(wait_count)
    }>(count, any_joins, joins, first_sums)

    continues = Gather<axis = 1>(joins, next)
    index_column = Add(run_index, count)
    target = Where(continues, position, index_column)
    x_planes = Flatten<axis = 2>(x)
    canvas = Shape(x_planes)
    height = Gather(canvas, zero_1d)
    width = Gather(canvas, one_1d)
    wide_width = Add(width, count_1d)
    wide_canvas = Concat<axis = 0>(height, wide_width)
    wide_zeros = ConstantOfShape(wide_canvas)
    wide_sums = ScatterElements<axis = 1>(wide_zeros, target, run_sums)
    sums = Slice(wide_sums, count_1d, wide_width, one_1d)
"""

# Adds one output position after the other, over all planes. This is slow, but Gather and Scatter of these opsets
# cannot express more, and TopK cannot sort integers.
_STEPS = """
    one = Constant<value = int64 {1}>()
    one_1d = Constant<value = int64[1] {1}>()
    always = Constant<value = bool {1}>()
    canvas = Shape(zeros)
    width = Gather(canvas, one_1d)
    marks = ConstantOfShape<value = int64[1] {1}>(width)
    position = NonZero(marks)
    index_shape = Shape(index)
    count = Gather(index_shape, one)
    sums = Loop<body = step (int64 o, bool more, float[] partial) => (bool more_next, float[] partial_next) {
        more_next = Identity(more)
        o_1d = Unsqueeze<axes = [0]>(o)
        target = Gather<axis = 1>(index, o_1d)
        term = Gather<axis = 1>(terms, o_1d)
        hit = Equal(position, target)
        joined = Add(partial, term)
        partial_next = Where(hit, joined, partial)
    }>(count, always, zeros)
"""


def gradient_text(opset: int, _: int, narrow: str | None) -> str:
    """Return nodes in ONNX text that compute y from x, grad and argmax.

    `narrow` is the node that converts float32 to x's type, with `{}` for its operand; None if x is float32. The nodes
    are default-domain operators of `opset`.
    """
    planes = _PLANES.format(terms="terms") if narrow is None else _PLANES.format(terms="grad_planes") + _WIDEN
    if opset >= _SCATTER_ADD_OPSET:
        sums = _ZEROS + _SCATTER_ADD
    else:
        sums = _WIDE_INDEX + (_SORT if opset >= _SORT_OPSET else _ZEROS + _STEPS)
    y, narrowing = ("y", "") if narrow is None else ("wide_y", f"    y = {narrow.format('wide_y')}\n")
    return f"{planes}{sums}    {y} = Reshape{as_given(opset)}(sums, shape)\n{narrowing}"
