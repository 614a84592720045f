# SPDX-License-Identifier: Apache-2.0

"""Other operators for a gradient: offered exactly where their windows are the pool's, counted element by element."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from poolgrad_lowering.compiler.families.max_pool.gradient import MaxPoolGradient
from poolgrad_lowering.compiler.families.max_pool.legality import select_op
from poolgrad_lowering.compiler.families.registry import MAX_POOLS, Choices
from poolgrad_lowering.compiler.families.verdicts import LoweredOp
from poolgrad_lowering.dialect.aclnn_functions import FLOAT32_EXACT_PLANE
from poolgrad_lowering.dialect.ops import ADAPTIVE_GRAD, MAX_POOL_2D_GRAD, MAX_POOL_3D_GRAD
from poolgrad_lowering.dialect.targets import TARGETS, find_target
from poolgrad_lowering.model.diagnostics.codes import Code, Refusal, attempt
from tests.texts import Says
from tests.window_facts import Axis, adaptive_gradient, axes, gradient_of

A2, ASCEND950 = find_target("atlas-a2"), find_target("ascend950")
TILES = Axis(kernel=2, stride=2, dilation=1, begin=0, end=0, ceil=False)
OVERLAPS = TILES._replace(kernel=3)


def offered(gradient: MaxPoolGradient, target: str) -> list[str]:
    first = attempt(select_op, gradient, find_target(target))
    assert isinstance(first, LoweredOp), first
    return [first.name, *Choices(find_target(target)).alternatives(gradient, first.name)]


def adaptive_bounds(size: int, count: int) -> list[tuple[int, int]]:
    """PyTorch's definition: first and one behind the last element of each window."""
    return [(o * size // count, -(-(o + 1) * size // count)) for o in range(count)]


def test_the_adaptive_operator_has_the_windows_of_the_pool() -> None:
    """Each index that can be recorded is in its adaptive window; if the windows are equal, the operator is offered."""
    seen = Counter[bool]()
    for axis, size in itertools.product(axes(), (1, 4, 6, 7)):
        taps = axis.taps(size)
        gradient = gradient_of([axis], [size], [len(taps)])
        first = attempt(select_op, gradient, A2)
        if isinstance(first, Refusal):
            continue
        found = ADAPTIVE_GRAD in Choices(A2).alternatives(gradient, first.name)
        bounds = adaptive_bounds(size, len(taps))
        if found:
            assert all(low <= tap < high for inside, (low, high) in zip(taps, bounds, strict=True) for tap in inside)
        plain = axis.begin == axis.end == 0 and axis.dilation == 1
        equal = [list(range(low, high)) for low, high in bounds] == taps
        assert found or not (plain and equal and size == len(taps) * axis.kernel)
        seen[found] += 1
    assert seen[True] > 50
    assert seen[False] > 1000


@pytest.mark.parametrize(
    ("gradient", "target", "expected"),
    [
        (gradient_of([TILES] * 2, [4, 6], [2, 3]), "atlas-a2", [MAX_POOL_3D_GRAD, ADAPTIVE_GRAD]),
        (gradient_of([TILES] * 2, [4, 6], [2, 3]), "ascend950", [MAX_POOL_2D_GRAD, MAX_POOL_3D_GRAD, ADAPTIVE_GRAD]),
        (gradient_of([TILES], [4], [2]), "ascend950", [MAX_POOL_3D_GRAD, ADAPTIVE_GRAD]),
        (gradient_of([OVERLAPS] * 2, [7, 7], [3, 3]), "atlas-a2", [MAX_POOL_3D_GRAD]),
        (gradient_of([OVERLAPS] * 2, [7, 7], [3, 3]), "ascend950", [MAX_POOL_2D_GRAD, MAX_POOL_3D_GRAD]),
        (gradient_of([TILES] * 2, [4, "H"], [2, "P"]), "atlas-a2", [MAX_POOL_3D_GRAD]),
        (adaptive_gradient([4, 6], [2, 2]), "ascend950", [MAX_POOL_2D_GRAD, MAX_POOL_3D_GRAD, ADAPTIVE_GRAD]),
        (adaptive_gradient([5, 6], [2, 2]), "ascend950", [ADAPTIVE_GRAD]),
        (gradient_of([TILES], [2 * FLOAT32_EXACT_PLANE], [FLOAT32_EXACT_PLANE]), "atlas-a2", [MAX_POOL_3D_GRAD]),
    ],
)
def test_what_is_offered(gradient: MaxPoolGradient, target: str, expected: list[str]) -> None:
    assert offered(gradient, target) == expected


def test_the_first_choice_is_the_plan() -> None:
    for target, sizes in itertools.product(TARGETS.values(), ([4], [4, 6], [4, 6, 8])):
        for gradient in (
            gradient_of([TILES] * len(sizes), sizes, [n // 2 for n in sizes]),
            adaptive_gradient([5], [2]),
        ):
            first = attempt(select_op, gradient, target)
            if isinstance(first, LoweredOp):
                assert attempt(select_op, gradient, target, first.name) == first


@pytest.mark.refusal("operator-windows")
@pytest.mark.parametrize(
    ("op", "gradient"),
    [
        (ADAPTIVE_GRAD, gradient_of([OVERLAPS], [7], [3])),
        (MAX_POOL_2D_GRAD, gradient_of([TILES], [4], [2])),
        (MAX_POOL_3D_GRAD, adaptive_gradient([5], [2])),
    ],
)
def test_windows_that_an_operator_does_not_have(op: str, gradient: MaxPoolGradient, says: Says) -> None:
    refusal = attempt(select_op, gradient, ASCEND950, op)
    assert isinstance(refusal, Refusal)
    assert refusal.code is Code.OPERATOR_WINDOWS
    says(refusal.reason)


def test_operators_that_a_target_does_not_have() -> None:
    refusal = attempt(select_op, gradient_of([TILES] * 2, [4, 6], [2, 3]), A2, MAX_POOL_2D_GRAD)
    assert isinstance(refusal, Refusal)
    assert refusal.code is Code.TARGET
    for op in MAX_POOLS.operators:
        gradient = gradient_of([TILES] * 2, [4, 6], [2, 3])
        assert isinstance(attempt(select_op, gradient, find_target("atlas-training"), op), Refusal)
