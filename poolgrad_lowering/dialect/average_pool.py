# SPDX-License-Identifier: Apache-2.0

"""Function bodies of the gradients of average pools in ONNX text.

Each element of the gradient is divided by the number of elements that its window counts, and the quotients of all
windows that contain an element of x are added. With windows of one size this is a ConvTranspose with a kernel of ones,
whose batch are the planes; with the windows of adaptive pooling the quotients are gathered. Neither multiplies by zero,
so an infinity or NaN reaches the elements of its own window only.

Bodies compute in float32 and convert once at the end. They depend neither on the rank nor on known sizes. Below opset
14, Reshape cannot create a size of zero, so the older bodies support empty tensors only if the batch is empty.
"""

from __future__ import annotations

from string import Template

from poolgrad_lowering.dialect import body_windows
from poolgrad_lowering.dialect.max_pool_bodies import INSIDE, POSITION, as_given, reduced_axis

#: The first opset with Equal of float32, Slice by tensors and ConvTranspose as it is used here.
OLDEST_AVERAGE_OPSET = 11

#: The first opset whose `Constant` has numbers, which makes a tensor of an attribute of the op.
OLDEST_NUMBERS_OPSET = 12

_SUM_AXES_OPSET = 13

_CONSTANTS = """
    zero = Constant<value = int64 {0}>()
    one = Constant<value = int64 {1}>()
    two = Constant<value = int64 {2}>()
    first = Constant<value = int64[1] {0}>()
    second = Constant<value = int64[1] {1}>()
    third = Constant<value = int64[1] {2}>()
    end = Constant<value = int64[1] {9223372036854775807}>()
    nothing = Constant<value = float {0.0}>()
    grad_shape = Shape($grad)
    spatial = Slice(shape, third, end)
    pooled = Slice(grad_shape, third, end)
"""

# The weight's shape and the divisor of all windows, from attributes.
_NUMBERS = f"""
    kernel = Constant<value_ints: ints = @{body_windows.KERNEL}>()
    weight_shape = Concat<axis = 0>(second, second, kernel)
    fixed_divisor = Constant<value_float: float = @{body_windows.DIVISOR}>()
"""

# MaxUnpool makes a tensor of the kernel's shape of one element, and Gemm alpha · 1 · 1.
_OLDER_NUMBERS = f"""
    origin = ConstantOfShape<value = int64[1] {{0}}>(unit_shape)
    kernel = MaxUnpool<kernel_shape: ints = @{body_windows.KERNEL}>(unit, origin)
    weight_shape = Shape(kernel)
    one_by_one = Constant<value = float[1, 1] {{1.0}}>()
    fixed_divisor = Gemm<alpha: float = @{body_windows.DIVISOR}>(one_by_one, one_by_one)
"""

# `counts` has for each window how many ones of a plane it contains. The ones are x and the padding that counts.
_WINDOWED = f"""
    rank = Shape(grad_shape)
    unit_shape = ConstantOfShape<value = int64[1] {{1}}>(rank)
    unit = ConstantOfShape<value = float[1] {{1.0}}>(unit_shape)
$numbers
    weight = ConstantOfShape<value = float[1] {{1.0}}>(weight_shape)
    starts = ConstantOfShape<value = int64[1] {{0}}>(rank)
    batch = Slice(grad_shape, first, third)
    planes = ReduceProd<keepdims = 1>(batch)
    grad_planes = Concat<axis = 0>(planes, second, pooled)
    x_planes = Concat<axis = 0>(planes, second, spatial)
    grad_plane = Concat<axis = 0>(second, second, pooled)
    x_plane = Concat<axis = 0>(second, second, spatial)

    ones_of_x = ConstantOfShape<value = float[1] {{1.0}}>(x_plane)
    canvas = Conv<pads: ints = @{body_windows.COUNTED}>(ones_of_x, unit)
    canvas_shape = Shape(canvas)
    ones = ConstantOfShape<value = float[1] {{1.0}}>(canvas_shape)
    all_counts = Conv<strides: ints = @{body_windows.STRIDES}, pads: ints = @{body_windows.UNCOUNTED}>(ones, weight)
    counts = Slice(all_counts, starts, grad_plane)
    is_counted = Equal(fixed_divisor, nothing)
    divisor = Where(is_counted, counts, fixed_divisor)

    own_terms = Reshape$sizes_of_zero($grad, grad_planes)
    $terms
    means = Div(terms, divisor)
    spread = ConvTranspose<strides: ints = @{body_windows.STRIDES}, pads: ints = @{body_windows.PADS},
        output_padding: ints = @{body_windows.OUTPUT_PADDING}>(means, weight)
    sums = Slice(spread, starts, x_planes)
"""

# Element e of an axis belongs to the windows from ⌊e·O/I⌋ up to, not including, ⌈(e+1)·O/I⌉: elements are to windows
# what windows are to elements. Where there is a first axis of 3, it is D, H, W.
_ADAPTIVE = """
    flat = Constant<value = int64[1] {-1}>()
    last_three = Constant<value = int64[1] {-3}>()
    absent = Constant<value = int64[2] {1, 1}>()
    column = Constant<value = int64[2] {3, 1}>()
    by_element = Constant<value = int64[3] {3, -1, 1}>()
    by_tap = Constant<value = int64[3] {3, 1, -1}>()
    filled_size = Concat<axis = 0>(absent, spatial)
    filled_count = Concat<axis = 0>(absent, pooled)
    plane = Slice(filled_size, last_three, end)
    windows = Slice(filled_count, last_three, end)
    size = Reshape(plane, column)
    count = Reshape(windows, column)

    all_windows = ConstantOfShape<value = int64[1] {1}>(windows)
    window = NonZero(all_windows)
$window_bounds
    extent = Sub(window_end, window_begin)
    depth_extent = Gather(extent, zero)
    height_extent = Gather(extent, one)
    width_extent = Gather(extent, two)
    row_extent = Mul(height_extent, width_extent)
    elements = Mul(depth_extent, row_extent)
    divisor = Cast<to = 1>(elements)
    own_terms = Flatten<axis = 2>($grad)
    $terms
    means = Div(terms, divisor)

    all_elements = ConstantOfShape<value = int64[1] {1}>(plane)
    element = NonZero(all_elements)
$element_bounds
    length = Sub(element_end, element_begin)
    longest = ReduceMax<$attribute keepdims = 0>(length$operand)
    all_taps = ConstantOfShape<value = int64[1] {1}>(longest)
    tap = NonZero(all_taps)
    begins = Reshape(element_begin, by_element)
    ends = Reshape(element_end, by_element)
    steps = Reshape(tap, by_tap)
    number = Add(begins, steps)
    fits = Less(number, ends)
    place = Where(fits, number, begins)
$position$inside    gathered = Gather<axis = 1>(means, position)
    kept = Where(inside, gathered, nothing)
    $sums
"""

_BOUNDS = """    ${of}_scaled = Mul($of, $size)
    ${of}_begin = Div(${of}_scaled, $count)
    ${of}_next = Add(${of}_scaled, $size)
    ${of}_rounded = Add(${of}_next, $count)
    ${of}_reach = Sub(${of}_rounded, one)
    ${of}_end = Div(${of}_reach, $count)"""


def windowed_average_text(opset: int, _: int, narrow: str | None, *, grad: str, y: str) -> str:
    """Return nodes in ONNX text that compute `y` from `grad` and orig_input_shape, with the windows of the attributes.

    `narrow` is the node that converts float32 to the type of `grad`, with `{}` for its operand; None if that is
    float32. The nodes are default-domain operators of `opset`.
    """
    numbers = _NUMBERS if opset >= OLDEST_NUMBERS_OPSET else _OLDER_NUMBERS
    windowed = Template(_WINDOWED).safe_substitute(numbers=numbers)
    return _filled(f"\n    shape = Cast<to = 7>(orig_input_shape){_CONSTANTS}{windowed}", opset, narrow, grad, y)


def adaptive_average_text(opset: int, _: int, narrow: str | None, *, grad: str, y: str, shape: str) -> str:
    """Return nodes in ONNX text that compute `y` from `grad`, with the windows of adaptive pooling.

    `shape` is the node that gives the shape of x. As `windowed_average_text` otherwise.
    """
    summed = "<keepdims = 0>(kept, third)" if opset >= _SUM_AXES_OPSET else "<axes = [2], keepdims = 0>(kept)"
    adaptive = Template(_ADAPTIVE).safe_substitute(
        window_bounds=Template(_BOUNDS).substitute(of="window", size="size", count="count"),
        element_bounds=Template(_BOUNDS).substitute(of="element", size="count", count="size"),
        position=POSITION.format(column="column_number", plane="windows"),
        inside=INSIDE,
        sums=f"sums = ReduceSum{summed}",
        **reduced_axis(opset),
    )
    return _filled(f"\n    shape = {shape}{_CONSTANTS}{adaptive}", opset, narrow, grad, y)


def _filled(text: str, opset: int, narrow: str | None, grad: str, y: str) -> str:
    """Put in what both bodies have: the gradient's name and its conversion to float32, and the result from the sums."""
    result, narrowing = (y, "") if narrow is None else ("wide_y", f"    {y} = {narrow.format('wide_y')}\n")
    return Template(f"{text}    {result} = Reshape$sizes_of_zero(sums, shape)\n{narrowing}").substitute(
        grad=grad,
        terms=f"terms = {'Identity' if narrow is None else 'Cast<to = 1>'}(own_terms)",
        sizes_of_zero=as_given(opset),
    )
