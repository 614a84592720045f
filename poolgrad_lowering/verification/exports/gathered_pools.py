# SPDX-License-Identifier: Apache-2.0

"""What an export may write for a max pool with Indices: its windows, gathered by a table, and their first maxima.

In the shape (N, C, windows of each axis, elements) the first maximum of each row is the pool's, and the table tells its
position in the plane; ONNX's Indices are those in the whole tensor. The tables are those of verification's own max
pool, or, of windows without padding over sizes that are not known, computed by the graph.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto

from poolgrad_lowering.verification.exports.node_rewrite import (
    FAR,
    MOST_NUMBERS,
    Context,
    GivenOperand,
    NodeRewrite,
    same_but,
)
from poolgrad_lowering.verification.graph.protos import attribute_values, integers
from poolgrad_lowering.verification.graph.types import AxisSize, TensorTypes
from poolgrad_lowering.verification.operators.pool import fixed_windows, plane_starts, window_places
from poolgrad_lowering.verification.operators.pooling import WINDOWS, onnx_windows

_Table = tuple[str, str, str | None, str | None]
"""Positions of the elements of windows, with an axis for each of the pool's, and what finds that of element n.

It is the number at n in the second value, or at n plus the third one, plus the fourth.
"""


def pool_rewrites(node: NodeProto, _: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """Yield what may stand for a MaxPool: one without Indices, or nodes that have them if it does."""
    alone = same_but(node)
    alone.output[:] = node.output[:1]
    yield NodeRewrite([alone])
    rewrite = NodeRewrite()
    if (windows := _windows(rewrite, node, context)) is None:
        return
    maxima, position = windows
    shape = [0] * len(context.dims(node.input[0]) or ())
    rewrite.into(node.output[0], "Reshape", maxima, shape)
    starts = _starts(rewrite, node, context) if any(node.output[1:]) else None
    if starts is not None:
        rewrite.into(node.output[1], "Reshape", rewrite.add("Add", position, starts), shape)
    yield rewrite


def position_rewrites(node: NodeProto, _: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """Yield what may stand for a Sub of Indices and positions of planes: positions in the planes."""
    pool, rewrite = context.planes.get(node.output[0]), NodeRewrite()
    if pool is not None and (windows := _windows(rewrite, pool, context)) is not None:
        rewrite.reads.append(pool.input[0])
        yield rewrite.into(node.output[0], "Reshape", windows[1], [0] * len(context.dims(pool.input[0]) or ()))


def start_rewrites(node: NodeProto, _: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """Yield what may stand for a Slice of the Indices of a pool of single elements: the positions of planes."""
    pool, rewrite = context.planes.get(node.output[0]), NodeRewrite()
    if pool is not None and (starts := _starts(rewrite, pool, context)) is not None:
        axes = (context.rank(pool.input[0]) or 2) - 2
        yield rewrite.into(node.output[0], "Reshape", starts, [0, 0, *[1] * axes])


def find_planes(graph: GraphProto, types: TensorTypes, constants: Mapping[str, TensorProto]) -> dict[str, NodeProto]:
    """Return the pools whose positions in planes Slices and Subs compute from Indices, by the results of these.

    A Slice takes the positions of the planes from a pool of single elements, and a Sub subtracts them, as in exports.
    """
    pools = {node.output[1]: node for node in graph.node if node.op_type == "MaxPool" and any(node.output[1:])}
    found: dict[str, NodeProto] = {}
    for node in graph.node if pools else ():
        pool = pools.get(node.input[0]) if node.op_type in ("Slice", "Sub") else None
        dims = None if pool is None or pool.input[0] not in types else types[pool.input[0]].dims
        if pool is None or dims is None:
            continue
        if node.op_type == "Slice":
            ones = [1] * (len(dims) - 2)
            bounds = [integers(constants.get(name)) if name else ones for name in [*node.input[1:], ""][:4]]
            if bounds == [[0] * len(ones), ones, list(range(2, len(dims))), ones] and _is_single(pool, ones):
                found[node.output[0]] = pool
        elif (of := found.get(node.input[1])) is not None and types[of.input[0]].dims == dims and None not in dims:
            found[node.output[0]] = pool
    return found


def _is_single(pool: NodeProto, ones: Sequence[int]) -> bool:
    held = attribute_values(pool)
    steps = [held.get("kernel_shape"), held.get("strides", ones)]
    return steps == [ones, ones] and not any(held.get("pads", ())) and not held.get("storage_order", 0)


def _windows(rewrite: NodeRewrite, pool: NodeProto, context: Context) -> tuple[str, str] | None:
    """Add the nodes that gather the windows of a pool; None if these are not known.

    Returns the maxima and their positions, of shape (N, C, windows of each axis, 1).
    """
    x, held = pool.input[0], attribute_values(pool)
    dims, sizes = context.dims(x) or (), context.sizes(x, 2)
    if len(dims) < 3 or held.get("storage_order", 0):
        return None
    table = _computed_table(rewrite, held, dims[2:], context) if sizes is None else _stored_table(rewrite, held, sizes)
    if table is None:
        return None
    positions, numbers, before, begin = table
    planes = rewrite.add("Reshape", x, [0, 0, -1 if sizes is None else math.prod(sizes)])
    elements = rewrite.add("Gather", planes, positions, axis=2)
    first = rewrite.add("ArgMax", elements, axis=len(dims), keepdims=1)
    maxima = rewrite.add("GatherElements", elements, first, axis=len(dims))
    place = first if before is None else rewrite.add("Add", first, before)
    found = rewrite.add("Gather", numbers, place, axis=0)
    return maxima, found if begin is None else rewrite.add("Add", found, begin)


def _stored_table(rewrite: NodeRewrite, held: Mapping[str, Any], sizes: Sequence[int]) -> _Table | None:
    """Add the positions in windows over known sizes; None if a window has no element."""
    kernel, given = held["kernel_shape"], {name: held[name] for name in WINDOWS if name in held}
    strides, dilations, pads = onnx_windows(sizes, kernel, **given)
    rows = zip(sizes, kernel, strides, dilations, zip(*pads, strict=True), strict=True)
    try:
        places = window_places(sizes, [fixed_windows(*row, ceil=bool(held.get("ceil_mode", 0))) for row in rows])
    except ValueError:
        return None
    table = rewrite.value(places)
    before = np.arange(0, places.size, places.shape[-1]).reshape(*places.shape[:-1], 1)
    return table, rewrite.add("Reshape", table, [places.size]), rewrite.value(before), None


def _computed_table(
    rewrite: NodeRewrite, held: Mapping[str, Any], sizes: Sequence[AxisSize], context: Context
) -> _Table | None:
    """Add the positions in windows without padding: tap t of window o is element o · stride + t · dilation of an axis.

    Windows end where the axis does.
    """
    kernel = held["kernel_shape"]
    is_padded = any(held.get("pads", ())) or held.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID")
    is_odd = is_padded or held.get("ceil_mode", 0) or math.prod(kernel) > MOST_NUMBERS
    if len(sizes) != len(kernel) or is_odd:
        return None
    ones, rank = [1] * len(kernel), len(kernel) + 1
    found = [rewrite.places_along(axis, rank, size, context) for axis, size in enumerate(sizes)]
    axes = [each for each in found if each is not None]
    if len(axes) < rank - 1:
        return None
    begins, inner = list[GivenOperand](), list[GivenOperand]()
    windows = zip(kernel, held.get("strides", ones), held.get("dilations", ones), strict=True)
    for axis, (taps, stride, dilation) in enumerate(windows):
        reach = dilation * (taps - 1)
        begins.append(rewrite.add("Slice", axes[axis][0], [0], [-reach if reach else FAR], [axis], [stride]))
        inside = [np.arange(count) * dilation * (at == axis) for at, count in enumerate(kernel)]
        inner.append(np.sum(np.meshgrid(*inside, indexing="ij"), axis=0).reshape(*ones, -1))
    begin, numbers = (rewrite.row_major(each, [count for _, count in axes[1:]]) for each in (begins, inner))
    listed = rewrite.add("Reshape", numbers, [math.prod(kernel)])
    return rewrite.add("Add", begin, numbers), listed, None, begin


def _starts(rewrite: NodeRewrite, pool: NodeProto, context: Context) -> str | None:
    """Add the positions of planes, of shape (N, C, 1, …) with an axis more than x; None if not known."""
    x = pool.input[0]
    batch, sizes = (context.dims(x) or (None,))[0], context.sizes(x, 1)
    if sizes is None:
        return None
    ones = [1] * len(sizes)
    if isinstance(batch, int):
        return rewrite.value(plane_starts([batch, *sizes]).reshape(batch, sizes[0], *ones))
    if (source := context.input_with_size(batch)) is None:
        return None
    start = rewrite.add("Mul", rewrite.places(0, 2 + len(ones), [source]), [math.prod(sizes)])
    return rewrite.add("Add", start, plane_starts([1, *sizes]).reshape(1, sizes[0], *ones))
