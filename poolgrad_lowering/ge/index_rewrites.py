# SPDX-License-Identifier: Apache-2.0

"""Rewrites of shapes, orders of axes, indices and scatters for GE's ONNX parser; see `rewrites`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from onnx import NodeProto, TensorProto

from poolgrad_lowering.ge.writer import LAST, Writer
from poolgrad_lowering.model.facts.known import need, require


def shape(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> None:
    """The plugin drops start and end."""
    start, end = attributes.get("start", 0), attributes.get("end", LAST)
    require(start != 0 or end != LAST)
    whole = writer.name(f"{node.output[0]}/whole")
    writer.change(node, without=("start", "end"), outputs=[whole])
    writer.types.learn(whole, TensorProto.INT64, (writer.types.rank(node.input[0]),))
    writer.slice(whole, [start], [end], [0], node.output[0])


def transpose(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> None:
    """The plugin needs the axes; without them ONNX reverses their order. A scalar has none."""
    rank = need(writer.types.rank(node.input[0]))
    require("perm" not in attributes)
    if rank:
        writer.change(node, {"perm": list(reversed(range(rank)))})
    else:
        writer.add("Identity", node.input, node.output[0])


def wide_indices(node: NodeProto, _: Mapping[str, Any], writer: Writer) -> None:
    """GE's indices are int32, those of ArgMin but on Ascend 950, whose type the plugin asks of the device of ATC.

    Of two casts no optimiser of onnxruntime removes one, as it removes a cast of int64 to int64.
    """
    position = 1 if node.op_type == "TopK" else 0
    result = node.output[position] if len(node.output) > position else ""
    require(result in writer.read_with_type)
    outputs, narrow = list(node.output), writer.name(f"{result}/int32")
    outputs[position] = writer.name(f"{result}/indices")
    writer.change(node, outputs=outputs)
    for name, element in ((outputs[position], TensorProto.INT64), (narrow, TensorProto.INT32)):
        writer.types.learn(name, element, writer.types.shapes.get(result))
    writer.add("Cast", [outputs[position]], narrow, to=TensorProto.INT32)
    writer.add("Cast", [narrow], result, to=TensorProto.INT64)


def scatter_nd(node: NodeProto, attributes: Mapping[str, Any], writer: Writer) -> None:
    """Two libraries of CANN register ScatterND, of which one drops the reduction; ScatterElements keeps it.

    With data as rows (K, S), one for each position that an index tuple can have, the tuple (i₀ … iₖ₋₁) is row
    Σ iₐ · strideₐ. The order of the updates stays.
    """
    reduction = attributes.get("reduction", b"none")
    data, indices, updates = node.input
    sizes, depth = need(writer.types.sizes(data)), need(writer.types.sizes(indices, -1))
    require(reduction != b"none" and depth and 0 not in sizes)
    [last] = depth
    result, outer, inner = node.output[0], sizes[:last], math.prod(sizes[last:])
    strides = [math.prod(outer[axis + 1 :]) for axis in range(last)]

    def new(part: str) -> str:
        return writer.name(f"{result}/{part}")

    zero, extents = writer.vector([0]), writer.vector(outer)
    wrapped = writer.add("Add", [indices, extents], new("wrapped"))
    negative = writer.add("Less", [indices, zero], new("is_negative"))
    positions = writer.add("Where", [negative, wrapped, indices], new("positions"))
    terms = writer.add("Mul", [positions, writer.vector(strides)], new("terms"))
    rows = writer.reduce("ReduceSum", terms, [-1], new("rows"))
    column = writer.reshape(rows, [-1, 1], new("column"))
    flat_updates = writer.reshape(updates, [-1, inner], new("updates"))
    known, given = writer.types.sizes(indices), writer.types.sizes(updates)
    if known is not None:
        shape = writer.vector([math.prod(known[:-1]), inner])
    elif given is not None:
        shape = writer.vector([math.prod(given) // inner, inner])
    else:
        shape = writer.add("Shape", [flat_updates], new("shape"))
    spread = writer.add("Expand", [column, shape], new("indices"))
    flat = writer.reshape(data, [math.prod(outer), inner], new("data"))
    added = writer.add("ScatterElements", [flat, spread, flat_updates], new("flat"), axis=0, reduction=reduction)
    writer.reshape(added, sizes, result)
