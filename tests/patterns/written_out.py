# SPDX-License-Identifier: Apache-2.0

"""Pools that decompositions write out by gathers, as models: text for the nodes, tables counted out in Python."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto

from tests.patterns.lowering_checks import Array


def with_tables(text: str, tables: Mapping[str, Any]) -> ModelProto:
    """Return the model of a text, with those tables as initializers that its nodes read."""
    model = onnx.parser.parse_model(text)
    read = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(table), name) for name, table in tables.items() if name in read
    )
    return model


def adaptive_windows(sizes: Sequence[int], counts: Sequence[int]) -> tuple[Array, Array]:
    """Return the positions that each window reads, filled up with the last one, and which of them count."""
    windows = []
    for output in itertools.product(*map(range, counts)):
        spans = [
            range(math.floor(o * size / count), math.ceil((o + 1) * size / count))
            for o, size, count in zip(output, sizes, counts, strict=True)
        ]
        windows.append([int(np.ravel_multi_index(at, sizes)) for at in itertools.product(*spans)])
    width = max(map(len, windows))
    positions = np.array([window + window[-1:] * (width - len(window)) for window in windows], np.int64)
    mask = np.array([[tap < len(window) for tap in range(width)] for window in windows])
    return positions, mask


_ADAPTIVE = {
    "flat": "f = Reshape (x, flat_shape)",
    "gather": "g = Gather <axis=-1> (f, windows)",
    "split": "w = Reshape (g, split_shape)",
    "mask": "m = Where (mask, w, minus_infinity)",
    "forward": "y = ReduceMax <keepdims=0> (m, last)",
    "maximum": "a = ArgMax <axis=-1, keepdims=0> (m)",
    "lookup": "k = Unsqueeze (a, last)\np = GatherElements <axis=-1> (positions, k)",
    "indices": "q = Squeeze (p, last)\nr = Reshape (q, row_shape)",
    "updates": "u = Reshape (dy, row_shape)",
    "canvas": "z = Expand (zero, canvas_shape)",
    "scatter": 's = ScatterElements <axis=1, reduction="add"> (z, r, u)',
    "result": "dx = Reshape (s, x_shape)",
}


def adaptive(
    sizes: Sequence[int],
    counts: Sequence[int],
    *,
    planes: tuple[int, int] = (2, 3),
    x_shape: Sequence[int] | None = None,
    outputs: str | None = None,
    tables: Mapping[str, Any] | None = None,
    element_type: str = "float",
    **steps: str,
) -> ModelProto:
    """Return an adaptive pool written out, and its gradient, with some steps or tables replaced."""
    windows, mask = adaptive_windows(sizes, counts)
    many, width = windows.shape
    rows, plane = math.prod(planes), math.prod(sizes)
    shape = list(x_shape or (*planes, *sizes))
    dtype = np.float16 if element_type == "float16" else np.float32
    own: dict[str, Any] = {
        "flat_shape": [*planes, plane],
        "windows": windows.reshape(-1),
        "split_shape": [*planes, many, width],
        "mask": mask,
        "minus_infinity": dtype(-np.inf),
        "positions": np.broadcast_to(windows, (*planes, many, width)).copy(),
        "last": [-1],
        "row_shape": [rows, many],
        "canvas_shape": [rows, plane],
        "zero": dtype(0),
        "x_shape": shape,
    }
    results = outputs or f"{element_type}{shape} dx"
    text = f"""<ir_version: 8, opset_import: ["" : 18]>
        g ({element_type}{shape} x, {element_type}{[*planes, *counts]} dy)
        => ({element_type}{[*planes, many]} y, {results}) {{ {" ".join((_ADAPTIVE | steps).values())} }}"""
    return with_tables(text, own | dict(tables or {}))


_POOL = {
    "pad": "c = Pad (x, pads, minus_infinity)",
    "to_front": "t = Transpose <perm=[2,3,0,1]> (c)",
    "gather": "g = GatherND (t, coordinates)",
    "to_back": "b = Transpose <perm=[4,5,0,2,1,3]> (g)",
    "split": "w = Reshape (b, split_shape)",
    "forward": "y = ReduceMax <keepdims=0> (w, last)",
    "maximum": "a = ArgMax <axis=-1, keepdims=0> (w)",
    "row": "a_float = Cast <to=1> (a)\nd_float = Div (a_float, width_float)\n"
    "d_floor = Floor (d_float)\nd = Cast <to=7> (d_floor)",
    "line": "ds = Mul (d, row_dilation)\nl_canvas = Add (row_starts, ds)\nl = Sub (l_canvas, row_pad)",
    "column": "e = Mod <fmod=0> (a, width)\nes = Mul (e, column_dilation)\n"
    "h_canvas = Add (column_starts, es)\nh = Sub (h_canvas, column_pad)",
    "position": "lw = Mul (l, columns)\np = Add (lw, h)",
    "indices": "r = Reshape (p, row_shape)",
    "updates": "u = Reshape (dy, row_shape)",
    "canvas": "z = Expand (zero, canvas_shape)",
    "scatter": 's = ScatterElements <axis=1, reduction="add"> (z, r, u)',
    "result": "dx = Reshape (s, x_shape)",
}


def pool(
    sizes: tuple[int, int],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    *,
    begins: tuple[int, int] = (0, 0),
    ends: tuple[int, int] = (0, 0),
    dilations: tuple[int, int] = (1, 1),
    outputs: str | None = None,
    tables: Mapping[str, Any] | None = None,
    **steps: str,
) -> ModelProto:
    """Return a 2-D max pool over x (2, 3, …) written out, and its gradient, with some steps or tables replaced."""
    taps = [
        np.array([[start + tap * d for tap in range(k)] for start in range(0, size + b + e - d * (k - 1), s)])
        for size, k, s, b, e, d in zip(sizes, kernel, strides, begins, ends, dilations, strict=True)
    ]
    counts = [len(axis) for axis in taps]
    rows = np.broadcast_to(taps[0][:, :, None, None], (counts[0], kernel[0], counts[1], kernel[1]))
    columns = np.broadcast_to(taps[1][None, None], rows.shape)
    own: dict[str, Any] = {
        "pads": [0, 0, *begins, 0, 0, *ends],
        "minus_infinity": np.float32(-np.inf),
        "coordinates": np.stack([rows, columns], -1),
        "split_shape": [2, 3, *counts, math.prod(kernel)],
        "last": [-1],
        "width_float": np.float32(kernel[1]),
        "width": kernel[1],
        "row_dilation": dilations[0],
        "column_dilation": dilations[1],
        "row_starts": taps[0][:, 0].reshape(1, 1, -1, 1),
        "column_starts": taps[1][:, 0].reshape(1, 1, 1, -1),
        "row_pad": begins[0],
        "column_pad": begins[1],
        "columns": sizes[1],
        "row_shape": [6, math.prod(counts)],
        "canvas_shape": [6, math.prod(sizes)],
        "zero": np.float32(0),
        "x_shape": [2, 3, *sizes],
    }
    text = f"""<ir_version: 8, opset_import: ["" : 18]>
        g (float{[2, 3, *sizes]} x, float{[2, 3, *counts]} dy)
        => (float{[2, 3, *counts]} y, {outputs or f"float{[2, 3, *sizes]} dx"})
        {{ {" ".join((_POOL | steps).values())} }}"""
    return with_tables(text, own | dict(tables or {}))
