"""A Run that finds a plan allocates nothing on the heap in the provider's own code."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ep_process import run_python
from fake_cann import build_library

SOURCE = Path(__file__).parent / "cpp" / "count_allocations.cpp"

CODE = """
import ctypes, os
counter = ctypes.CDLL(os.environ["LD_PRELOAD"])
counter.StartCounting.argtypes = [ctypes.c_char_p]
counter.StopCounting.restype = ctypes.c_long

from ep_models import Case, make_feeds, make_model, window
from poolgrad_lowering.runtime import create_session
{case}
dims = [None] * len(case.x_shape)
session = create_session(make_model(case.op, case.attributes(), x=dims, grad=dims), backend="host")
feeds, expected = make_feeds(case)

def allocations(runs):
    counter.StartCounting(b"libpoolgrad_ep")
    for _ in range(runs):
        (y,) = session.run(None, feeds)
    count = counter.StopCounting()
    assert y.tobytes() == expected.tobytes()
    return count

answer([allocations(1), allocations(50)])
"""

CASES = {
    "max_pool_3d": 'case = Case("MaxPool3DGradWithArgmax", (2, 3, 4, 6, 6), '
    "window([2, 2, 2], [2, 2, 2], [0, 0, 0], [1, 1, 1]))",
    "max_pool_2d": 'case = Case("MaxPoolGradWithArgmaxV3", (2, 3, 6, 6), window([2, 2], [2, 2], [0, 0], [1, 1]))',
    "adaptive": 'case = Case("AdaptiveMaxPool3DGrad", (2, 3, 5, 7), out=(3, 2))',
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="counts by being preloaded itself")
def test_a_run_that_finds_a_plan_allocates_nothing(tmp_path: Path, case: str) -> None:
    counter = build_library(tmp_path / "libcount_allocations.so", SOURCE.read_text(encoding="utf-8"))
    first, later = run_python(CODE.format(case=case), LD_PRELOAD=str(counter))
    assert first > 0
    assert later == 0
