"""Random training graphs in every form: the verdicts that have to be, and the bits of the definition."""

from __future__ import annotations

import pytest
from generators.checks import check_plan
from generators.plans import Plan, plans
from hypothesis import HealthCheck, given, settings

SOME = settings(
    max_examples=100,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@SOME
@given(plans())
def test_random_graphs(plan: Plan) -> None:
    pytest.importorskip("onnxruntime")
    check_plan(plan)
