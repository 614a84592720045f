# SPDX-License-Identifier: Apache-2.0

"""Operators that move elements: Concat and Split of training, and the gradients of Slice and Gather."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from poolgrad_lowering.model.diagnostics.codes import Refuse
from poolgrad_lowering.model.diagnostics.definition_codes import DefinitionCode
from poolgrad_lowering.model.ir import dims
from poolgrad_lowering.model.ir.bodies import Tensor, joined, where, zeros
from poolgrad_lowering.model.ir.dims import Shape
from poolgrad_lowering.model.ir.tensors import type_name
from poolgrad_lowering.standard.definition import Call, defines

RESHAPE_TO_ZERO, TRILU, SCATTER_THAT_ADDS = 14, 14, 16
"""The first opsets whose Reshape takes sizes of 0, with Trilu, and whose ScatterElements has a reduction."""


@defines("ConcatTraining", "Concat, and the length of each input on the axis")
def _concat_training(call: Call) -> dict[str, Tensor]:
    names = call.all_inputs()
    if not names:
        raise call.refuse("it has no input")
    axis = call.axis(call.rank(names[0]), 0)
    tensors = [call.tensor(name) for name in names]
    results = {"Y": joined(tensors, axis)}
    if call.wants("lengths"):
        lengths = [call.shape(name)[axis].static for name in names]
        results["lengths"] = (
            joined([each.op("Shape").op("Slice", [axis], [axis + 1]) for each in tensors], 0)
            if None in lengths
            else call.constant([length for length in lengths if length is not None])
        )
    return results


@defines(
    "BroadcastGradientArgs", "for the shapes of two operands, the axes of their common shape on which each is broadcast"
)
def _broadcast_gradient_args(call: Call) -> dict[str, Tensor]:
    """The axes of the common shape on which an operand is broadcast: those that it lacks, or has size 1 on.

    They are constants if the sizes tell them.
    """
    axes = [call.facts.integers(value) for value in call.node.outputs]
    numbers = [np.array([dim.static for dim in found], np.int64) for found in axes if found is not None]
    if len(numbers) == len(axes):
        return dict(zip(call.outputs, map(call.constant, numbers), strict=True))
    ranks = {name: call.count(name, 0) for name in ("a", "b")}
    rank = max(ranks.values())
    sizes = {
        name: joined([call.constant(np.ones(rank - own, np.int64)), call.tensor(name)], 0)
        for name, own in ranks.items()
    }
    other = sizes["a"].op("Equal", sizes["b"]).op("Not")
    results = {}
    for name, own in ranks.items():
        lacks = np.arange(rank) < rank - own
        summed = sizes[name].op("Equal", [1]).op("And", other).op("Or", lacks)
        results[f"axes_{name}"] = summed.op("NonZero").reshape([-1])
    return results


@defines("SplitTraining", "Split(X, split)")
def _split_training(call: Call) -> dict[str, Tensor]:
    count, axis = len(call.outputs), call.attribute("axis", 0)
    if call.has("split"):
        parts = call.tensor("X").results(count, "Split", call.tensor("split"), axis=axis)
    else:
        parts = call.tensor("X").results(count, "Split", axis=axis, num_outputs=count)
    return dict(zip(call.outputs, parts, strict=True))


_ADDED = (TensorProto.DOUBLE, TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64)
"""The types of elements for which every runtime has a kernel that adds them."""


def _addends(call: Call) -> tuple[Tensor, Tensor]:
    """Zeros of the sizes `shape`, and dY, which is added onto them: in float32 if it is a half."""
    kind = call.element_type("dY")
    [dy] = call.widened("dY")
    return zeros(call.tensor("shape"), kind if kind in _ADDED else TensorProto.FLOAT), dy


_USUAL_INDICES = 1024
"""What a number of indices that is not known is taken for."""


@defines("GatherGrad", "rows of dY added onto zeros at the indices")
def _gather_grad(call: Call) -> Tensor:
    return _added_rows(call, call.tensor("indices"), call.shape("indices"))


def _added_rows(call: Call, indices: Tensor, known: Shape) -> Tensor:
    """Rows of dY added onto zeros at indices, of which the shape is known, with the axes of these as one."""
    shape, rank = call.facts.integers(call.operand("shape")), call.count("shape", 0)
    axis, (base, dy) = call.axis(rank, 0), _addends(call)
    sizes = [None] * rank if shape is None else [dim.static for dim in shape]
    if 0 in sizes:
        return call.narrowed(base, "dY")
    if not known:
        dy, numbers = dy.unsqueeze([axis]), call.facts.integers(call.operand("indices"))
        if numbers is not None and (place := numbers[0].static) is not None:
            return _at_place(call, dy, axis, place, sizes)
    row = [1 if at == axis else size for at, size in enumerate(sizes)]
    rows = _in_a_row(call, dy, indices, axis, row) if len(known) > 1 else dy
    reduction: dict[str, Any] = {"reduction": "add"}
    if call.node.scope.opset < SCATTER_THAT_ADDS:
        count, extent = dims.size(known).static, sizes[axis]
        if extent is None or (count or _USUAL_INDICES) > extent:
            call.require_few((count or 0) * (extent or 0))
            return call.narrowed(_by_one_hot(call, indices, rows, rank, axis), "dY")
        call.require_few((count or 0) ** 2)
        rows, reduction = _with_equal_rows(call, indices, rows, rank, axis), {}
    column = indices.reshape([-1 if at == axis else 1 for at in range(rank)])
    fixed = [size for size in row if size is not None]
    if len(fixed) == rank:
        positions = column.op("Expand", fixed)
    else:  # onnxruntime does not expand 1 to 0
        positions = column + zeros(_sizes_with(call, axis, call.constant([1])), call.element_type("indices"))
    return call.narrowed(base.op("ScatterElements", positions, rows, axis=axis, **reduction), "dY")


def _in_a_row(call: Call, dy: Tensor, indices: Tensor, axis: int, row: Sequence[int | None]) -> Tensor:
    """DY with the axes of the indices, several of them from an axis on, as one."""
    fixed = [size for size in row if size is not None]
    if len(fixed) == len(row):
        return dy.reshape([*fixed[:axis], -1, *fixed[axis + 1 :]])
    # -1 stands for the number of indices, but another size may be 0, which leaves it open.
    if call.node.scope.opset < RESHAPE_TO_ZERO:
        return dy.op("Reshape", _sizes_with(call, axis, call.constant([-1])))
    return dy.op("Reshape", _sizes_with(call, axis, indices.op("Size").reshape([1])), allowzero=1)


def _sizes_with(call: Call, axis: int, size: Tensor) -> Tensor:
    """The operand `shape` with another size on an axis."""
    shape, rank = call.tensor("shape"), call.count("shape", 0)
    return joined([shape.op("Slice", [0], [axis]), size, shape.op("Slice", [axis + 1], [rank])], 0)


def _at_place(call: Call, row: Tensor, axis: int, place: int, sizes: Sequence[int | None]) -> Tensor:
    """A row of an axis with zeros around it."""
    extent = sizes[axis]
    if extent is None:
        return _padded_to_shape(call, {axis: place}, row)
    pads = [0] * (2 * len(sizes))
    pads[axis], pads[len(sizes) + axis] = place % extent, extent - 1 - place % extent
    return call.narrowed(row.op("Pad", pads), "dY")


def _places(call: Call, indices: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """The indices from 0 on, as a row, and the extent of the axis, which is a vector."""
    extent = call.tensor("shape").op("Slice", [axis], [axis + 1])
    long = indices.reshape([1, -1]).cast(TensorProto.INT64)
    return long.op("Less", 0).op("Where", long + extent, long), extent


def _by_one_hot(call: Call, indices: Tensor, rows: Tensor, rank: int, axis: int) -> Tensor:
    """A product with a matrix that is 1 where a row has an index: (axis, number of indices) by the rows.

    An infinity or NaN in dY is also in the other rows of its column, since its product with 0 is NaN.
    """
    places, extent = _places(call, indices, axis)
    upright = call.constant(0).op("Range", extent.reshape([]), np.array(1)).reshape([-1, 1])
    return _summed(upright.op("Equal", places), extent, rows, rank, axis)


def _with_equal_rows(call: Call, indices: Tensor, rows: Tensor, rank: int, axis: int) -> Tensor:
    """For each row the sum of all rows of its index, by a product with a matrix that is 1 where two have the same one.

    Scattered without a reduction, each of them writes the same. Infinities and NaN spread as in `_by_one_hot`.
    """
    places, _ = _places(call, indices, axis)
    return _summed(
        places.transpose([1, 0]).op("Equal", places), places.op("Shape").op("Slice", [1], [2]), rows, rank, axis
    )


def _summed(matrix: Tensor, count: Tensor, rows: Tensor, rank: int, axis: int) -> Tensor:
    """A matrix of flags by the rows along an axis, of which there are `count` then, as a vector."""
    order = [axis, *(number for number in range(rank) if number != axis)]
    leading = rows.transpose(order)
    sums = matrix.cast(rows.element_type) @ leading.op("Flatten", axis=1)
    whole_shape = joined([count, leading.op("Shape").op("Slice", [1], [rank])], 0)
    return sums.op("Reshape", whole_shape, allowzero=1).transpose(map(order.index, range(rank)))


@defines("GatherElementsGrad", "dY added onto zeros at the indices")
def _gather_elements_grad(call: Call) -> Tensor:
    base, dy = _addends(call)
    if call.node.scope.opset < SCATTER_THAT_ADDS and (sums := _by_places(call, dy)) is not None:
        return call.narrowed(sums, "dY")
    sums = base.op("ScatterElements", call.tensor("indices"), dy, axis=call.attribute("axis", 0), reduction="add")
    return call.narrowed(sums, "dY")


def _by_places(call: Call, dy: Tensor) -> Tensor | None:
    """For each place on the axis, the sum of dY where the index is that place, and zeros behind it on other axes.

    None where it is not known how much smaller the indices are than the result on all other axes.
    """
    axis = call.axis(call.rank("indices"), 0)
    shape, indices = call.facts.integers(call.operand("shape")), call.shape("indices")
    if shape is None:
        return None
    pads = [0] * (2 * len(shape))
    for at, (whole, part) in enumerate(zip(shape, indices, strict=True)):
        if at != axis and whole != part:
            if whole.static is None or part.static is None:
                return None
            pads[len(shape) + at] = whole.static - part.static
    call.require_few(dims.size([shape[axis], *indices]).static or 0)
    extent = call.tensor("shape").op("Slice", [axis], [axis + 1]).reshape([])
    places = call.constant(0).op("Range", extent, np.array(1)).reshape([-1] + [1] * (len(shape) - axis))
    long = call.tensor("indices").cast(TensorProto.INT64)
    inside = long.op("Less", 0).op("Where", long + extent, long).unsqueeze([axis])
    rows = dy.unsqueeze([axis])
    sums = where(places.op("Equal", inside), rows, rows.constant(0.0)).reduced("ReduceSum", [axis + 1])
    return sums.op("Pad", pads) if any(pads) else sums


@defines("GatherNDGrad", "slices of dY added onto zeros at the indices")
def _gather_nd_grad(call: Call) -> Tensor:
    if call.attribute("batch_dims", 0):
        raise call.refuse("batch_dims")
    *places, depth = call.shape("indices")
    if depth.static == 1:
        return _added_rows(call, call.tensor("indices").op("Squeeze", [-1]), tuple(places))
    base, dy = _addends(call)
    if call.node.scope.opset < SCATTER_THAT_ADDS and depth.static is not None:
        return call.narrowed(_added_slices(call, dy, tuple(places), depth.static), "dY")
    return call.narrowed(base.op("ScatterND", call.tensor("indices"), dy, reduction="add"), "dY")


def _added_slices(call: Call, dy: Tensor, known: Shape, depth: int) -> Tensor:
    """As `_by_one_hot`, with the axes that indices of a depth name as one, on which a row has a number."""
    shape, sizes = call.tensor("shape"), call.facts.integers(call.operand("shape"))
    counted = known if sizes is None else (*known, *sizes[:depth])
    call.require_few(dims.size(counted).static or 0)
    numbers, extent = call.constant([0]), call.constant([1])
    for axis in range(depth):
        size = shape.op("Slice", [axis], [axis + 1])
        indices = call.tensor("indices").op("Slice", [axis], [axis + 1], [len(known)])
        long = indices.cast(TensorProto.INT64).reshape([1, -1])
        numbers, extent = numbers * size + long.op("Less", 0).op("Where", long + size, long), extent * size
    upright = call.constant(0).op("Range", extent.reshape([]), np.array(1)).reshape([-1, 1])
    rows = dy.op("Flatten", axis=len(known))
    return _summed(upright.op("Equal", numbers), extent, rows, 2, 0).op("Reshape", shape, allowzero=1)


@defines("SliceGrad", "dY with zeros around it, and between its rows")
def _slice_grad(call: Call) -> Tensor:
    """Zeros around dY; where a step is not 1, zeros between its rows too, by a scatter along that axis."""
    sizes, starts = call.dims("shape"), call.integers("starts") or []
    found = call.facts.integers(call.operand("ends"))
    axes = call.integers("axes") or list(range(len(starts)))
    steps = call.integers("steps") or [1] * len(starts)
    if not len(starts) == len(axes) == len(steps) == len(starts if found is None else found) or 0 in steps:
        raise call.refuse(f"a slice from {starts} on axes {axes} in steps {steps}")
    if not all(-len(sizes) <= axis < len(sizes) for axis in axes):
        raise call.refuse(f"axes {axes} of {len(sizes)}")
    is_known = found is not None and dims.is_static((*found, *(sizes[axis] for axis in axes)))
    if not is_known and set(steps) == {1}:
        [source] = call.widened("dY")
        return _padded_to_shape(call, {axis % len(sizes): at for axis, at in zip(axes, starts, strict=True)}, source)
    ends = call.integers("ends") or []
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
    [source] = call.widened("dY")
    for at, taken, size in scattered:
        rows = [taken.index(position) if position in taken else len(taken) for position in range(size)]
        source = _spread(source, at, len(sizes), rows)
    return call.narrowed(source.op("Pad", pads), "dY")


def _padded_to_shape(call: Call, starts: Mapping[int, int], source: Tensor) -> Tensor:
    """Values behind the rows before the starts, by axis, and before as many as are left of the shape."""
    shape, rows = call.tensor("shape"), []
    for axis in range(call.count("shape", 0)):
        start, size = starts.get(axis, 0), shape.op("Slice", [axis], [axis + 1])
        if start > 0:
            rows.append(size.op("Less", start).op("Where", size, call.constant([start])))
        elif start < 0:
            place = size + start
            rows.append(place.op("Less", 0).op("Where", call.constant([0]), place))
        else:
            rows.append(call.constant([0]))
    before = joined(rows, 0)
    after = shape - source.op("Shape") - before
    return call.narrowed(source.op("Pad", joined([before, after], 0)), "dY")


def _spread(source: Tensor, axis: int, rank: int, rows: Sequence[int]) -> Tensor:
    """The rows of a value along an axis in another order; a number behind the last row is a row of zeros."""
    pads = [0] * (2 * rank)
    pads[rank + axis] = 1
    return source.op("Pad", pads).op("Gather", rows, axis=axis)


@defines("FlattenAndUnpad", "the rows of X at the indices")
def _flatten_and_unpad(call: Call) -> dict[str, Tensor]:
    """The rows at the indices, with the first two axes as one; the sizes of these."""
    rank, x = call.rank("X"), call.tensor("X")
    shape = x.op("Shape")
    before, after = shape.op("Slice", [0], [2]), shape.op("Slice", [2], [rank])
    flat = x.op("Reshape", joined([call.constant([-1]), after], 0))
    return {"Y": flat.op("Gather", call.tensor("indices"), axis=0), "unflatten_dims": before}


@defines("PadAndUnflatten", "zeros with the rows of X at the indices")
def _pad_and_unflatten(call: Call) -> Tensor:
    """Zeros with the rows at the indices, and the first axis as two."""
    rank, [x] = call.rank("X"), call.widened("X")
    if x.element_type not in _ADDED:
        raise call.refuse(f"elements of type {type_name(x.element_type)}")
    sizes, rows = call.tensor("unflatten_dims"), x.op("Shape")
    rest = rows.op("Slice", [1], [rank])
    base = zeros(joined([sizes.op("ReduceProd", [0], keepdims=1), rest], 0), x.element_type)
    positions = call.tensor("indices").unsqueeze(range(1, rank)).op("Expand", rows)
    flat = base.op("ScatterElements", positions, x, axis=0)
    return call.narrowed(flat.op("Reshape", joined([sizes, rest], 0)), "X")


@defines("ShrunkenGather", "Gather(X, indices)")
def _shrunken_gather(call: Call) -> Tensor:
    return call.tensor("X").op("Gather", call.tensor("indices"), axis=call.attribute("axis", 0))


@defines("Trilu", "Trilu(X, k)")
def _trilu(call: Call) -> Tensor:
    x, *k = map(call.tensor, call.all_inputs())
    is_upper = bool(call.attribute("upper", 1))
    if call.node.scope.opset >= TRILU:
        return x.op("Trilu", *k, upper=int(is_upper))
    rank, shape = call.rank("X"), x.op("Shape")
    rows, columns = (
        call.constant(0).op("Range", shape.op("Slice", [at], [at + 1]).reshape([]), np.array(1)).unsqueeze([across])
        for at, across in ((rank - 2, 1), (rank - 1, 0))
    )
    diagonal = rows + k[0].reshape([]) if k else rows
    is_kept = columns.op("Less", diagonal).op("Not") if is_upper else diagonal.op("Less", columns).op("Not")
    return where(is_kept, x, x.constant(0))


@defines("ReduceSumTraining", "Σ X")
def _reduce_sum_training(call: Call) -> Tensor:
    x, keep, noop = call.tensor("X"), call.attribute("keepdims", 1), call.attribute("noop_with_empty_axes", 0)
    axes = call.facts.integers(call.operand("axes"))
    if axes == ():
        return x if noop else x.op("ReduceSum", keepdims=keep)
    if axes is not None and dims.is_static(axes):
        return x.op("ReduceSum", [dim.coefficient for dim in axes], keepdims=keep)
    return x.op("ReduceSum", call.tensor("axes"), keepdims=keep, noop_with_empty_axes=noop)
