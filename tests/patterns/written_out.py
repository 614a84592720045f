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

from tests.heads import head
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
    text = f"""{head(18)}
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
    sizes: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    *,
    begins: tuple[int, ...] | None = None,
    ends: tuple[int, ...] | None = None,
    dilations: tuple[int, ...] | None = None,
    first: int = 0,
    planes: tuple[int, int] = (2, 3),
    outputs: str | None = None,
    tables: Mapping[str, Any] | None = None,
    **steps: str,
) -> ModelProto:
    """Return a max pool over x (planes, sizes) written out, and its gradient, with some steps or tables replaced.

    `first` is the canvas coordinate of the first tap, on every axis; windows that do not fit behind it are left out.
    """
    rank = len(sizes)
    begins, ends, dilations = begins or (0,) * rank, ends or (0,) * rank, dilations or (1,) * rank
    taps = [
        np.arange(first, size + b + e - d * (k - 1), s)[:, None] + np.arange(k) * d
        for size, k, s, b, e, d in zip(sizes, kernel, strides, begins, ends, dilations, strict=True)
    ]
    counts = [len(axis) for axis in taps]
    grid = [extent for pair in zip(counts, kernel, strict=True) for extent in pair]
    own: dict[str, Any] = {
        "pads": [0, 0, *begins, 0, 0, *ends],
        "minus_infinity": np.float32(-np.inf),
        "coordinates": np.stack(np.meshgrid(*map(np.ravel, taps), indexing="ij"), -1).reshape(*grid, rank),
        "split_shape": [*planes, *counts, math.prod(kernel)],
        "last": [-1],
        "width_float": np.float32(kernel[-1]),
        "width": kernel[-1],
        "columns": sizes[-1],
        "row_shape": [math.prod(planes), math.prod(counts)],
        "canvas_shape": [math.prod(planes), math.prod(sizes)],
        "zero": np.float32(0),
        "x_shape": [*planes, *sizes],
    }
    for axis, name in enumerate(("row", "column") if rank == 2 else map("axis{}".format, range(rank))):
        place = [1] * (2 + rank)
        place[2 + axis] = counts[axis]
        own |= {
            f"{name}_dilation": dilations[axis],
            f"{name}_starts": taps[axis][:, 0].reshape(place),
            f"{name}_pad": begins[axis],
            f"{name}_taps": kernel[axis],
            f"{name}_taps_behind": math.prod(kernel[axis + 1 :]),
            f"{name}_step": math.prod(sizes[axis + 1 :]),
        }
    text = f"""{head(18)}
        g (float{[*planes, *sizes]} x, float{[*planes, *counts]} dy)
        => (float{[*planes, *counts]} y, {outputs or f"float{[*planes, *sizes]} dx"})
        {{ {" ".join((_POOL | ({} if rank == 2 else _of_rank(rank)) | steps).values())} }}"""
    return with_tables(text, own | dict(tables or {}))


def _of_rank(rank: int) -> dict[str, str]:
    """The steps that differ for other than two spatial axes: transpositions, and arithmetic axis by axis."""
    axes, grid = range(rank), range(2 * rank)
    arithmetic = [
        f"""n{axis} = Div (a, axis{axis}_taps_behind) e{axis} = Mod <fmod=0> (n{axis}, axis{axis}_taps)
        es{axis} = Mul (e{axis}, axis{axis}_dilation) c{axis} = Add (axis{axis}_starts, es{axis})
        l{axis} = Sub (c{axis}, axis{axis}_pad) lw{axis} = Mul (l{axis}, axis{axis}_step)"""
        for axis in axes
    ]
    total = "lw0"
    for axis in axes[1:]:
        arithmetic.append(f"p{axis} = Add ({total}, lw{axis})")
        total = f"p{axis}"
    return {
        "to_front": f"t = Transpose <perm={[*(2 + axis for axis in axes), 0, 1]}> (c)",
        "to_back": f"b = Transpose <perm={[2 * rank, 2 * rank + 1, *grid[::2], *grid[1::2]]}> (g)",
        "row": "",
        "line": "",
        "column": "",
        "position": "\n".join(arithmetic),
        "indices": f"r = Reshape ({total}, row_shape)",
    }
