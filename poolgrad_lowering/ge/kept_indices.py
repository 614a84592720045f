# SPDX-License-Identifier: Apache-2.0

"""Writes max pools whose Indices are read, or whose dilations the plugin drops, as maxima of gathered windows.

With a table of the positions of each window's elements in a plane, a row for each window, as in PyTorch's adaptive
pools: the windows are gathered, ArgMax finds the first maximum of each, and the table tells its position. A window that
the padding shortens repeats its last element, which is never the first maximum. Where a size is not known, the graph
computes the table, of windows without padding: where each begins, plus the positions of the elements in the first one.
ONNX's Indices count from the start of the whole tensor, so the position of each plane is added, unless the graph takes
it off again: exporters of PyTorch subtract the first index of each plane of a pool of single elements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from onnx import NodeProto, TensorProto

from poolgrad_lowering.ge.values import all_numbers, attributes_of
from poolgrad_lowering.ge.writer import LAST, Writer
from poolgrad_lowering.ge.zeros import (
    MOST_NUMBERS,
    Sizes,
    are_counted,
    counted_along,
    numbers_along,
    row_major,
)
from poolgrad_lowering.model.facts.known import need, require
from poolgrad_lowering.model.facts.type_rules import FLOAT_TYPES
from poolgrad_lowering.model.ir.dims import Dim
from poolgrad_lowering.model.ir.graphs import is_standard
from poolgrad_lowering.model.windows import AxisWindow, PoolAttributes

_OLDEST_OPSET = 11
"""The first opset with GatherElements."""
_END = 1 << 63
"""The first number that int64 does not have."""
_AXES_WITH_DILATION = 3
"""The number of spatial axes of the pools whose dilations the plugin keeps."""


class _Table(NamedTuple):
    """Positions in a plane, of shape (windows along each axis, elements of a window).

    That of element n of a window is the number at n + `before` in `numbers`, plus `begin`.
    """

    positions: str
    numbers: str
    before: str = ""
    begin: str = ""


def write_pool(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> bool:
    """Add the nodes in place of a MaxPool; return whether it needs them and its windows are known."""
    kernel, x = tuple(attributes.get("kernel_shape", ())), node.input[0]
    is_dropped = len(kernel) < _AXES_WITH_DILATION and max(attributes.get("dilations", (1,))) > 1
    indices = next((name for name in node.output[1:] if name in writer.read), "")
    users = writer.users(indices) if indices else None
    if users is not None and all(_starts_of(user, writer) for user in users):
        indices = ""
        if node.output[0] not in writer.read and plane_starts(x, writer):
            return True  # nothing is left of it
    sizes = writer.types.shapes.get(x, ())[2:]
    known = all_numbers(sizes)
    places = None if known is None else _table(attributes, kernel, known)
    is_wanted = bool(is_dropped or indices) and writer.opset >= _OLDEST_OPSET
    is_wanted &= all(user.op_type != "MaxPoolGrad" for user in users or ())  # an obstacle itself, which needs the pool
    is_wanted &= places is not None or (known is None and _is_computable(attributes, kernel, sizes, writer))
    if not is_wanted or writer.types.elements.get(x) not in FLOAT_TYPES:
        return False
    in_planes = [user for user in writer.readers.get(indices, ()) if _is_in_plane(user, x, writer)]
    is_shifted = indices and (users is None or len(in_planes) < len(users))
    starts = plane_starts(x, writer) if is_shifted else ""
    if is_shifted and not starts:
        return False
    table = _computed(node, attributes, writer) if places is None else _stored(node, places, writer)
    position = _write_maxima(node, table, indices, starts, writer)
    writer.positions |= {user.output[0]: position for user in in_planes}
    return True


def _write_maxima(node: NodeProto, table: _Table, indices: str, starts: str, writer: Writer) -> str:
    """Add the maxima of a pool, and its `indices` if `starts` of planes are given; return its positions in planes.

    Without indices, "" is returned.
    """
    x, result, types = node.input[0], node.output[0], writer.types
    leading, sizes, (*counts, most) = types.shapes[x][:2], types.sizes(x, 2), types.shapes[table.positions]
    axis = len(counts) + 2

    def add(op_type: str, inputs: Sequence[str], part: str, last: int | str | None = 1, **held: Any) -> str:
        value = writer.add(op_type, inputs, writer.name(f"{result}/{part}"), **held)
        element = types.elements[x] if part in ("windows", "maxima") else TensorProto.INT64
        types.learn(value, element, [*leading, *counts, last])
        return value

    plane = None if sizes is None else math.prod(sizes)
    planes = writer.reshape(x, [0, 0, plane or -1], writer.name(f"{result}/planes"))
    types.learn(planes, types.elements[x], [*leading, plane])
    windows = add("Gather", [planes, table.positions], "windows", most, axis=2)
    found = add("ArgMax", [windows], "first", axis=axis, keepdims=1)
    writer.reshape(add("GatherElements", [windows, found], "maxima", axis=axis), [0] * axis, result)
    if not indices:
        return ""
    numbers = writer.reshape(table.numbers, [types.count(table.numbers) or -1], writer.name(f"{result}/numbers"))
    place = add("Add", [found, table.before], "place") if table.before else found
    position = add("Gather", [numbers, place], "position", axis=0)
    position = add("Add", [position, table.begin], "position") if table.begin else position
    if starts:
        writer.reshape(add("Add", [position, starts], "index"), [0] * axis, indices)
    return position


def _stored(node: NodeProto, places: np.ndarray[Any, Any], writer: Writer) -> _Table:
    """Add a table of known positions."""
    *counts, most = places.shape
    table = writer.constant(f"{node.output[0]}/table", places)
    rows = np.arange(math.prod(counts)).reshape(*counts, 1) * most
    return _Table(table, table, before=writer.constant(f"{node.output[0]}/rows", rows))


def _is_computable(attributes: Mapping[str, Any], kernel: tuple[int, ...], sizes: Sizes, writer: Writer) -> bool:
    """Whether the graph can compute the positions of a pool's windows: they are not padded, and inputs have sizes."""
    pool = pool_attributes(attributes, kernel)
    is_odd = attributes.get("storage_order") or attributes.get("ceil_mode") or pool.auto_pad not in ("NOTSET", "VALID")
    if is_odd or not len(kernel) == len(sizes) == len(pool.windows) or any(pool.begins + pool.ends):
        return False
    return math.prod(kernel) <= MOST_NUMBERS and are_counted(sizes, writer)


def _computed(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> _Table:
    """Add a table of windows without padding, over sizes of which inputs of the graph have those that are not known."""
    x, result, pool = node.input[0], node.output[0], pool_attributes(attributes, tuple(attributes["kernel_shape"]))
    sizes, rank = writer.types.shapes[x][2:], len(pool.kernel) + 1
    taps = np.indices(pool.kernel).reshape(len(sizes), *[1] * len(sizes), -1)
    begins, inner, counts = list[str](), list[str](), list[str]()
    for axis, (size, window) in enumerate(zip(sizes, pool.windows, strict=True)):
        number, count = counted_along(axis, rank, size, writer)
        bounds = [0], [1 - window.extent if window.extent > 1 else LAST], [axis], [window.stride]
        begins.append(writer.add("Slice", [number, *map(writer.vector, bounds)], writer.name(f"{result}/begins")))
        many = writer.types.shapes[result][2 + axis] if result in writer.types.shapes else None
        writer.types.learn(begins[-1], TensorProto.INT64, [many if at == axis else 1 for at in range(rank)])
        inner.append(writer.constant(f"{result}/taps", taps[axis] * window.dilation))
        counts.append(count)
    begin, numbers = (row_major(each, counts, result, writer) for each in (begins, inner))
    table = writer.add("Add", [begin, numbers], writer.name(f"{result}/table"))
    writer.types.learn(table, TensorProto.INT64, [*writer.types.shapes[begin][:-1], taps.shape[-1]])
    return _Table(table, numbers, begin=begin)


def write_positions(node: NodeProto, _: Mapping[str, Any], writer: Writer) -> None:
    """Add the positions in planes in place of a Sub that computes them from Indices."""
    position = need(writer.positions.get(node.output[0]))
    writer.reshape(position, [0] * (len(writer.types.shapes[position]) - 1), node.output[0])
    writer.unread.update([node.input[1], *writer.producers[writer.producers[node.input[1]].input[0]].output])


def _is_in_plane(node: NodeProto, x: str, writer: Writer) -> bool:
    """Whether a node that reads the Indices of a pool of x first subtracts the position of each plane from them."""
    start = writer.producers.get(node.input[1]) if node.op_type == "Sub" and is_standard(node) else None
    shape = writer.types.shapes[x]
    return start is not None and None not in shape and shape == writer.types.shapes.get(_starts_of(start, writer))


def write_plane_starts(node: NodeProto, _: Mapping[str, Any], writer: Writer) -> None:
    """Add the positions of planes in place of a Slice that takes each plane's first index of a pool of single elements.

    Exporters compute positions in a plane with it.
    """
    x = _starts_of(node, writer)
    starts = plane_starts(x, writer)
    require(starts)
    writer.reshape(starts, [0, 0, *[1] * (len(writer.types.shapes[x]) - 2)], node.output[0])


def _starts_of(node: NodeProto, writer: Writer) -> str:
    """Return the input of a pool of single elements if a Slice takes the first index of each of its planes; else ""."""
    pool = writer.producers.get(node.input[0]) if node.op_type == "Slice" and is_standard(node) else None
    if pool is None or not _is_single(pool) or list(pool.output)[1:2] != [node.input[0]]:
        return ""
    if (rank := writer.types.rank(pool.input[0])) is None:
        return ""
    ones = [1] * (rank - 2)
    bounds = [writer.types.numbers(name) if name else ones for name in [*node.input[1:], ""][:4]]
    return pool.input[0] if bounds == [[0] * (rank - 2), ones, [*range(2, rank)], ones] else ""


def _is_single(node: NodeProto) -> bool:
    """Whether a node is a pool of which each window is one element, and each element a window."""
    held = attributes_of(node)
    numbers = {*held.get("kernel_shape", ()), *held.get("strides", ())}
    is_plain = not any(held.get("pads", ())) and not held.get("storage_order", 0)
    return node.op_type == "MaxPool" and is_standard(node) and numbers == {1} and is_plain


def pool_attributes(attributes: Mapping[str, Any], kernel: tuple[int, ...]) -> PoolAttributes:
    """Return the attributes of a pool with ONNX's defaults filled in, as they are written."""
    strides, dilations = (tuple(attributes.get(name, (1,) * len(kernel))) for name in ("strides", "dilations"))
    pads = tuple(attributes.get("pads", (0,) * 2 * len(kernel)))
    begins, ends = pads[: len(kernel)], pads[len(kernel) :]
    auto_pad = attributes.get("auto_pad", b"NOTSET").decode()
    return PoolAttributes(kernel, strides, begins, ends, dilations, bool(attributes.get("ceil_mode")), auto_pad, 0)


def _table(attributes: Mapping[str, Any], kernel: tuple[int, ...], sizes: Sequence[int]) -> np.ndarray[Any, Any] | None:
    """Return the positions of each window along the last axis, and the windows along those before it.

    None if a size or the windows are not known or too many, or one is empty.
    """
    pool = pool_attributes(attributes, kernel)
    is_odd = attributes.get("storage_order") or attributes.get("ceil_mode") not in (None, 0, 1)
    if not 0 < len(kernel) == len(sizes) == len(pool.windows) or pool.has_ambiguous_pads or is_odd:
        return None
    windows = [need(pool.axis(axis, Dim(size))) for axis, size in enumerate(sizes)]
    counts = [window.output_size(size, ceil=pool.ceil) for window, size in zip(windows, sizes, strict=True)]
    if min(counts) <= 0 or math.prod(counts) * math.prod(kernel) > MOST_NUMBERS:
        return None
    places = np.zeros((1, 1), np.int64)
    for window, count, size in zip(windows, counts, sizes, strict=True):
        row = _row(window, count, size)
        if row is None:
            return None
        places = (places[:, None, :, None] * size + row[None, :, None, :]).reshape(len(places) * count, -1)
    return places.reshape(*counts, -1)


def _row(window: AxisWindow, count: int, size: int) -> np.ndarray[Any, Any] | None:
    """Return the positions of each window along an axis, the last one repeated; None if a window has no element."""
    taps = range(window.kernel)
    of = [[o * window.stride - window.begin + t * window.dilation for t in taps] for o in range(count)]
    inside = [[place for place in places if 0 <= place < size] for places in of]
    most = max(map(len, inside))
    return np.array([places + places[-1:] * (most - len(places)) for places in inside]) if all(inside) else None


def plane_starts(x: str, writer: Writer) -> str:
    """Return the positions of the planes of x in the whole tensor, of shape (N, C, 1, …) with an axis more than x.

    "" if sizes are not known, or too large. A batch that is not known is counted on the device.
    """
    if x not in writer.starts:
        batch, *others = writer.types.shapes.get(x, (None, None))
        sizes, known = all_numbers(others), batch if isinstance(batch, int) else 1
        is_small = sizes and known * sizes[0] <= MOST_NUMBERS and known * math.prod(sizes) < _END
        writer.starts[x] = _starts(x, batch, sizes, writer) if sizes and is_small else ""
    return writer.starts[x]


def _starts(x: str, batch: int | str | None, sizes: Sequence[int], writer: Writer) -> str:
    channels, elements, ones = sizes[0], math.prod(sizes[1:]), [1] * len(sizes)
    if isinstance(batch, int):
        starts = np.arange(batch * channels).reshape(batch, channels, *ones) * elements
        return writer.constant(f"{x}/starts", starts)
    number = numbers_along(0, 2 + len(ones), str(batch), writer)
    if number is None:
        return ""
    start = writer.add("Mul", [number, writer.vector([channels * elements])], writer.name(f"{x}/batch"))
    planes = writer.constant(f"{x}/planes", np.arange(channels).reshape(1, channels, *ones) * elements)
    starts_of = writer.add("Add", [start, planes], writer.name(f"{x}/starts"))
    for value, count in ((start, 1), (starts_of, channels)):
        writer.types.learn(value, TensorProto.INT64, (batch, count, *ones))
    return starts_of
