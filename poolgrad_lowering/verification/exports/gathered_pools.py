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
from onnx.helper import make_node

from poolgrad_lowering.verification.arrays import AnyArray
from poolgrad_lowering.verification.exports.node_rewrite import OWN, Context, NodeRewrite, Planes, same_but
from poolgrad_lowering.verification.exports.zeros import inputs_with_size, zero_nodes
from poolgrad_lowering.verification.graph.protos import attribute_values, integers
from poolgrad_lowering.verification.graph.types import AxisSize, TensorType
from poolgrad_lowering.verification.operators.pool import fixed_windows, plane_starts, same_pads, window_places


def pool_rewrites(node: NodeProto, held: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """Yield what may stand for a MaxPool: one without Indices, or nodes that have them if it does."""
    alone = same_but(node)
    alone.output[:] = node.output[:1]
    yield NodeRewrite([alone])
    known = context.types.get(node.input[0])
    windows = None if known is None or known.dims is None else _windows(node.input[0], held, known.dims)
    if windows is None or known is None or known.dims is None:
        return
    counts = windows.constants.pop("counts")
    nodes, constants, reads = windows.nodes, windows.constants, tuple[str, ...]()
    nodes.append(make_node("Reshape", ["maxima", "counts"], node.output[:1]))
    constants["counts"] = counts
    if any(node.output[1:]):
        starts = _starts(known.dims, context)
        if starts is not None:
            index = [make_node("Add", ["position", "starts"], ["index"])]
            nodes += [*starts.nodes, *index, make_node("Reshape", ["index", "counts"], node.output[1:])]
            constants |= starts.constants
            reads = starts.reads
    yield NodeRewrite(nodes, constants, reads=reads)


def position_rewrites(node: NodeProto, _: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """Yield what may stand for a Sub of Indices and positions of planes: positions in the planes."""
    planes = context.planes.get(node.output[0])
    if planes is None:
        return
    held = attribute_values(planes.pool)
    windows = _windows(OWN + planes.pool.input[0], held, planes.dims)
    if windows is not None:
        reshaped = make_node("Reshape", ["position", "counts"], node.output)
        yield NodeRewrite([*windows.nodes, reshaped], windows.constants, reads=(planes.pool.input[0],))


def start_rewrites(node: NodeProto, _: Mapping[str, Any], context: Context) -> Iterator[NodeRewrite]:
    """Yield what may stand for a Slice of the Indices of a pool of single elements: the positions of planes."""
    planes = context.planes.get(node.output[0])
    starts = None if planes is None else _starts(planes.dims, context)
    if planes is not None and starts is not None:
        shape = np.array([0, 0, *[1] * (len(planes.dims) - 2)], np.int64)
        nodes = [*starts.nodes, make_node("Reshape", ["starts", "start shape"], node.output)]
        yield NodeRewrite(nodes, {**starts.constants, "start shape": shape}, reads=starts.reads)


def find_planes(
    graph: GraphProto, types: Mapping[str, TensorType], constants: Mapping[str, TensorProto]
) -> dict[str, Planes]:
    """Return what is known of the results of Slices and Subs that compute positions in planes, as exporters do."""
    pools = {node.output[1]: node for node in graph.node if node.op_type == "MaxPool" and any(node.output[1:])}
    found: dict[str, Planes] = {}
    for node in graph.node if pools else ():
        pool = pools.get(node.input[0]) if node.op_type in ("Slice", "Sub") else None
        known = None if pool is None else types.get(pool.input[0])
        if pool is None or known is None or known.dims is None:
            continue
        rank = len(known.dims)
        if node.op_type == "Slice":
            ones = [1] * (rank - 2)
            bounds = [integers(constants.get(name)) if name else ones for name in [*node.input[1:], ""][:4]]
            if bounds == [[0] * (rank - 2), ones, list(range(2, rank)), ones] and _is_single(pool, ones):
                found[node.output[0]] = Planes(pool, known.dims)
        elif (starts := found.get(node.input[1])) is not None and starts.dims == known.dims and None not in known.dims:
            found[node.output[0]] = Planes(pool, known.dims)
    return found


def _is_single(pool: NodeProto, ones: Sequence[int]) -> bool:
    held = attribute_values(pool)
    steps = [held.get("kernel_shape"), held.get("strides", ones)]
    return steps == [ones, ones] and not any(held.get("pads", ())) and not held.get("storage_order", 0)


def _windows(x: str, held: Mapping[str, Any], dims: Sequence[AxisSize]) -> NodeRewrite | None:
    """Return the nodes that make "maxima" and "position", of shape (N, C, windows, 1), and their shape as "counts"."""
    batch, *others = dims
    sizes = [size for size in others if isinstance(size, int)]
    if len(sizes) != len(others) or len(sizes) < 2 or held.get("storage_order", 0):
        return None
    channels, *spatial = sizes
    kernel, ones = list(held["kernel_shape"]), [1] * len(spatial)
    strides, dilations = (list(held.get(name, ones)) for name in ("strides", "dilations"))
    pads = list(held.get("pads", [0] * (2 * len(spatial))))
    begins, ends = pads[: len(spatial)], pads[len(spatial) :]
    auto_pad = held.get("auto_pad", b"NOTSET")
    if auto_pad.startswith(b"SAME"):
        begins, ends = map(list, same_pads(spatial, kernel, strides, dilations, upper=auto_pad == b"SAME_UPPER"))
    rows = zip(spatial, kernel, strides, dilations, zip(begins, ends, strict=True), strict=True)
    try:
        places = window_places(spatial, [fixed_windows(*row, ceil=bool(held.get("ceil_mode", 0))) for row in rows])
    except ValueError:  # a window without an element
        return None
    *counts, most = places.shape
    leading = [batch if isinstance(batch, int) else -1, channels]
    windows = math.prod(counts)
    constants: dict[str, AnyArray] = {
        "table": places.reshape(-1),
        "planes shape": np.array([*leading, math.prod(spatial)], np.int64),
        "windows shape": np.array([*leading, windows, most], np.int64),
        "counts": np.array([*leading, *counts], np.int64),
        "rows": np.arange(windows, dtype=np.int64).reshape(windows, 1) * most,
    }
    nodes = [
        make_node("Reshape", [x, "planes shape"], ["planes"]),
        make_node("Gather", ["planes", "table"], ["gathered"], axis=2),
        make_node("Reshape", ["gathered", "windows shape"], ["windows"]),
        make_node("ArgMax", ["windows"], ["first"], axis=3, keepdims=1),
        make_node("GatherElements", ["windows", "first"], ["maxima"], axis=3),
        make_node("Add", ["first", "rows"], ["place"]),
        make_node("Gather", ["table", "place"], ["position"], axis=0),
    ]
    return NodeRewrite(nodes, constants)


def _starts(dims: Sequence[AxisSize], context: Context) -> NodeRewrite | None:
    """Return the nodes that make "starts", the positions of planes, of shape (N, C, 1, 1); None if not known."""
    batch, *others = dims
    sizes = [size for size in others if isinstance(size, int)]
    if len(sizes) != len(others):
        return None
    if isinstance(batch, int):
        return NodeRewrite([], {"starts": plane_starts([batch, *sizes]).reshape(batch, sizes[0], 1, 1)})
    source = inputs_with_size(str(batch), context)
    if source is None:
        return None
    zeros = zero_nodes(0, 4, source, TensorProto.INT64)
    constants = {
        "one": np.array([1], np.int64),
        "axis": np.array(0),
        "elements": np.array([math.prod(sizes)], np.int64),
        "channels": plane_starts([1, *sizes]).reshape(1, sizes[0], 1, 1),
    }
    nodes = [
        make_node("Add", ["0 zeros", "one"], ["ones"]),
        make_node("CumSum", ["ones", "axis"], ["number"], exclusive=1),
        make_node("Mul", ["number", "elements"], ["batch start"]),
        make_node("Add", ["batch start", "channels"], ["starts"]),
    ]
    return NodeRewrite([*zeros.nodes, *nodes], {**zeros.constants, **constants}, reads=zeros.reads)
