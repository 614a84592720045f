"""The scatter-add of a pool gradient in ONNX text, one spelling for each generation of standard operators.

All of them view (N, C, spatial axes) as planes x positions (`Flatten` at axis 2, well defined for empty tensors too)
and add the terms of a plane in row-major order of the output, in float32, so that all give the same bits. They read
neither ranks, shapes nor attributes, and know nothing of the ops they serve. An index outside its plane is the
caller's error: it may stop the run, and never writes outside y.
"""

from __future__ import annotations

#: The operators of the oldest spelling (`ConstantOfShape`, `NonZero`, `Where`) start here, as `MaxPoolGrad` does.
OLDEST_GRADIENT_OPSET = 9

_SORT_OPSET = 11
_SCATTER_ADD_OPSET = 16

_PLANES = """
    x_planes = Flatten<axis = 2>(x)
    canvas = Shape(x_planes)
    grad_planes = Flatten<axis = 2>(grad)
    terms = Cast<to = 1>(grad_planes)
    argmax_planes = Flatten<axis = 2>(argmax)
"""

# Float32 also because onnxruntime's CPU has no float16 kernel of this addition.
_SCATTER_ADD = """
    zeros = ConstantOfShape(canvas)
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
# elements from narrow planes only.
_SORT = """
    zero = Constant<value = int64 {0}>()
    one = Constant<value = int64 {1}>()
    zero_1d = Constant<value = int64[1] {0}>()
    one_1d = Constant<value = int64[1] {1}>()
    flat = Constant<value = int64[1] {-1}>()
    upright = Constant<value = int64[2] {-1, 1}>()
    no_sum = Constant<value = float {0.0}>()

    index_shape = Shape(index)
    plane_count = Gather(index_shape, zero)
    count = Gather(index_shape, one)
    count_1d = Gather(index_shape, one_1d)
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
    zeros = ConstantOfShape(canvas)
    one = Constant<value = int64 {1}>()
    one_1d = Constant<value = int64[1] {1}>()
    always = Constant<value = bool {1}>()
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

_ADD_BY_SCATTER = f"""{_PLANES}{_SCATTER_ADD}
    shape = Shape(x)
    dx = Reshape<allowzero = 1>(sums, shape)
"""


def _guarded(sums: str) -> str:
    """The older spellings, kept from empty tensors: no size of zero can be named to their Reshape, and the TopK of
    some onnxruntime divides by it. An empty dx has the shape of x itself.
    """
    return f"""
    shape = Shape(x)
    size = ReduceProd<keepdims = 0>(shape)
    filled = Cast<to = 9>(size)
    dx = If(filled) <then_branch = scatter () => (shaped) {{
        {_PLANES}{_WIDE_INDEX}{sums}
        shaped = Reshape(sums, shape)
    }}, else_branch = empty () => (unchanged) {{
        unchanged = Cast<to = 1>(x)
    }}>
"""


_ADD_BY_SORT = _guarded(_SORT)
_ADD_BY_STEPS = _guarded(_STEPS)


def gradient_text(opset: int) -> str:
    """Nodes that compute dx, the gradient in float32, from x, grad and argmax, in ONNX text.

    Only default-domain operators as of `opset`.
    """
    if opset >= _SCATTER_ADD_OPSET:
        return _ADD_BY_SCATTER
    return _ADD_BY_SORT if opset >= _SORT_OPSET else _ADD_BY_STEPS
