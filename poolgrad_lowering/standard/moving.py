# SPDX-License-Identifier: Apache-2.0

"""Operators that move elements: Concat and Split of training, and the gradients of Slice and Gather."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import TensorProto

from poolgrad_lowering.model.diagnostics.codes import Refuse
from poolgrad_lowering.model.diagnostics.definition_codes import DefinitionCode
from poolgrad_lowering.model.ir import dims
from poolgrad_lowering.model.ir.tensors import type_name
from poolgrad_lowering.standard.definition import Call, Definition, in_float32
from poolgrad_lowering.standard.nodes import cast, integer, ints, reshape, transpose, unsqueeze

RESHAPE_TO_ZERO, SCATTER_THAT_ADDS = 14, 16
"""The first opsets whose Reshape takes sizes of 0, and whose ScatterElements has a reduction."""


def _concat_training(call: Call) -> str:
    names = call.all_inputs()
    if not names:
        raise call.refuse("it has no input")
    rank = call.rank(names[0])
    axis = call.axis(rank, 0)
    text = f"Y = Concat<axis = {axis}>({', '.join(names)})\n"
    if not call.wants("lengths"):
        return text
    lengths = [call.shape(name)[axis].static for name in names]
    if None not in lengths:
        return text + ints("lengths", [length for length in lengths if length is not None])
    text += ints("first", [axis]) + ints("last", [axis + 1])
    for number, name in enumerate(names):
        text += f"shape_{number} = Shape({name})\nlength_{number} = Slice(shape_{number}, first, last)\n"
    return text + f"lengths = Concat<axis = 0>({', '.join(f'length_{number}' for number in range(len(names)))})\n"


def _broadcast_gradient_args(call: Call) -> str:
    """The axes of the common shape on which an operand is broadcast: those that it lacks, or has size 1 on."""
    rank_a, rank_b = call.count("a", 0), call.count("b", 0)
    rank = max(rank_a, rank_b)
    text = ints("one", [1])
    for name, own in (("a", rank_a), ("b", rank_b)):
        text += ints(f"ones_{name}", [1] * (rank - own)) + f"sizes_{name} = Concat<axis = 0>(ones_{name}, {name})\n"
    text += "equal = Equal(sizes_a, sizes_b)\nother = Not(equal)\n"
    for name, own in (("a", rank_a), ("b", rank_b)):
        missing = ", ".join(["1"] * (rank - own) + ["0"] * own)
        text += f"lacks_{name} = Constant<value = bool[{rank}] {{{missing}}}>()\n"
        text += f"is_one_{name} = Equal(sizes_{name}, one)\nstretched_{name} = And(is_one_{name}, other)\n"
        text += f"summed_{name} = Or(stretched_{name}, lacks_{name})\nplaces_{name} = NonZero(summed_{name})\n"
        text += reshape(f"axes_{name}", f"places_{name}", [-1])
    return text


def _split_training(call: Call) -> str:
    names, axis = ", ".join(call.outputs), call.attribute("axis", 0)
    if call.has("split"):
        return f"{names} = Split<axis = {axis}>(X, split)\n"
    return f"{names} = Split<axis = {axis}, num_outputs = {len(call.outputs)}>(X)\n"


def _zeros(element_type: int = TensorProto.FLOAT) -> str:
    return f"zeros = ConstantOfShape<value = {_ZEROS[element_type]}>(shape)\n"


_ZEROS: dict[int, str] = {
    TensorProto.DOUBLE: "double[1] {0.0}",
    TensorProto.FLOAT: "float[1] {0.0}",
    TensorProto.INT32: "int32[1] {0}",
    TensorProto.INT64: "int64[1] {0}",
}


def _scattered(call: Call, body: str) -> str:
    """A body that adds onto `zeros`; halves are added in float32, for which every runtime has a kernel."""
    element_type = call.element_type("dY")
    wide = element_type if element_type in _ZEROS else int(TensorProto.FLOAT)
    return _zeros(wide) + in_float32(call, body, ("dY",), {"dX": "dY"})


def _gather_grad(call: Call) -> str:
    """Rows of dY added onto zeros at the indices, with the axes of the indices as one."""
    rank = call.count("shape", 0)
    axis = call.axis(rank, 0)
    known = call.facts.integers(call.operand("shape"))
    sizes = [None] * rank if known is None else [dim.static for dim in known]
    if 0 in sizes:
        return _scattered(call, "dX_wide = Identity(zeros)\n")
    text = ""
    if call.rank("indices") == 1:
        text += "rows = Identity(dY_wide)\n"
    else:
        # -1 stands for the number of indices, unless another size may be 0, which leaves it open.
        are_known = all(size for number, size in enumerate(sizes) if number != axis)
        counts = not are_known and call.node.scope.opset >= RESHAPE_TO_ZERO
        text += ints("start", [0]) + ints("axis", [axis]) + ints("next", [axis + 1]) + ints("end", [rank])
        text += "before = Slice(shape, start, axis)\nafter = Slice(shape, next, end)\n"
        text += "size = Size(indices)\n" + reshape("any", "size", [1]) if counts else ints("any", [-1])
        text += "rows_shape = Concat<axis = 0>(before, any, after)\n"
        text += f"rows = Reshape{'<allowzero = 1>' if counts else ''}(dY_wide, rows_shape)\n"
    if call.node.scope.opset < SCATTER_THAT_ADDS:
        return _scattered(call, text + _by_one_hot(call, rank, axis))
    text += reshape("column", "indices", [1 if number != axis else -1 for number in range(rank)])
    text += "shape_of_rows = Shape(rows)\n"
    if None in sizes:  # onnxruntime does not expand 1 to 0
        text += f"nothing = ConstantOfShape<value = {_ZEROS[call.element_type('indices')]}>(shape_of_rows)\n"
        text += "positions = Add(column, nothing)\n"
    else:
        text += "positions = Expand(column, shape_of_rows)\n"
    text += f'dX_wide = ScatterElements<axis = {axis}, reduction = "add">(zeros, positions, rows)\n'
    return _scattered(call, text)


def _by_one_hot(call: Call, rank: int, axis: int) -> str:
    """A product with a matrix that is 1 where a row has an index: (axis, number of indices) by the rows.

    An infinity or NaN in dY is also in the other rows of its column, since its product with 0 is NaN.
    """
    shape, indices = call.facts.integers(call.operand("shape")), call.facts.shape(call.operand("indices"))
    count = None if shape is None or indices is None else dims.size([shape[axis], *indices]).static
    call.require_few(count or 0)
    order = [axis, *(number for number in range(rank) if number != axis)]
    text = ints("first", [axis]) + ints("behind", [axis + 1]) + "extent = Slice(shape, first, behind)\n"
    text += reshape("extent_number", "extent", []) + integer("zero", 0) + integer("one", 1)
    text += "numbers = Range(zero, extent_number, one)\n" + reshape("upright", "numbers", [-1, 1])
    text += reshape("given", "indices", [1, -1]) + cast("long", "given", TensorProto.INT64)
    text += "negative = Less(long, zero)\nbehind_end = Add(long, extent_number)\n"
    text += "places = Where(negative, behind_end, long)\nis_place = Equal(upright, places)\n"
    text += cast("matrix", "is_place", call.computed_type("dY")) + transpose("leading", "rows", order)
    text += "flat = Flatten<axis = 1>(leading)\nsums = MatMul(matrix, flat)\n"
    text += "rest = Shape(leading)\n" + ints("second", [1]) + ints("last", [rank])
    text += "rest_sizes = Slice(rest, second, last)\nwhole_shape = Concat<axis = 0>(extent, rest_sizes)\n"
    text += "whole = Reshape<allowzero = 1>(sums, whole_shape)\n"
    return text + transpose("dX_wide", "whole", map(order.index, range(rank)))


def _gather_elements_grad(call: Call) -> str:
    axis = call.attribute("axis", 0)
    body = f'dX_wide = ScatterElements<axis = {axis}, reduction = "add">(zeros, indices, dY_wide)\n'
    return _scattered(call, body)


def _gather_nd_grad(call: Call) -> str:
    if call.attribute("batch_dims", 0):
        raise call.refuse("batch_dims")
    return _scattered(call, 'dX_wide = ScatterND<reduction = "add">(zeros, indices, dY_wide)\n')


def _slice_grad(call: Call) -> str:
    """Zeros around dY; where a step is not 1, zeros between its rows too, by a scatter along that axis."""
    sizes = call.dims("shape")
    starts, ends = call.integers("starts") or [], call.integers("ends") or []
    axes = call.integers("axes") or list(range(len(starts)))
    steps = call.integers("steps") or [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise call.refuse(f"a slice from {starts} to {ends} on axes {axes} in steps {steps}")
    if not all(-len(sizes) <= axis < len(sizes) for axis in axes):
        raise call.refuse(f"axes {axes} of {len(sizes)}")
    pads, scattered = [0] * (2 * len(sizes)), []
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        at = axis % len(sizes)
        size = sizes[at].static
        if size is None:
            raise Refuse(DefinitionCode.UNKNOWN_SIZES, "the size of axis {} that a Slice cuts is not known", at)
        taken = range(size)[slice(start, end, step)]
        if taken.step == 1:
            pads[at], pads[at + len(sizes)] = taken.start, size - taken.start - len(taken)
        else:
            call.require_few(size)
            scattered.append((at, taken, size))
    text, source = "", "dY_wide"
    for number, (at, taken, size) in enumerate(scattered):
        rows = [taken.index(position) if position in taken else len(taken) for position in range(size)]
        text += _spread(number, source, at, len(sizes), rows)
        source = f"spread_{number}"
    text += ints("pads", pads) + f"dX_wide = Pad({source}, pads)\n"
    return in_float32(call, text, ("dY",), {"dX": "dY"})


def _spread(number: int, source: str, axis: int, rank: int, rows: Sequence[int]) -> str:
    """The rows of a value along an axis in another order; a number behind the last row is a row of zeros."""
    pads = [0] * (2 * rank)
    pads[rank + axis] = 1
    return (
        ints(f"row_{number}", pads)
        + f"with_zeros_{number} = Pad({source}, row_{number})\n"
        + ints(f"rows_{number}", rows)
        + f"spread_{number} = Gather<axis = {axis}>(with_zeros_{number}, rows_{number})\n"
    )


def _flatten_and_unpad(call: Call) -> str:
    """The rows at the indices, with the first two axes as one; the sizes of these."""
    rank = call.rank("X")
    text = ints("start", [0]) + ints("two", [2]) + ints("end", [rank]) + ints("any", [-1])
    text += "shape = Shape(X)\nbefore = Slice(shape, start, two)\nafter = Slice(shape, two, end)\n"
    text += "flat_shape = Concat<axis = 0>(any, after)\nflat = Reshape(X, flat_shape)\n"
    return text + "Y = Gather<axis = 0>(flat, indices)\nunflatten_dims = Identity(before)\n"


def _pad_and_unflatten(call: Call) -> str:
    """Zeros with the rows at the indices, and the first axis as two."""
    rank, kind = call.rank("X"), call.computed_type("X")
    if kind not in _ZEROS:
        raise call.refuse(f"elements of type {type_name(kind)}")
    text = ints("one", [1]) + ints("end", [rank]) + ints("start", [0]) + ints("two", [2])
    text += (
        "rows = Shape(X_wide)\nrest = Slice(rows, one, end)\ncount = ReduceProd<keepdims = 1>(unflatten_dims, start)\n"
    )
    text += "shape = Concat<axis = 0>(count, rest)\n" + _zeros(kind)
    text += unsqueeze("column", "indices", range(1, rank)) + "positions = Expand(column, rows)\n"
    text += "flat = ScatterElements<axis = 0>(zeros, positions, X_wide)\n"
    text += "whole_shape = Concat<axis = 0>(unflatten_dims, rest)\nY_wide = Reshape(flat, whole_shape)\n"
    return in_float32(call, text, ("X",), {"Y": "X"})


def _shrunken_gather(call: Call) -> str:
    return f"Y = Gather<axis = {call.attribute('axis', 0)}>(X, indices)\n"


def _trilu(call: Call) -> str:
    operands = "X, k" if call.has("k") else "X"
    return f"Y = Trilu<upper = {call.attribute('upper', 1)}>({operands})\n"


def _reduce_sum_training(call: Call) -> str:
    keep, noop = call.attribute("keepdims", 1), call.attribute("noop_with_empty_axes", 0)
    if call.numbers("axes") == []:
        return "Y = Identity(X)\n" if noop else f"Y = ReduceSum<keepdims = {keep}>(X)\n"
    return f"Y = ReduceSum<keepdims = {keep}, noop_with_empty_axes = {noop}>(X, axes)\n"


DEFINITIONS = (
    Definition(
        "BroadcastGradientArgs",
        _broadcast_gradient_args,
        "for the shapes of two operands, the axes of their common shape on which each is broadcast",
    ),
    Definition("ConcatTraining", _concat_training, "Concat, and the length of each input on the axis"),
    Definition("FlattenAndUnpad", _flatten_and_unpad, "the rows of X at the indices"),
    Definition("GatherElementsGrad", _gather_elements_grad, "dY added onto zeros at the indices"),
    Definition("GatherGrad", _gather_grad, "rows of dY added onto zeros at the indices"),
    Definition("GatherNDGrad", _gather_nd_grad, "slices of dY added onto zeros at the indices"),
    Definition("PadAndUnflatten", _pad_and_unflatten, "zeros with the rows of X at the indices"),
    Definition("ReduceSumTraining", _reduce_sum_training, "Σ X"),
    Definition("ShrunkenGather", _shrunken_gather, "Gather(X, indices)"),
    Definition("SliceGrad", _slice_grad, "dY with zeros around it, and between its rows"),
    Definition("SplitTraining", _split_training, "Split(X, split)"),
    Definition("Trilu", _trilu, "Trilu(X, k)"),
)
