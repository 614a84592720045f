# SPDX-License-Identifier: Apache-2.0

"""Writes max pools whose Indices are read, or whose dilations the plugin drops, as maxima of gathered windows.

With a table of the positions of each window's elements in a plane, a row for each window, as in PyTorch's adaptive
pools: the windows are gathered, ArgMax finds the first maximum of each, and the table tells its position. A window that
the padding shortens repeats its last element, which is never the first maximum. ONNX's Indices count from the start of
the whole tensor, so the position of each plane is added, unless the graph takes it off again: exporters of PyTorch
subtract the first index of each plane of a pool of single elements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto

from poolgrad_lowering.ge.values import all_numbers, attributes_of
from poolgrad_lowering.ge.writer import Writer
from poolgrad_lowering.ge.zeros import numbers_along
from poolgrad_lowering.model.facts.known import need, require
from poolgrad_lowering.model.facts.type_rules import FLOAT_TYPES
from poolgrad_lowering.model.ir.dims import Dim
from poolgrad_lowering.model.ir.graphs import is_standard
from poolgrad_lowering.model.windows import AxisWindow, PoolAttributes

_OLDEST_OPSET = 11
"""The first opset with GatherElements."""
_MOST_POSITIONS = 1 << 24
"""Of all windows together: more than any network needs, fewer than fill a memory."""
_END = 1 << 63
"""The first number that int64 does not have."""
_AXES_WITH_DILATION = 3
"""The number of spatial axes of the pools whose dilations the plugin keeps."""


def write_pool(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> bool:
    """Add the nodes in place of a MaxPool; return whether it needs them and the sizes of its planes are known."""
    kernel, x = tuple(attributes.get("kernel_shape", ())), node.input[0]
    is_dropped = len(kernel) < _AXES_WITH_DILATION and max(attributes.get("dilations", (1,))) > 1
    indices = next((name for name in node.output[1:] if name in writer.read), "")
    users = writer.users(indices) if indices else None
    if users is not None and all(_starts_of(user, writer) for user in users):
        indices = ""
        if node.output[0] not in writer.read and plane_starts(x, writer):
            return True  # nothing is left of it
    sizes = writer.types.sizes(x, 2) or ()
    table = _table(attributes, kernel, sizes)
    is_wanted = bool(is_dropped or indices) and writer.opset >= _OLDEST_OPSET
    is_wanted &= all(user.op_type != "MaxPoolGrad" for user in users or ())  # an obstacle itself, which needs the pool
    if not is_wanted or table is None or writer.types.elements.get(x) not in FLOAT_TYPES:
        return False
    first, channels = writer.types.shapes[x][:2]
    if not isinstance(channels, int):
        return False
    in_planes = [user for user in writer.readers.get(indices, ()) if _is_in_plane(user, x, writer)]
    is_shifted = indices and (users is None or len(in_planes) < len(users))
    starts = plane_starts(x, writer) if is_shifted else ""
    if is_shifted and not starts:
        return False
    batch = first if isinstance(first, int) else -1
    (counts, places), plane, result = table, math.prod(sizes), node.output[0]
    count, most = places.shape

    def new(part: str) -> str:
        return writer.name(f"{result}/{part}")

    def known(value: str, element: int | None, *shape: int | str | None) -> str:
        writer.types.learn(value, element, (first, channels, *shape))
        return value

    element, leading = writer.types.elements.get(x), [batch, channels]
    flat = writer.constant(f"{result}/table", places.reshape(-1))
    planes = known(writer.reshape(x, [*leading, plane], new("planes")), element, plane)
    gathered = known(writer.add("Gather", [planes, flat], new("gathered"), axis=2), element, count * most)
    windows = known(writer.reshape(gathered, [*leading, count, most], new("windows")), element, count, most)
    found = writer.add("ArgMax", [windows], new("first"), axis=3, keepdims=1)
    known(found, TensorProto.INT64, count, 1)
    maxima = writer.add("GatherElements", [windows, found], new("maxima"), axis=3)
    known(maxima, element, count, 1)
    writer.reshape(maxima, [*leading, *counts], result)
    if indices:
        rows = writer.constant(f"{result}/rows", np.arange(count).reshape(count, 1) * most)
        place = known(writer.add("Add", [found, rows], new("place")), TensorProto.INT64, count, 1)
        position = known(writer.add("Gather", [flat, place], new("position"), axis=0), TensorProto.INT64, count, 1)
        writer.positions |= {user.output[0]: (position, [*leading, *counts]) for user in in_planes}
        if is_shifted:
            index = known(writer.add("Add", [position, starts], new("index")), TensorProto.INT64, count, 1)
            writer.reshape(index, [*leading, *counts], indices)
    return True


def write_positions(node: NodeProto, _: Mapping[str, Any], writer: Writer) -> None:
    """Add the positions in planes in place of a Sub that computes them from Indices."""
    writer.reshape(*need(writer.positions.get(node.output[0])), node.output[0])


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
    rank = None if pool is None else writer.types.rank(pool.input[0])
    if pool is None or rank is None or list(pool.output)[1:2] != [node.input[0]] or not _is_single(pool):
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


def _table(
    attributes: Mapping[str, Any], kernel: tuple[int, ...], sizes: Sequence[int]
) -> tuple[list[int], np.ndarray[Any, Any]] | None:
    """Return the number of windows along each axis, and the table, a row of positions for each window.

    None if a size or the windows are not known or too many, or one is empty.
    """
    pool = pool_attributes(attributes, kernel)
    is_odd = attributes.get("storage_order") or attributes.get("ceil_mode") not in (None, 0, 1)
    if not 0 < len(kernel) == len(sizes) == len(pool.windows) or pool.has_ambiguous_pads or is_odd:
        return None
    windows = [need(pool.axis(axis, Dim(size))) for axis, size in enumerate(sizes)]
    counts = [window.output_size(size, ceil=pool.ceil) for window, size in zip(windows, sizes, strict=True)]
    if min(counts) <= 0 or math.prod(counts) * math.prod(kernel) > _MOST_POSITIONS:
        return None
    places = np.zeros((1, 1), np.int64)
    for window, count, size in zip(windows, counts, sizes, strict=True):
        row = _row(window, count, size)
        if row is None:
            return None
        places = (places[:, None, :, None] * size + row[None, :, None, :]).reshape(len(places) * count, -1)
    return counts, places


def _row(window: AxisWindow, count: int, size: int) -> np.ndarray[Any, Any] | None:
    """Return the positions of each window along an axis, the last one repeated; None if a window has no element."""
    taps = range(window.kernel)
    of = [[o * window.stride - window.begin + t * window.dilation for t in taps] for o in range(count)]
    inside = [[place for place in places if 0 <= place < size] for places in of]
    most = max(map(len, inside))
    return np.array([places + places[-1:] * (most - len(places)) for places in inside]) if all(inside) else None


def plane_starts(x: str, writer: Writer) -> str:
    """Return the positions of the planes of x in the whole tensor, of shape (N, C, 1, 1).

    "" if sizes are not known, or too large. A batch that is not known is counted on the device.
    """
    if x not in writer.starts:
        batch, *others = writer.types.shapes.get(x, (None, None))
        sizes, known = all_numbers(others), batch if isinstance(batch, int) else 1
        is_small = sizes and known * sizes[0] <= _MOST_POSITIONS and known * math.prod(sizes) < _END
        writer.starts[x] = _starts(x, batch, sizes, writer) if sizes and is_small else ""
    return writer.starts[x]


def _starts(x: str, batch: int | str | None, sizes: Sequence[int], writer: Writer) -> str:
    channels, elements = sizes[0], math.prod(sizes[1:])
    if isinstance(batch, int):
        starts = np.arange(batch * channels).reshape(batch, channels, 1, 1) * elements
        return writer.constant(f"{x}/starts", starts)
    number = numbers_along(0, 4, str(batch), writer)
    if number is None:
        return ""
    start = writer.add("Mul", [number, writer.vector([channels * elements])], writer.name(f"{x}/batch"))
    planes = writer.constant(f"{x}/planes", np.arange(channels).reshape(1, channels, 1, 1) * elements)
    starts_of = writer.add("Add", [start, planes], writer.name(f"{x}/starts"))
    for value, count in ((start, 1), (starts_of, channels)):
        writer.types.learn(value, TensorProto.INT64, (batch, count, 1, 1))
    return starts_of
