"""The body of a max pool in ONNX text: ONNX's own MaxPool over a canvas that holds the padding.

MaxPool wants each pad twice, at the begin and at the end of its axis, and a function body cannot make an attribute
of another one; so x is put on a canvas, which takes its margins as tensors. Where the canvas exceeds x, it repeats the
nearest position of x that the same window reads anyway: the edge, and with dilation d, the nearest that is congruent
modulo d, along tables. No window sees a value it would not see without padding, and of equal values the first on the
canvas is, taken back by the canvas of the positions, the first in x: both ascend along the positions of a window. So
values, ties, -inf and NaN come out as the runtime's MaxPool has them on x.

Each operator that passes over all of x takes a part of the pool's own time. So there are no more of them than needed:
Pad makes a canvas in one; which branch it is, a runtime knows from attributes alone; along tables only what is repeated
is gathered, since a gather of all of x along its last axis goes element by element; nothing is cut off behind the pool,
because the canvas has room for no window but those of y. MaxPool's indices count from the first element of the tensor:
what is before their plane is taken off, which is quicker than a remainder.
"""

from __future__ import annotations

from poolgrad_lowering.dialect.volume import POOLED_SHAPE, TO_VOLUME

#: What is behind x: the padding, and what the last window of ceil_mode needs. A window that starts before the end of x
#: reaches no further than `reach` behind it, and with no more than that on the canvas, no other window fits on it.
_HEAD = """
    zero = Constant<value = int64 {{0}}>()
    one = Constant<value = int64 {{1}}>()
    flat = Constant<value = int64[1] {{-1}}>()
    pads = Constant<value_ints: ints = @pads>()
    dilations = Constant<value_ints: ints = @dilation>()
    strides = Constant<value_ints: ints = @strides>()
    ksize = Constant<value_ints: ints = @ksize>()
    ceil_mode = Constant<value_int: int = @ceil_mode>()
    gaps = Sub(ksize, one)
    reach = Mul(gaps, dilations)
    last_step = Sub(strides, one)
    rounding = Mul(last_step, ceil_mode)
    rounded = Add(pads, rounding)
    margins = Min(rounded, reach)
    plane_size = ReduceProd<keepdims = 0>(plane)
    numbers = Range(zero, plane_size, one)
    index_numbers = Cast<to = {index_type}>(numbers)
    places = Reshape(index_numbers, plane)
    widest = ReduceMax<keepdims = 0>(dilations)
    is_dense = Equal(widest, one)
"""

_CANVAS = """
    canvas, canvas_places = If(is_dense) <then_branch = dense () => (edged, edged_places) {{
        none = Constant<value = int64[2] {{0, 0}}>()
        margins_of_plane = Concat<axis = 0>(pads, margins)
        margins_of_x = Concat<axis = 0>(none, pads, none, margins)
        edged = Pad<mode = "edge">(volume, margins_of_x)
        edged_places = Pad<mode = "edge">(places, margins_of_plane)
    }}, else_branch = dilated () => (canvas_{last}, places_{last}) {{
        origin = Constant<value = int64[1] {{0}}>()
        limit = Constant<value = int64[1] {{9223372036854775807}}>(){tables}
    }}>
"""

#: `table` of one axis: for each position of the canvas, the position of x that it holds. Both clamps matter only
#: where a window has no element in x at all. Between pad and size + pad it holds x as it is.
_TABLE = """
        number_{a} = Constant<value = int64 {{{a}}}>()
        size_{a} = Gather(plane, number_{a})
        pad_{a} = Gather(pads, number_{a})
        margin_{a} = Gather(margins, number_{a})
        dilation_{a} = Gather(dilations, number_{a})
        before_{a} = Neg(pad_{a})
        after_{a} = Add(size_{a}, margin_{a})
        position_{a} = Range(before_{a}, after_{a}, one)
        last_{a} = Sub(size_{a}, one)
        from_first_{a} = Mod(position_{a}, dilation_{a})
        to_last_{a} = Sub(last_{a}, position_{a})
        from_last_{a} = Mod(to_last_{a}, dilation_{a})
        at_end_{a} = Sub(last_{a}, from_last_{a})
        is_before_{a} = Less(position_{a}, zero)
        is_after_{a} = Less(last_{a}, position_{a})
        filled_end_{a} = Where(is_after_{a}, at_end_{a}, position_{a})
        filled_{a} = Where(is_before_{a}, from_first_{a}, filled_end_{a})
        not_before_{a} = Max(filled_{a}, zero)
        table_{a} = Min(not_before_{a}, last_{a})
        begin_{a} = Reshape(pad_{a}, flat)
        end_{a} = Add(begin_{a}, size_{a})
        table_before_{a} = Slice(table_{a}, origin, begin_{a})
        table_after_{a} = Slice(table_{a}, end_{a}, limit)
        canvas_before_{a} = Gather<axis = {value_axis}>({canvas}, table_before_{a})
        canvas_after_{a} = Gather<axis = {value_axis}>({canvas}, table_after_{a})
        canvas_{a} = Concat<axis = {value_axis}>(canvas_before_{a}, {canvas}, canvas_after_{a})
        places_{a} = Gather<axis = {a}>({places}, table_{a})
"""

_POOL = """
    {prefix}values, indices = MaxPool<kernel_shape: ints = @ksize, strides: ints = @strides,
        dilations: ints = @dilation>(canvas)
    canvas_size = Size(canvas_places)
    indices_shape = Shape(indices)
    image_count = Gather(indices_shape, zero)
    channel_count = Gather(indices_shape, one)
    image_size = Mul(channel_count, canvas_size)
    image_numbers = Range(zero, image_count, one)
    channel_numbers = Range(zero, channel_count, one)
    image_firsts = Mul(image_numbers, image_size)
    channel_firsts = Mul(channel_numbers, canvas_size)
    by_image = Constant<value = int64[{image_rank}] {{-1, 1, {ones}}}>()
    by_channel = Constant<value = int64[{channel_rank}] {{-1, {ones}}}>()
    in_batch = Reshape(image_firsts, by_image)
    in_image = Reshape(channel_firsts, by_channel)
    firsts = Add(in_batch, in_image)
    in_plane = Sub(indices, firsts)
    flat_places = Reshape(canvas_places, flat)
    {prefix}argmax = Gather(flat_places, in_plane)
"""

_FROM_VOLUME = f"""
    pooled_sizes = Shape(volume_values){POOLED_SHAPE}
    values = Reshape(volume_values, pooled_shape)
    argmax = Reshape(volume_argmax, pooled_shape)
"""

_PLANAR = """
    first_spatial = Constant<value = int64[1] {2}>()
    end = Constant<value = int64[1] {9223372036854775807}>()
    shape = Shape(x)
    plane = Slice(shape, first_spatial, end)
    volume = Cast<to = 1>(x)
"""


def pool_text(axes: int, index_type: int) -> str:
    """Nodes that compute `values` (float32) and `argmax` (`index_type`), both in y's shape.

    Default-domain operators of opset 12 or newer. x has two spatial axes where `axes` is 2, and one to three where
    it is 3.
    """
    if axes == 2:
        return _PLANAR + _pooled(axes, index_type, "")
    return TO_VOLUME + _pooled(axes, index_type, "volume_") + _FROM_VOLUME


def _pooled(axes: int, index_type: int, prefix: str) -> str:
    tables = "".join(
        _TABLE.format(
            a=axis,
            value_axis=axis + 2,
            canvas=f"canvas_{axis - 1}" if axis else "volume",
            places=f"places_{axis - 1}" if axis else "places",
        )
        for axis in range(axes)
    )
    pool = _POOL.format(prefix=prefix, ones=", ".join("1" * axes), image_rank=axes + 2, channel_rank=axes + 1)
    return _HEAD.format(index_type=index_type) + _CANVAS.format(last=axes - 1, tables=tables) + pool
