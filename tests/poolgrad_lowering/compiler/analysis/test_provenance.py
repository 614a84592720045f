# SPDX-License-Identifier: Apache-2.0

"""Which values are the Indices of a MaxPool, and what they count."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from poolgrad_lowering.compiler.analysis.provenance import Numbering, find_indices, indices
from poolgrad_lowering.model.diagnostics.codes import Code
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.scopes import MAX_CHAIN, Value
from tests.patterns.lowering_checks import refuses
from tests.pool_graphs import Array, main_value, parse

TENSOR, PLANE = Numbering.TENSOR, Numbering.PLANE
X, HALVES = "float[2,3,4,6] x", "kernel_shape = [2, 2], strides = [2, 2]"  # 6 planes of 24, pooled to [2,3,2,3]


def read(nodes: str, inputs: str = X, pool: str = HALVES) -> tuple[Facts, Value]:
    """The value `out` of nodes behind `y, i = MaxPool(x)`."""
    return main_value(parse(f"g ({inputs}) => (out) {{ y, i = MaxPool<{pool}>(x) {nodes} }}"), "out")


def constant(name: str, held: Array) -> str:
    """A Constant of a dtype and shape, as text."""
    sizes = str(list(held.shape)) if held.ndim else ""
    return f"{name} = Constant<value = {held.dtype}{sizes} {{{', '.join(map(str, held.reshape(-1)))}}}>() "


def remainder(of: str = "i", by: int = 24) -> str:
    """The nodes of `local`, which counts in the plane."""
    return f"size = Constant<value_int = {by}>() local = Mod({of}, size) "


def reshaped(source: str, *sizes: int) -> str:
    """The nodes of `view`."""
    return f"sizes = Constant<value_ints = {list(sizes)}>() view = Reshape({source}, sizes) "


def bases(*shape: int, planes: int = 6, plane: int = 24) -> Array:
    """The first index of each plane, row-major, repeated to fill a shape."""
    return np.repeat(np.arange(planes, dtype=np.int64) * plane, math.prod(shape) // planes).reshape(shape)


def added(table: Array, to: str = "local") -> str:
    return constant("table", table) + f"out = Add({to}, table)"


def local_view(*sizes: int, by: int = 24) -> str:
    return remainder(by=by) + reshaped("local", *sizes)


def sliced(
    of: str = "every",
    *,
    pool: str = "kernel_shape = [1, 1]",
    x: str = "x",
    minuend: str = "i",
    starts: str = "0, 0",
    ends: str = "1, 1",
    axes: str = "2, 3",
    steps: str = "1, 1",
) -> str:
    """Indices less a slice of what a second pool records."""
    bounds = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    held = " ".join(f"{name} = Constant<value_ints = [{numbers}]>()" for name, numbers in bounds.items())
    return (
        f"maxima, every = MaxPool<{pool}>({x}) copy = Identity(every) float_copy = Cast<to = 7>(every) {held} "
        f"{reshaped('i', 6, 6)} base = Slice({of}, starts, ends, axes, steps) out = Sub({minuend}, base)"
    )


SHIFTED = bases(2, 3, 1, 1) + np.arange(6).reshape(2, 3, 1, 1) // 5  # the last plane's is one too many

REFUSED = {
    "an input": ("out = Identity(x)", Code.INDICES_SOURCE),
    "nothing": ("none = Identity() out = Identity(none)", Code.INDICES_SOURCE),
    "a sum of nothing": (
        constant("table", bases(2, 3, 1, 1)) + 'none = Add("", table) out = Identity(none)',
        Code.INDICES_SOURCE,
    ),
    "the maxima of indices": (
        "z = Cast<to = 1>(i) maxima, own = MaxPool<kernel_shape = [1, 1]>(z) out = Identity(maxima)",
        Code.INDICES_SOURCE,
    ),
    "negated": ("out = Neg(i)", Code.INDICES_ALTERED),
    "turned": ("out = Transpose(i)", Code.INDICES_ALTERED),
    "one half": ("half, out = Split(i)", Code.INDICES_ALTERED),
    "multiplied": (constant("two", np.array(2)) + "out = Mul(i, two)", Code.INDICES_ALTERED),
    "repeated": ("s = Constant<value_ints = [2, 2, 3, 2, 3]>() out = Expand(i, s)", Code.INDICES_ALTERED),
    "int32": ("out = Cast<to = 6>(i)", Code.INDICES_ALTERED),
    "float": ("out = Cast<to = 1>(i)", Code.INDICES_ALTERED),
    "plane-local float": (remainder() + "out = Cast<to = 1>(local)", Code.INDICES_ALTERED),
    "a number less indices": (constant("size", np.array(24)) + "out = Sub(size, i)", Code.INDICES_SOURCE),
    "the remainder of a number": (constant("size", np.array(24)) + "out = Mod(size, i)", Code.INDICES_SOURCE),
    "another remainder": (constant("size", np.array(12)) + "out = Mod(i, size)", Code.PLANE_BASE),
    "the remainder by the tensor": (constant("size", np.array(144)) + "out = Mod(i, size)", Code.PLANE_BASE),
    "the remainder by several": (constant("size", np.array([24, 24, 8])) + "out = Mod(i, size)", Code.PLANE_BASE),
    "the remainder by none": ("size = Constant<value = int64[0] {}>() out = Mod(i, size)", Code.PLANE_BASE),
    "the remainder by what is computed": ("out = Mod(i, i)", Code.PLANE_BASE),
    "the remainder by nothing": ("out = Mod(i)", Code.PLANE_BASE),
    "the remainder twice": (remainder() + "out = Mod(local, size)", Code.PLANE_BASE),
    "the remainder by the planes' first": (sliced().replace("Sub", "Mod"), Code.PLANE_BASE),
    "less the size": (constant("size", np.array(24)) + "out = Sub(i, size)", Code.PLANE_BASE),
    "less nothing": ("out = Sub(i)", Code.PLANE_BASE),
    "less the planes' first twice": (sliced().replace("out =", "once =") + " out = Sub(once, base)", Code.PLANE_BASE),
    "less the maxima": (sliced("maxima"), Code.PLANE_BASE),
    "less what a Cast gives": (sliced("float_copy"), Code.PLANE_BASE),
    "less a slice of an input": (sliced("x"), Code.PLANE_BASE),
    "less a slice of nothing": (sliced('""'), Code.PLANE_BASE),
    "less what is no slice": (sliced().replace("out = Sub(i, base)", "out = Sub(i, every)"), Code.PLANE_BASE),
    "less what has the operands of a slice": (sliced().replace("Slice", "Gather"), Code.PLANE_BASE),
    "less what an average pool gives": (sliced().replace("MaxPool", "AveragePool"), Code.PLANE_BASE),
    "a view less the planes' first": (sliced(minuend="view"), Code.PLANE_BASE),
    "less a slice of one axis": (sliced(starts="0", ends="1", axes="2", steps="1"), Code.PLANE_BASE),
    "less a slice of channels too": (
        sliced(starts="0, 0, 0", ends="1, 1, 1", axes="1, 2, 3", steps="1, 1, 1"),
        Code.PLANE_BASE,
    ),
    "less the planes' second": (sliced(starts="0, 1", ends="1, 2"), Code.PLANE_BASE),
    "less the planes' first two": (sliced(ends="1, 2"), Code.PLANE_BASE),
    "less every second": (sliced(ends="4, 6", steps="4, 6"), Code.PLANE_BASE),
    "less a pool of windows": (sliced(pool="kernel_shape = [2, 1]"), Code.PLANE_BASE),
    "less a pool with a step": (sliced(pool="kernel_shape = [1, 1], strides = [1, 2]"), Code.PLANE_BASE),
    "less a pool by columns": (sliced(pool="kernel_shape = [1, 1], storage_order = 1"), Code.PLANE_BASE),
    "less a pool with padding": (sliced(pool="kernel_shape = [1, 1], pads = [1, 0, 0, 0]"), Code.PLANE_BASE),
    "less a pool with padding behind": (sliced(pool="kernel_shape = [1, 1], pads = [0, 0, 0, 1]"), Code.PLANE_BASE),
    "less a pool without windows": (sliced(pool="strides = [1, 1]"), Code.PLANE_BASE),
    "less a pool of nothing": (sliced(x='""'), Code.PLANE_BASE),
    "less a pool of halves": (sliced(x="y"), Code.PLANE_BASE),
    "whole indices plus a table": (added(bases(2, 3, 1, 1), "i"), Code.PLANE_BASE),
    "plus the table of another plane": (remainder() + added(bases(2, 3, 1, 1, plane=23)), Code.PLANE_BASE),
    "plus a shifted table": (remainder() + added(SHIFTED), Code.PLANE_BASE),
    "plus a table of int32": (remainder() + added(bases(2, 3, 1, 1).astype(np.int32)), Code.PLANE_BASE),
    "plus a table of too few planes": (remainder() + added(bases(1, 3, 1, 1, planes=3)), Code.PLANE_BASE),
    "plus what is computed": (remainder() + "out = Add(local, i)", Code.PLANE_BASE),
    "plus nothing": (remainder() + "out = Add(local)", Code.PLANE_BASE),
    "plus one a position": (local_view(6, 6) + added(bases(6), "view"), Code.PLANE_BASE),
    "plus a table of more axes": (local_view(6, 6) + added(bases(6, 1, 1), "view"), Code.PLANE_BASE),
    "planes by planes": (local_view(1, 6, 6) + added(bases(6, 1, 6), "view"), Code.PLANE_BASE),
    "a view of a shape that is computed": (
        remainder() + "z = NonZero(x) s = Shape(z) view = Reshape(local, z) " + added(bases(6, 6), "view"),
        Code.PLANE_BASE,
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_no_proof(case: str) -> None:
    nodes, code = REFUSED[case]
    facts, value = read(nodes)
    assert find_indices(facts, value) is None
    with refuses(code):
        indices(facts, value)


@pytest.mark.parametrize(
    ("copies", "end"), [(MAX_CHAIN - 1, None), (MAX_CHAIN, "i"), (MAX_CHAIN + 1, "copy1"), (MAX_CHAIN + 2, "copy2")]
)
def test_a_chain_is_followed_so_far(copies: int, end: str | None) -> None:
    names = ["i", *(f"copy{number}" for number in range(1, copies)), "out"]
    facts, value = read(" ".join(f"{after} = Identity({before})" for before, after in pairwise(names)))
    if end is None:
        assert indices(facts, value).argmax == value
        return
    with refuses(Code.INDICES_SOURCE, names=end):
        indices(facts, value)
