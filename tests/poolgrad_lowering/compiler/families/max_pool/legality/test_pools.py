# SPDX-License-Identifier: Apache-2.0

"""Plans of forward pools, by enumeration: exactly the pool's windows, element for element, or a reason."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient, Reduction
from poolgrad_lowering.compiler.families.max_pool.legality import select_forward_op, select_op
from poolgrad_lowering.compiler.families.verdicts import LoweredOp
from poolgrad_lowering.dialect.aclnn_functions import FLOAT32_EXACT_PLANE, INT32_PLANE
from poolgrad_lowering.dialect.op import Maximum
from poolgrad_lowering.dialect.ops import ADAPTIVE, MAX_POOL_2D, MAX_POOL_2D_GRAD
from poolgrad_lowering.dialect.targets import Support, Target, find_target
from poolgrad_lowering.model.diagnostics.codes import Code, Refusal, attempt
from poolgrad_lowering.model.ir.index import ModelIndex
from tests.oracles import assert_same_bits, max_pool
from tests.pool_graphs import parse
from tests.window_facts import Axis, aclnn_count, adaptive_gradient, axes, gradient_of, refusal_code

A2, ASCEND950 = find_target("atlas-a2"), find_target("ascend950")
POOL = Axis(kernel=3, stride=2, dilation=1, begin=1, end=1, ceil=False)


def windows_of(planned: LoweredOp, rank: int) -> list[list[Any]]:
    """Per spatial axis: kernel, stride, pad, dilation; axes that x lacks are not pooled."""
    assert planned.canvas == ()
    rows = list(zip(*(planned.attributes[name] for name in ("ksize", "strides", "pads", "dilation")), strict=True))  # type: ignore[arg-type]
    assert rows[:-rank] == [(1, 1, 0, 1)] * (len(rows) - rank)
    return [list(row) for row in rows[-rank:]]


def target_taps(size: int, window: list[int], *, ceil: bool) -> list[list[int]]:
    """The positions that the target's operator looks at, window by window, from CANN's documentation."""
    kernel, stride, pad, dilation = window
    assert pad <= kernel // 2
    count = aclnn_count(size, (kernel - 1) * dilation + 1, stride, pad, ceil=ceil)
    starts = [number * stride - pad for number in range(count)]
    return [[tap for tap in range(s, s + kernel * dilation, dilation) if 0 <= tap < size] for s in starts]


def lowerable(pool: list[Axis], sizes: list[int]) -> bool:
    """Whether the gradient of such a pool is lowered; only then is its forward pool considered."""
    return isinstance(attempt(select_op, gradient_of(pool, list(sizes), counts_of(pool, sizes)), A2), LoweredOp)


def counts_of(pool: list[Axis], sizes: list[int]) -> list[int | str]:
    return [len(axis.starts(size)) for axis, size in zip(pool, sizes, strict=True)]


@pytest.mark.parametrize("size", range(1, 14))
def test_every_pool_of_one_axis(size: int) -> None:
    kinds = Counter[str]()
    for axis in axes():
        taps = axis.taps(size)
        if not taps or not lowerable([axis], [size]):
            continue
        planned = attempt(select_forward_op, gradient_of([axis], [size], [len(taps)]), ASCEND950)
        if isinstance(planned, Refusal):
            assert planned.code is Code.FORWARD_WINDOWS
            counts = {aclnn_count(size, axis.extent, axis.stride, axis.begin, ceil=ceil) for ceil in (False, True)}
            assert axis.begin > axis.kernel // 2 or len(taps) not in counts
            kinds["stays"] += 1
        else:
            [window] = windows_of(planned, 1)
            assert target_taps(size, window, ceil=bool(planned.attributes["ceil_mode"])) == taps
            kinds["moves, pads unequal" if axis.begin != axis.end else "moves"] += 1
    assert min(kinds["moves"], kinds["moves, pads unequal"], kinds["stays"]) > 10


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_results_are_those_of_the_pool(rank: int) -> None:
    """By MaxPool's definition, with the attributes of the plan in place of the pool's: equal maxima and indices."""
    rng, moved = random.Random(rank), 0
    close = [axis for axis in axes() if axis.begin <= axis.kernel // 2]
    choices = {ceil: [axis for axis in close if axis.ceil is ceil] for ceil in (False, True)}
    for number in range(1500):
        pool, sizes = rng.choices(choices[number % 2 == 0], k=rank), rng.choices(range(3, 8), k=rank)
        if 0 in counts_of(pool, sizes) or not lowerable(pool, sizes):
            continue
        planned = attempt(select_forward_op, gradient_of(pool, list(sizes), counts_of(pool, sizes)), ASCEND950)
        if isinstance(planned, Refusal):
            continue
        kernel, strides, pads, dilations = map(list, zip(*windows_of(planned, rank), strict=True))
        x = np.random.default_rng(number).integers(-2, 3, (2, 1, *sizes)).astype(np.float32)
        found = max_pool(x, kernel, strides, pads * 2, dilations, ceil_mode=bool(planned.attributes["ceil_mode"]))
        ends = [axis.begin for axis in pool] + [axis.end for axis in pool]
        own = ([getattr(axis, name) for axis in pool] for name in ("kernel", "stride", "dilation"))
        kernel, strides, dilations = own
        expected = max_pool(x, kernel, strides, ends, dilations, ceil_mode=pool[0].ceil)
        for one, other in zip(found, expected, strict=True):
            assert_same_bits(one, other)
        moved += 1
    assert moved > 50


@pytest.mark.parametrize("ceil", [False, True])
def test_symbolic_sizes_agree_with_every_size_behind_them(ceil: bool) -> None:
    moved = 0
    for axis in axes():
        planned = attempt(select_forward_op, gradient_of([axis], ["L"], ["M"]), ASCEND950)
        assert isinstance(planned, LoweredOp) is (axis.begin == axis.end and axis.begin <= axis.kernel // 2)
        if isinstance(planned, Refusal) or axis.ceil is not ceil:
            continue
        [window] = windows_of(planned, 1)
        for size in range(axis.extent, 14):
            assert target_taps(size, window, ceil=bool(planned.attributes["ceil_mode"])) == axis.taps(size)
        moved += 1
    assert moved > 50


UP, ALIKE, TILE = Axis(3, 2, 1, 0, 1, ceil=False), Axis(3, 2, 1, 1, 1, ceil=False), POOL._replace(begin=0, end=0)
STAY = {
    "a_symbolic_axis_is_not_rounded_as_another_one_needs_it": (
        gradient_of([ALIKE, UP], ["L", 8], ["M", *counts_of([UP], [8])]),
        Code.FORWARD_WINDOWS,
    ),
    "windows_that_the_graph_counts_otherwise": (gradient_of([POOL], [9], [7]), Code.FORWARD_WINDOWS),
    "pads_that_are_not_known": (gradient_of([POOL], ["L"], ["M"], auto_pad="SAME_UPPER"), Code.FORWARD_WINDOWS),
    "the_largest_plane": (gradient_of([TILE], [INT32_PLANE], ["M"]), None),
    "a_larger_plane": (gradient_of([TILE], [INT32_PLANE + 1], ["M"]), Code.PLANE_SIZE),
    "float16": (gradient_of([POOL], [9], [5], element_type=TensorProto.FLOAT16), None),
    "bfloat16": (gradient_of([POOL], [9], [5], element_type=TensorProto.BFLOAT16), None),
    "adaptive_windows_of_no_known_number": (adaptive_gradient(["H", 7], ["OH", 3]), Code.FORWARD_WINDOWS),
    "a_large_adaptive_plane": (adaptive_gradient([FLOAT32_EXACT_PLANE + 1], [3]), Code.PLANE_SIZE),
}


@pytest.mark.parametrize(("gradient", "code"), STAY.values(), ids=STAY)
def test_pools_that_stay_and_that_move(gradient: MaxPoolGradient, code: Code | None) -> None:
    assert refusal_code(select_forward_op, gradient, A2) is code


def test_a_product_is_its_table() -> None:
    """One with the operators over two axes alone: others are refused, and its pools are those of the table."""
    dilates = Support(dilation=True)
    product = Target("trial", "Trial", "Trial", (), {MAX_POOL_2D_GRAD: Support(), MAX_POOL_2D: dilates})
    flat = gradient_of([POOL._replace(dilation=2)] * 2, [9, 9], [4, 4])
    found = attempt(select_op, flat, product), attempt(select_forward_op, flat, product)
    assert [op.name for op in found if isinstance(op, LoweredOp)] == [MAX_POOL_2D_GRAD, MAX_POOL_2D]
    line = gradient_of([POOL], [9], [5])
    for refused in (attempt(select_op, line, product), attempt(select_forward_op, line, product)):
        assert isinstance(refused, Refusal)
        assert refused.code is Code.TARGET


WHOLE = Axis(kernel=4, stride=1, dilation=1, begin=0, end=0, ceil=False)


@pytest.mark.parametrize(
    ("gradient", "order", "expected"),
    [
        (adaptive_gradient([8, 7], [4, 3]), Maximum.FILLED, [1, 4, 3]),
        (adaptive_gradient([8, 7], [4, 3]), None, Code.FORWARD_BODY),
        (adaptive_gradient([8], ["M"]), Maximum.GATHERED, Code.FORWARD_WINDOWS),
        (adaptive_gradient([8], ["M"]), None, Code.FORWARD_WINDOWS),
        (adaptive_gradient([FLOAT32_EXACT_PLANE + 1], [3]), Maximum.FILLED, Code.PLANE_SIZE),
        (gradient_of([WHOLE, WHOLE], [4, 4], [1, 1]), Maximum.WHOLE, [1, 1, 1]),
        (gradient_of([POOL], [9], [5]), None, Code.FORWARD_WINDOWS),
    ],
)
def test_reductions(gradient: MaxPoolGradient, order: Maximum | None, expected: list[int] | Code) -> None:
    """A ReduceMax moves where a body of the adaptive operator compares in its order, over windows of known number."""
    text = "g (float[1, 1, 4] x) => (y, i) { y = ReduceMax(x) i = ArgMax(x) }"
    scope = ModelIndex(parse(text)).scopes[0]
    reduced = dataclasses.replace(gradient, pool=scope.node(0), reduction=Reduction(scope.node(1), order, None))
    planned = attempt(select_forward_op, reduced, A2)
    if isinstance(planned, Refusal):
        assert planned.code is expected
    else:
        assert planned == LoweredOp(ADAPTIVE, {"output_size": expected, "indices_dtype": 3})
