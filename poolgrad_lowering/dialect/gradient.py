"""The scatter-add of a pool gradient in ONNX text, one spelling for each generation of standard operators.

All of them view (N, C, spatial axes) as planes x positions (`Flatten` at axis 2) and add the terms of a plane in
row-major order of the output, in float32, so that all give the same bits. They read neither ranks nor attributes, and
know nothing of the ops they serve. An index outside its plane is the caller's error: it may stop the run, and never
writes outside the result.

No spelling has an If: where its condition is known, some releases of onnxruntime put the taken branch into the graph
around it and lose values on the way. Below opset 14, Reshape cannot be given a size of zero, so of empty tensors the
older spellings take those without a batch.
"""

from __future__ import annotations

#: The operators of the oldest spelling (`ConstantOfShape`, `NonZero`, `Where`) start here, as `MaxPoolGrad` does.
OLDEST_GRADIENT_OPSET = 9

_SORT_OPSET = 11
_ALLOWZERO_OPSET = 14
_SCATTER_ADD_OPSET = 16

_PLANES = """
    shape = Shape(x)
    {terms} = Flatten<axis = 2>(grad)
    argmax_planes = Flatten<axis = 2>(argmax)
"""

# The conversions stand where PyTorch writes them, behind the view of grad and at the very end: onnxruntime drops a
# conversion to a half type that meets one back, with its rounding, and then drops the same ones in both models.
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

# The other spellings calculate with indices.
_WIDE_INDEX = """
    index = Cast<to = 7>(argmax_planes)
"""

# Sort the terms of a plane by (index, position), so that the terms of one index stand in a run. In each round of the
# loop, every term that still waits adds itself to the sum of the term before it; in round r those wait that have r or
# more terms before them in their run, so after the last round each holds the sum of its run up to itself.
# The last of a run then goes to its index, each other term to a spare column of its own before the plane, because
# ScatterElements leaves the result of duplicate indices undefined; an index behind the plane stays out of range.
# `previous` and `next` wrap around within the row; `joins` is false in column 0, so both ends of a row come out right.
# A run starts with its first term added to +0, which a -0 does not survive; not spelt as an Add of 0, because
# optimizers take that for no operation. Gather over flat tensors, because onnx's reference evaluator gathers
# elements from narrow planes only. The count of TopK is a Slice: some releases of onnxruntime infer that a Gather gives
# a scalar, which TopK does not take.
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

# One output position after the other, each over all planes: slow, but Gather and Scatter of these opsets cannot say
# more, and TopK cannot sort integers.
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


def gradient_text(opset: int, narrow: str | None) -> str:
    """Nodes that compute y from x, grad and argmax, in ONNX text.

    `narrow` is the node, with a place for its operand, that converts float32 to x's type; None where x is float32.
    Only default-domain operators as of `opset`.
    """
    planes = _PLANES.format(terms="terms") if narrow is None else _PLANES.format(terms="grad_planes") + _WIDEN
    if opset >= _SCATTER_ADD_OPSET:
        sums = _ZEROS + _SCATTER_ADD
    else:
        sums = _WIDE_INDEX + (_SORT if opset >= _SORT_OPSET else _ZEROS + _STEPS)
    y, narrowing = ("y", "") if narrow is None else ("wide_y", f"    y = {narrow.format('wide_y')}\n")
    sizes_of_zero = "<allowzero = 1>" if opset >= _ALLOWZERO_OPSET else ""
    return f"{planes}{sums}    {y} = Reshape{sizes_of_zero}(sums, shape)\n{narrowing}"
