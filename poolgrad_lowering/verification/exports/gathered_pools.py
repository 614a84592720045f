# SPDX-License-Identifier: Apache-2.0

"""What an export may write for a max pool with Indices: its windows, gathered by a table, and their first maxima.

In the shape (N, C, windows, elements) the first maximum of each row is the pool's, and the table tells its position in
the plane; ONNX's Indices are those in the whole tensor. The tables are those of verification's own max pool.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto

from poolgrad_lowering.verification.exports.node_rewrite import Context, NodeRewrite, same_but
from poolgrad_lowering.verification.graph.protos import attribute_values, integers
from poolgrad_lowering.verification.graph.types import TensorTypes
from poolgrad_lowering.verification.operators.pool import fixed_windows, plane_starts, window_places
from poolgrad_lowering.verification.operators.pooling import WINDOWS, onnx_windows


def pool_rewrites(node: NodeProto, _: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """Yield what may stand for a MaxPool: one without Indices, or nodes that have them if it does."""
    alone = same_but(node)
    alone.output[:] = node.output[:1]
    yield NodeRewrite([alone])
    rewrite = NodeRewrite()
    if (windows := _windows(rewrite, node, context)) is None:
        return
    maxima, position, counts = windows
    rewrite.into(node.output[0], "Reshape", maxima, counts)
    starts = _starts(rewrite, node, context) if any(node.output[1:]) else None
    if starts is not None:
        rewrite.into(node.output[1], "Reshape", rewrite.add("Add", position, starts), counts)
    yield rewrite


def position_rewrites(node: NodeProto, _: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """Yield what may stand for a Sub of Indices and positions of planes: positions in the planes."""
    pool, rewrite = context.planes.get(node.output[0]), NodeRewrite()
    if pool is not None and (windows := _windows(rewrite, pool, context)) is not None:
        rewrite.reads.append(pool.input[0])
        position, counts = windows[1:]
        yield rewrite.into(node.output[0], "Reshape", position, counts)


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


def _windows(rewrite: NodeRewrite, pool: NodeProto, context: Context) -> tuple[str, str, list[int]] | None:
    """Add the nodes that gather the windows of a pool; None if these are not known.

    Returns the maxima and the positions, of shape (N, C, windows, 1), and the shape of the result.
    """
    x, held = pool.input[0], attribute_values(pool)
    batch, sizes = (context.dims(x) or (None,))[0], context.sizes(x, 1)
    if sizes is None or len(sizes) < 2 or held.get("storage_order", 0):
        return None
    channels, *spatial = sizes
    kernel, given = held["kernel_shape"], {name: held[name] for name in WINDOWS if name in held}
    strides, dilations, pads = onnx_windows(spatial, kernel, **given)
    rows = zip(spatial, kernel, strides, dilations, zip(*pads, strict=True), strict=True)
    try:
        places = window_places(spatial, [fixed_windows(*row, ceil=bool(held.get("ceil_mode", 0))) for row in rows])
    except ValueError:  # a window without an element
        return None
    *counts, most = places.shape
    leading = [batch if isinstance(batch, int) else -1, channels]
    windows = math.prod(counts)
    table = rewrite.value(places.reshape(-1))
    planes = rewrite.add("Reshape", x, [*leading, math.prod(spatial)])
    gathered = rewrite.add("Gather", planes, table, axis=2)
    elements = rewrite.add("Reshape", gathered, [*leading, windows, most])
    first = rewrite.add("ArgMax", elements, axis=3, keepdims=1)
    maxima = rewrite.add("GatherElements", elements, first, axis=3)
    place = rewrite.add("Add", first, np.arange(windows, dtype=np.int64).reshape(windows, 1) * most)
    return maxima, rewrite.add("Gather", table, place, axis=0), [*leading, *counts]


def _starts(rewrite: NodeRewrite, pool: NodeProto, context: Context) -> str | None:
    """Add the positions of planes, of shape (N, C, 1, 1); None if not known."""
    x = pool.input[0]
    batch, sizes = (context.dims(x) or (None,))[0], context.sizes(x, 1)
    if sizes is None:
        return None
    if isinstance(batch, int):
        return rewrite.value(plane_starts([batch, *sizes]).reshape(batch, sizes[0], 1, 1))
    if (source := context.input_with_size(batch)) is None:
        return None
    start = rewrite.add("Mul", rewrite.places(0, 4, [source]), [math.prod(sizes)])
    return rewrite.add("Add", start, plane_starts([1, *sizes]).reshape(1, sizes[0], 1, 1))
