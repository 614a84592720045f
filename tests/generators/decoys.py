# SPDX-License-Identifier: Apache-2.0

"""Graphs that look like gradients of pools and are none, or are of no pool that a target has: nothing may change.

Each is written over x (2, 3, 6, 6) and further inputs of its own, in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from tests.generators.writer import Array, Writer

X_SHAPE = (2, 3, 6, 6)


@dataclass(frozen=True)
class Decoy:
    """A look-alike.

    `write` gets the writer, a number from 1 to 3 and the names of the inputs, of these types and shapes; the result has
    this rank.
    """

    write: Callable[..., str]
    inputs: tuple[tuple[int, tuple[int, ...]], ...]
    rank: int = 4
    since: int = 16


_FLOAT, _INT = TensorProto.FLOAT, TensorProto.INT64


_POOL = {"kernel_shape": [3, 3], "strides": [2, 2]}


def _pool_rows(write: Writer, x: str) -> str:
    """Write the pool's plane-local Indices as rows, one per plane."""
    indices = write.several("MaxPool", 2, x, **_POOL)[1]
    return _rows(write, write("Mod", indices, np.array(36)))


def _rows(write: Writer, value: str) -> str:
    return write("Reshape", value, [6, 4])


def _zeros(write: Writer, *shape: int, of: float = 0.0) -> str:
    return write("Expand", write.constant(np.array(of, np.float32)), list(shape))


def embedding(write: Writer, number: int, rows: str, ids: str) -> str:
    """The gradient of an embedding: rows are added where their ids say."""
    return write("ScatterND", _zeros(write, 5 * number, 4), write.unsqueeze(ids, -1), rows, reduction="add")


def embedding_by_elements(write: Writer, number: int, rows: str, ids: str) -> str:
    """The same, as an exporter of index_add writes it."""
    index = write("Expand", write.unsqueeze(ids, -1), [6, 4])
    return write("ScatterElements", _zeros(write, 5 * number, 4), index, rows, axis=0, reduction="add")


def one_hot(write: Writer, number: int, losses: str, labels: str) -> str:
    """The gradient of a cross entropy: one element a row, by the labels."""
    return write("ScatterElements", _zeros(write, 6, 3 + number), write.unsqueeze(labels, -1), losses, axis=1)


def unpool(write: Writer, _: int, x: str, dy: str) -> str:
    """Max-unpool of overlapping windows: the last one wins."""
    scattered = write("ScatterElements", _zeros(write, 6, 36), _pool_rows(write, x), _rows(write, dy), axis=1)
    return write("Reshape", scattered, X_SHAPE)


def onto_ones(write: Writer, number: int, x: str, dy: str) -> str:
    """The gradient, plus something."""
    return _scattered(write, _zeros(write, 6, 36, of=number), _pool_rows(write, x), dy)


def maximum(write: Writer, number: int, x: str, dy: str) -> str:
    """Of several gradients for one element only one counts."""
    return _scattered(write, _zeros(write, 6, 36), _pool_rows(write, x), dy, ("max", "min", "mul")[number - 1])


def _scattered(write: Writer, base: str, rows: str | Array, dy: str, reduction: str = "add") -> str:
    sums = write("ScatterElements", base, rows, _rows(write, dy), axis=1, reduction=reduction)
    return write("Reshape", sums, X_SHAPE)


def shifted(write: Writer, number: int, x: str, dy: str) -> str:
    """Another element of the plane gets the gradient."""
    moved = write("Mod", write("Add", _pool_rows(write, x), np.array(number)), np.array(36))
    return _scattered(write, _zeros(write, 6, 36), moved, dy)


def crossed(write: Writer, _: int, x: str, dy: str) -> str:
    """Window by window the gradient of another window."""
    indices = write.several("MaxPool", 2, x, **_POOL)[1]
    across = write("Transpose", write("Mod", indices, np.array(36)), perm=[0, 1, 3, 2])
    return _scattered(write, _zeros(write, 6, 36), _rows(write, across), dy)


def wide_canvas(write: Writer, number: int, x: str, dy: str) -> str:
    """Rows longer than a plane, of which another part is taken."""
    base = _zeros(write, 6, 36 + number)
    sums = write("ScatterElements", base, _pool_rows(write, x), _rows(write, dy), axis=1, reduction="add")
    return write("Reshape", write.slice(sums, [number], [36 + number], [1]), X_SHAPE)


def other_plane(write: Writer, number: int, x: str, dy: str) -> str:
    """Indices counted in planes of another size."""
    indices = write.several("MaxPool", 2, x, **_POOL)[1]
    return _scattered(write, _zeros(write, 6, 36), _rows(write, write("Mod", indices, np.array(36 - number))), dy)


def other_base(write: Writer, number: int, x: str, dy: str) -> str:
    """Indices counted from an element that is not the plane's first."""
    indices, every = (write.several("MaxPool", 2, x, **window)[1] for window in (_POOL, {"kernel_shape": [1, 1]}))
    base = write.slice(every, [0, number], [1, number + 1], [2, 3])
    return _scattered(write, _zeros(write, 6, 36), _rows(write, write("Sub", indices, base)), dy)


def joined_planes(write: Writer, number: int, x: str, dy: str) -> str:
    """Rows of several planes, into the first of which all gradients go."""
    count = (3, 2, 1)[number - 1]
    rows, updates = (write("Reshape", value, [count, -1]) for value in (_pool_rows(write, x), dy))
    base = _zeros(write, count, 216 // count)
    return write("Reshape", write("ScatterElements", base, rows, updates, axis=1, reduction="add"), X_SHAPE)


def traced_indices(write: Writer, number: int, _: str, dy: str) -> str:
    """The indices of some example, for any x."""
    return _scattered(write, _zeros(write, 6, 36), np.arange(24).reshape(6, 4) * number % 36, dy)


def two_pools(write: Writer, _: int, x: str, dy: str) -> str:
    """Indices of one of two pools, window by window."""
    first, second = _pool_rows(write, x), _pool_rows(write, write("Neg", x))
    even = write("Equal", write("Mod", first, np.array(2)), np.array(0))
    return _scattered(write, _zeros(write, 6, 36), write("Where", even, first, second), dy)


def mask(write: Writer, _: int, x: str, dy: str) -> str:
    """Every one of several equal maxima gets the gradient."""
    highest = write.reduce_max(x, [2, 3], keepdims=True)
    won = write("Cast", write("Equal", x, highest), to=_FLOAT)
    return write("Mul", won, write.reduce_max(dy, [2, 3], keepdims=True))


def last_maximum(write: Writer, _: int, x: str, dy: str) -> str:
    """The last of several equal maxima gets the gradient."""
    best = write("ArgMax", write("Reshape", x, [2, 3, 36]), axis=-1, keepdims=0, select_last_index=1)
    index, updates = (write("Reshape", value, [6, 1]) for value in (best, write.reduce_max(dy, [2, 3], keepdims=True)))
    sums = write("ScatterElements", _zeros(write, 6, 36), index, updates, axis=1, reduction="add")
    return write("Reshape", sums, X_SHAPE)


def across_axes(write: Writer, number: int, x: str, dy: str) -> str:
    """The maxima of one axis, scattered along another one of the same size."""
    axis = (2, 3, 2)[number - 1]
    best = write("ArgMax", x, axis=axis, keepdims=1)
    lines = write.reduce_max(dy, [2, 3], keepdims=True)
    updates = write("Expand", lines, [2, 3, 1, 6] if axis == 2 else [2, 3, 6, 1])
    return write("ScatterElements", _zeros(write, *X_SHAPE), best, updates, axis=5 - axis)


def lowest(write: Writer, number: int, x: str, dy: str) -> str:
    """The smallest element along an axis gets the gradient."""
    axis = number - 1
    shape = [1 if place == axis else extent for place, extent in enumerate(X_SHAPE)]
    updates = write("Expand", write.reduce_max(dy, [0, 1, 2, 3], keepdims=True), shape)
    return write("ScatterElements", _zeros(write, *X_SHAPE), write("ArgMin", x, axis=axis), updates, axis=axis)


def average(write: Writer, _: int, x: str, dy: str) -> str:
    """A transposed convolution by a window whose weights are almost all those of an average pool's gradient."""
    window = np.full((3, 1, 3, 3), 1 / 9, np.float32)
    window[-1, 0, -1, -1] = 1 / 8
    pooled = write("AveragePool", x, **_POOL)
    return write("ConvTranspose", write("Mul", pooled, dy), window, strides=[2, 2], group=3)


_IMAGE = (_FLOAT, X_SHAPE)
_POOLED = (_FLOAT, (2, 3, 2, 2))
DECOYS = {
    "across_axes": Decoy(across_axes, (_IMAGE, _POOLED), since=11),
    "average": Decoy(average, (_IMAGE, _POOLED), since=9),
    "embedding": Decoy(embedding, ((_FLOAT, (6, 4)), (_INT, (6,))), rank=2),
    "embedding_by_elements": Decoy(embedding_by_elements, ((_FLOAT, (6, 4)), (_INT, (6,))), rank=2),
    "one_hot": Decoy(one_hot, ((_FLOAT, (6, 1)), (_INT, (6,))), rank=2, since=11),
    "unpool": Decoy(unpool, (_IMAGE, _POOLED), since=11),
    "lowest": Decoy(lowest, (_IMAGE, _POOLED), since=11),
    "onto_ones": Decoy(onto_ones, (_IMAGE, _POOLED)),
    "maximum": Decoy(maximum, (_IMAGE, _POOLED), since=18),
    "shifted": Decoy(shifted, (_IMAGE, _POOLED)),
    "crossed": Decoy(crossed, (_IMAGE, _POOLED)),
    "wide_canvas": Decoy(wide_canvas, (_IMAGE, _POOLED)),
    "other_plane": Decoy(other_plane, (_IMAGE, _POOLED)),
    "other_base": Decoy(other_base, (_IMAGE, _POOLED)),
    "joined_planes": Decoy(joined_planes, (_IMAGE, _POOLED)),
    "traced_indices": Decoy(traced_indices, (_IMAGE, _POOLED)),
    "two_pools": Decoy(two_pools, (_IMAGE, _POOLED)),
    "mask": Decoy(mask, (_IMAGE, _POOLED), since=11),
    "last_maximum": Decoy(last_maximum, (_IMAGE, _POOLED)),
}
