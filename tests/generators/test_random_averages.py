# SPDX-License-Identifier: Apache-2.0

"""Random gradients of average pools are lowered to the bits of the definition; `make fuzz` runs for longer."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings

from tests.generators.averages import BFLOAT, HALF, AveragePlan, Axis, average_plans, check_average_plan

SOME = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
FEW = settings(SOME, max_examples=15)
MANY = settings(SOME, max_examples=3000, derandomize=False, database=None)

UNEQUAL = (Axis(4, 4, 1, 1, 2), Axis(8, 3, 1, 1, 1))
ROUNDED_UP = (Axis(3, 4, 4, 2, 2), Axis(6, 2, 4))


@SOME
@given(average_plans())
@example(AveragePlan("ort", (Axis(9, 3, 2, 0, 1), Axis(12, 3, 2, 1, 1)), symbols=1, bare=True))
@example(AveragePlan("tensorflow", UNEQUAL, auto_pad="SAME_UPPER", element_type=BFLOAT, opset=21))
@example(AveragePlan("torch adaptive", (Axis(7, adaptive=3), Axis(8, adaptive=5)), opset=11))
@example(AveragePlan("torch", (Axis(2, 2, 1),), (1, 1), opset=11, scale="behind", seed=1))
def test_bits(plan: AveragePlan) -> None:
    check_average_plan(plan)


@FEW
@given(average_plans())
@example(AveragePlan("tensorflow", UNEQUAL, auto_pad="SAME_UPPER", element_type=BFLOAT, opset=21))
@example(AveragePlan("tensorflow", (Axis(8, 5, 1, 2, 2), UNEQUAL[1]), auto_pad="SAME_UPPER", element_type=BFLOAT))
@example(AveragePlan("aten", ROUNDED_UP, ceil=True, padded=True, element_type=HALF, symbols=2))
def test_proofs(plan: AveragePlan) -> None:
    check_average_plan(plan, verified=True)


@pytest.mark.long
@MANY
@given(average_plans())
def test_many(plan: AveragePlan) -> None:
    check_average_plan(plan)
