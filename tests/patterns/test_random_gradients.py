"""Random pools in both forms: the lowered graph gives the bits of the definition and of the original graph."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from lowering_checks import TARGETS
from oracles import assert_same_bits, pool_gradient, run_ort, run_reference
from random_gradients import SPELLINGS, Pool, Spelling, max_pool_grad, pools, scatter_add

from poolgrad_lowering import lower

# Sums of infinities of both signs, in numpy.
pytestmark = pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered:RuntimeWarning")

SOME = settings(
    max_examples=150,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.filter_too_much],
)
MANY = settings(SOME, max_examples=3000)


def check_max_pool_grad(pool: Pool) -> None:
    expected = pool_gradient(pool.x.shape, pool.dy, pool.indices())
    for target in TARGETS:
        result = lower(max_pool_grad(pool), target=target)
        assert len(result.report.lowered) == 1, result.report.anchors
        assert_same_bits(run_reference(result.model, {"x": pool.x, "dy": pool.dy})["dx"], expected)


def check_scatter_add(pool: Pool, spelling: Spelling) -> None:
    assume(not pool.drops_a_window)  # onnxruntime's shape inference counts that window, its kernel does not: it fails
    model = scatter_add(pool, spelling)
    dtype = np.float16 if spelling.half else np.float32
    feeds = {"x": pool.x.astype(dtype), "dy": pool.dy.astype(dtype)}
    expected = run_ort(model, feeds)["dx"]
    for target in TARGETS:
        result = lower(model, target=target)
        assert len(result.report.lowered) == 1, result.report.anchors
        assert_same_bits(run_ort(result.model, feeds)["dx"], expected)


@SOME
@given(pools())
def test_max_pool_grad(pool: Pool) -> None:
    check_max_pool_grad(pool)


@SOME
@given(pools(), SPELLINGS)
def test_scatter_add(pool: Pool, spelling: Spelling) -> None:
    pytest.importorskip("onnxruntime")
    check_scatter_add(pool, spelling)


@pytest.mark.long
@MANY
@given(pools())
def test_max_pool_grad_often(pool: Pool) -> None:
    check_max_pool_grad(pool)


@pytest.mark.long
@MANY
@given(pools(), SPELLINGS)
def test_scatter_add_often(pool: Pool, spelling: Spelling) -> None:
    pytest.importorskip("onnxruntime")
    check_scatter_add(pool, spelling)
