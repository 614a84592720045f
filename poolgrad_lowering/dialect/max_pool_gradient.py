# SPDX-License-Identifier: Apache-2.0

"""The function body of a pool gradient in ONNX text: a scatter-add, in one variant for each range of opsets.

All variants view (N, C, spatial axes) as planes × positions (`Flatten` at axis 2) and add the terms of a plane in
row-major order of the output, in float32, so that all give the same bits. They depend neither on the rank nor on
attributes. An index outside its plane is an error of the caller: it can stop the run, but never writes outside the
result.

No variant has an If: some releases of onnxruntime inline the branch of an If with a constant condition and lose values.
Below opset 14, Reshape cannot create a size of zero, so the older variants support empty tensors only if the batch is
empty.
"""

from __future__ import annotations

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
    sizes_of_zero = "<allowzero = 1>" if opset >= _ALLOWZERO_OPSET else ""
    return f"{planes}{sums}    {y} = Reshape{sizes_of_zero}(sums, shape)\n{narrowing}"
