# SPDX-License-Identifier: Apache-2.0

"""Random training graphs and gradients of average pools: the required verdicts and the bits of the definition.

`make fuzz` runs for longer.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.generators.average_plans import BFLOAT, HALF, AveragePlan, Axis, average_plans
from tests.generators.averages import check_average_plan
from tests.generators.checks import check_export, check_false_shapes, check_mutant, check_plan, check_same_verdicts
from tests.generators.decoys import DECOYS
from tests.generators.plans import Plan, plans
from tests.generators.protos import Choices
from tests.generators.transforms import TRANSFORMS, Transform

# onnxruntime is one of the two evaluators.
pytest.importorskip("onnxruntime")
# Sums of infinities of both signs, in numpy.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

SOME = settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@SOME
@given(plans())
def test_random_graphs(plan: Plan) -> None:
    check_plan(plan)


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("name", DECOYS)
def test_decoys(name: str, number: int) -> None:
    """Each decoy in a graph of its own."""
    decoys = ((name, number),)
    check_plan(Plan(18, (), decoys, 0, special=False, constant_nodes=False, target="atlas-a2", forward=True))


@SOME
@given(plans(decoys=False), st.sampled_from(TRANSFORMS), st.lists(st.integers(0, 5), min_size=1, max_size=6))
def test_other_ways_to_write_a_graph(plan: Plan, transform: Transform, choices: Choices) -> None:
    check_same_verdicts(plan, transform, choices)


@SOME
@given(plans(decoys=False), st.lists(st.integers(0, 5), min_size=1, max_size=6))
def test_false_shapes(plan: Plan, choices: Choices) -> None:
    check_false_shapes(plan, choices)


@SOME
@given(plans())
def test_exports_for_atc(plan: Plan) -> None:
    check_export(plan, "ATC")


@SOME
@given(plans())
def test_exports_for_graph_mode(plan: Plan) -> None:
    check_export(plan, "graph mode")


@SOME
@given(plans(decoys=False, max_roots=1), st.integers(0, 200), st.integers(0, 11))
def test_mutants(plan: Plan, which: int, how: int) -> None:
    check_mutant(plan, which, how)


SOME_AVERAGES = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
FEW = settings(SOME_AVERAGES, max_examples=15)
MANY = settings(SOME_AVERAGES, max_examples=3000, derandomize=False, database=None)

UNEQUAL = (Axis(4, 4, 1, 1, 2), Axis(8, 3, 1, 1, 1))
ROUNDED_UP = (Axis(3, 4, 4, 2, 2), Axis(6, 2, 4))


@SOME_AVERAGES
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
