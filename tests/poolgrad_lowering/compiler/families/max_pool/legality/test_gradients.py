# SPDX-License-Identifier: Apache-2.0

"""Plans, by enumeration: every recorded index stays in its window, no count changes, every refusal has its reason.

The definitions that plans are held against are written anew in `window_facts`.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest
from onnx import TensorProto

from poolgrad_lowering.compiler.families.max_pool.legality import select_op
from poolgrad_lowering.compiler.families.verdicts import LoweredOp
from poolgrad_lowering.dialect.aclnn_functions import FLOAT32_EXACT_PLANE, INT32_PLANE
from poolgrad_lowering.dialect.ops import ADAPTIVE_GRAD, MAX_POOL_2D_GRAD, MAX_POOL_3D_GRAD
from poolgrad_lowering.dialect.targets import TARGETS, Support, find_target
from poolgrad_lowering.model.diagnostics.codes import Code, Refusal, attempt
from tests.texts import Says
from tests.window_facts import Axis, aclnn_count, adaptive_gradient, axes, gradient_of, refusal_code

A2, ASCEND950 = find_target("atlas-a2"), find_target("ascend950")
FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
POOL = Axis(kernel=2, stride=2, dilation=1, begin=0, end=0, ceil=False)


def windows_of(planned: LoweredOp, rank: int) -> list[tuple[int, int, int, int, int]]:
    """Per spatial axis: kernel, stride, pad, and the margins before and after."""
    lists = [planned.attributes[name] for name in ("ksize", "strides", "pads", "dilation")]
    assert all(isinstance(values, list) and len(values) == len(lists[0]) for values in lists)
    kernel, stride, pad, dilation = (values[len(values) - rank :] for values in lists)  # type: ignore[index,arg-type]
    assert set(dilation) == {1}
    margins = planned.canvas or ((0, 0),) * rank
    return [(k, s, p, *margin) for k, s, p, margin in zip(kernel, stride, pad, margins, strict=True)]


def assert_right(planned: LoweredOp, pool: list[Axis], sizes: list[int]) -> None:
    """Legal, of the same count, and each window contains the taps of the pool's."""
    ceil = bool(planned.attributes["ceil_mode"])
    for axis, size, window in zip(pool, sizes, windows_of(planned, len(pool)), strict=True):
        kernel, stride, pad, before, after = window
        taps = axis.taps(size)
        assert 0 <= pad <= kernel // 2
        assert aclnn_count(before + size + after, kernel, stride, pad, ceil=ceil) == len(taps)
        for number, inside in enumerate(taps):
            first = number * stride - pad - before
            assert all(first <= tap < first + kernel for tap in inside)


def reason(pool: list[Axis], sizes: list[int], counts: list[int]) -> Code | None:
    """Why there can be no plan: a window without any element, in the padding or between the dilated taps."""
    for axis, size, count in zip(pool, sizes, counts, strict=True):
        if -axis.begin + (count - 1) * axis.stride >= size:
            return Code.WINDOW_IN_PADDING
        if not all(axis.taps(size)):
            return Code.EMPTY_WINDOW
    return None


@pytest.mark.parametrize("size", range(1, 14))
def test_every_pool_of_one_axis(size: int) -> None:
    kinds = Counter[str]()
    for axis in axes():
        count = len(axis.starts(size))
        if count == 0:
            continue
        planned = attempt(select_op, gradient_of([axis], [size], [count]), A2)
        expected = reason([axis], [size], [count])
        if isinstance(planned, Refusal):
            assert planned.code is expected
            kinds["refused"] += 1
        else:
            assert expected is None
            assert_right(planned, [axis], [size])
            kinds["canvas" if planned.canvas else "direct"] += 1
    assert min(kinds["direct"], kinds["canvas"], kinds["refused"]) > 10


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("ceil", [False, True])
def test_axes_share_one_rounding(rank: int, ceil: bool) -> None:
    rng = random.Random(rank)
    choices = [axis for axis in axes() if axis.ceil is ceil]
    kinds = Counter[str]()
    for _ in range(4000):
        pool, sizes = rng.choices(choices, k=rank), rng.choices(range(1, 14), k=rank)
        counts = [len(axis.starts(size)) for axis, size in zip(pool, sizes, strict=True)]
        if 0 in counts:
            continue
        planned = attempt(select_op, gradient_of(pool, list(sizes), list(counts)), A2)
        if isinstance(planned, Refusal):
            assert reason(pool, sizes, counts) is not None
            kinds["refused"] += 1
        else:
            assert_right(planned, pool, sizes)
            kinds[f"ceil_mode={planned.attributes['ceil_mode']}, canvas: {bool(planned.canvas)}"] += 1
    assert len(kinds) == (4 if ceil else 3), kinds  # rounded down, no pool needs the other rounding


@pytest.mark.parametrize("ceil", [False, True])
def test_symbolic_sizes_agree_with_every_size_behind_them(ceil: bool) -> None:
    planned_axes = 0
    for axis in axes():
        if axis.ceil is not ceil:
            continue
        planned = attempt(select_op, gradient_of([axis], ["L"], ["M"]), A2)
        if isinstance(planned, Refusal):
            assert planned.code in (Code.SYMBOLIC_CANVAS, Code.SYMBOLIC_CEIL)
            needs_canvas = max(axis.begin, axis.end) > (axis.extent + abs(axis.begin - axis.end)) // 2
            assert needs_canvas is (planned.code is Code.SYMBOLIC_CANVAS)
            assert needs_canvas or (ceil and axis.begin != axis.end)
            continue
        planned_axes += 1
        assert not planned.canvas
        for size in range(1, 21):
            if axis.starts(size):
                assert_right(planned, [axis], [size])
    assert planned_axes > 100


@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("pads", [(0, 0), (0, 1), (2, 2)])
def test_why_one_of_two_axes_has_no_plan(pads: tuple[int, int], ceil: bool) -> None:
    """No rounding gives 2 windows over 8 elements; the reason is the symbolic axis only where it has no plan itself."""
    symbolic = Axis(2, 2, 1, *pads, ceil=ceil)
    refused = attempt(select_op, gradient_of([POOL._replace(ceil=ceil), symbolic], [8, "L"], [2, "M"]), A2)
    assert isinstance(refused, Refusal)
    of_symbolic = attempt(select_op, gradient_of([symbolic], ["L"], ["M"]), A2)
    assert refused.code is (of_symbolic.code if isinstance(of_symbolic, Refusal) else Code.OUTPUT_SIZE)


@pytest.mark.refusal(Code.WINDOW_IN_PADDING.value)
def test_one_symbolic_axis_keeps_the_rounding_of_all(says: Says) -> None:
    """The static axis alone could take either rounding."""
    ceil = Axis(3, 2, 1, 0, 0, ceil=True)
    planned = attempt(select_op, gradient_of([ceil, ceil], ["L", 9], ["M", 4]), A2)
    assert isinstance(planned, LoweredOp)
    assert planned.attributes["ceil_mode"] == 1
    # Floor would count 3 windows over 6 elements, ceil 4: the graph's count needs the rounding that L does not allow.
    refused = attempt(
        select_op, gradient_of([POOL._replace(kernel=1), POOL._replace(kernel=1)], ["L", 7], ["M", 5]), A2
    )
    assert isinstance(refused, Refusal)
    assert refused.code is Code.WINDOW_IN_PADDING
    says(refused.reason)


WIDE = Axis(3, 1, 1, 2, 2, ceil=False)
"""It takes a canvas, which counts where the plane alone would do."""
ALONE = {
    "a_static_count_of_a_symbolic_size_is_no_proof": (WIDE, "L", 7, Code.SYMBOLIC_CANVAS),
    "less_than_no_window": (POOL._replace(kernel=9), 7, -2, Code.OUTPUT_SIZE),
    "no_window": (POOL._replace(kernel=8), 7, 0, Code.OUTPUT_SIZE),
    "a_count_that_no_rounding_gives": (POOL, 8, 3, Code.OUTPUT_SIZE),
    "another_such_count": (Axis(kernel=3, stride=2, dilation=1, begin=2, end=2, ceil=False), 8, 3, Code.OUTPUT_SIZE),
    "the_largest_plane": (POOL, 2**31 - 1, 2**30 - 1, None),
    "the_largest_canvas": (WIDE, 2**31 - 5, 2**31 - 3, None),
    "a_larger_canvas": (WIDE, 2**31 - 4, 2**31 - 2, Code.PLANE_SIZE),
}


@pytest.mark.parametrize(("axis", "size", "count", "code"), ALONE.values(), ids=ALONE)
def test_one_axis(axis: Axis, size: int | str, count: int, code: Code | None) -> None:
    assert refusal_code(select_op, gradient_of([axis], [size], [count]), A2) is code


def test_auto_pad_of_a_symbolic_size() -> None:
    pool = Axis(3, 2, 1, 0, 0, ceil=False)
    assert (
        refusal_code(select_op, gradient_of([pool], ["L"], ["M"], auto_pad="SAME_UPPER"), A2) is Code.AUTO_PAD_SYMBOLIC
    )
    planned = attempt(select_op, gradient_of([pool], [8], [4], auto_pad="SAME_UPPER"), A2)
    assert isinstance(planned, LoweredOp)
    assert_right(planned, [pool._replace(end=1)], [8])


# -- targets, operators, element types


def expected_operator(target: str, rank: int) -> str | None:
    """The first operator over so many axes that the product has: the one over two axes alone comes first."""
    fitting = [MAX_POOL_2D_GRAD, MAX_POOL_3D_GRAD] if rank == 2 else [MAX_POOL_3D_GRAD]
    return next((operator for operator in fitting if operator in TARGETS[target].operators), None)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("element_type", FLOATS)
@pytest.mark.parametrize("adaptive", [False, True])
def test_operators_of_targets(target: str, rank: int, element_type: int, adaptive: bool) -> None:
    sizes, counts = [8] * rank, [4] * rank
    gradient = (
        adaptive_gradient(list(sizes), list(counts), element_type=element_type)
        if adaptive
        else gradient_of([POOL] * rank, list(sizes), list(counts), element_type=element_type)
    )
    planned = attempt(select_op, gradient, TARGETS[target])
    expected = expected_operator(target, rank)
    if expected is None:
        assert isinstance(planned, Refusal)
        assert planned.code is Code.TARGET
        return
    if element_type not in TARGETS[target].operators[expected].element_types:
        assert isinstance(planned, Refusal)
        assert planned.code is Code.DTYPE
        return
    assert isinstance(planned, LoweredOp)
    assert planned.name == expected
    assert_right(planned, [POOL] * rank, sizes)


@pytest.mark.refusal(Code.DTYPE.value)
def test_an_operator_with_fewer_element_types(says: Says) -> None:
    """No product of today has one; the table can say so."""
    operators = A2.operators | {MAX_POOL_3D_GRAD: Support(element_types=frozenset((TensorProto.FLOAT,)))}
    target = A2._replace(operators=operators)
    assert isinstance(attempt(select_op, gradient_of([POOL], [8], [4]), target), LoweredOp)
    refused = attempt(select_op, gradient_of([POOL], [8], [4], element_type=TensorProto.BFLOAT16), target)
    assert isinstance(refused, Refusal)
    assert refused.code is Code.DTYPE
    says(refused.reason)


# -- planes


@pytest.mark.parametrize("target", [A2, ASCEND950])
@pytest.mark.parametrize("sizes", [[2**31], [2**16, 2**15], [2**11, 2**10, 2**10]])
def test_planes_over_int32(target: object, sizes: list[int]) -> None:
    assert target in (A2, ASCEND950)
    found = A2 if target is A2 else ASCEND950
    pool = [POOL] * len(sizes)
    refused = attempt(select_op, gradient_of(pool, list(sizes), [size // 2 for size in sizes]), found)
    assert isinstance(refused, Refusal)
    assert refused.code is Code.PLANE_SIZE
    assert str(2**31) in refused.reason
    assert str(INT32_PLANE) in refused.reason


@pytest.mark.parametrize(
    ("target", "limit"),
    [("atlas-a2", FLOAT32_EXACT_PLANE), ("atlas-a3", FLOAT32_EXACT_PLANE), ("ascend950", INT32_PLANE)],
)
def test_adaptive_planes(target: str, limit: int) -> None:
    """With windows that do not divide; where they do, the operator is the max pool's, with its limit."""
    assert (FLOAT32_EXACT_PLANE, INT32_PLANE) == (2**24, 2**31 - 1)
    found = TARGETS[target]
    for size, legal in ((limit, True), (limit + 1, False)):
        count = next(n for n in range(2, 99) if size % n)
        planned = attempt(select_op, adaptive_gradient([size], [count]), found)
        assert isinstance(planned, LoweredOp) is legal
        assert legal or (isinstance(planned, Refusal) and planned.code is Code.PLANE_SIZE)
    dividing = attempt(select_op, adaptive_gradient([2**30], [2**10]), found)
    assert isinstance(dividing, LoweredOp)
    assert dividing.name == MAX_POOL_3D_GRAD


# -- adaptive windows


@pytest.mark.parametrize("target", ["atlas-a2", "ascend950"])
def test_adaptive_windows(target: str) -> None:
    """Equal windows exactly where every size divides: checked against the definition of the windows."""
    for sizes in itertools.product(range(1, 13), repeat=2):
        counts = [max(1, sizes[0] // 2), max(1, sizes[1] // 3)]
        planned = attempt(select_op, adaptive_gradient(list(sizes), list(counts)), TARGETS[target])
        assert isinstance(planned, LoweredOp)
        if any(size % count for size, count in zip(sizes, counts, strict=True)):
            assert planned == LoweredOp(ADAPTIVE_GRAD, {})
            continue
        for size, count, window in zip(sizes, counts, windows_of(planned, 2), strict=True):
            starts = [o * size // count for o in range(count)]
            ends = [-(-(o + 1) * size // count) for o in range(count)]
            kernel, stride, pad, before, after = window
            assert (pad, before, after) == (0, 0, 0)
            assert [(o * stride, o * stride + kernel) for o in range(count)] == list(zip(starts, ends, strict=True))
            assert aclnn_count(size, kernel, stride, 0, ceil=bool(planned.attributes["ceil_mode"])) == count


@pytest.mark.parametrize(("size", "count"), [("L", 4), (8, "M"), ("L", "L"), (3, 5), (8, 0), (0, 4), (0, 0)])
def test_adaptive_windows_that_are_not_proven_equal(size: int | str, count: int | str) -> None:
    assert attempt(select_op, adaptive_gradient([size], [count]), A2) == LoweredOp(ADAPTIVE_GRAD, {})
