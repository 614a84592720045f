# SPDX-License-Identifier: Apache-2.0

"""A Run that finds a cached executor allocates nothing on the heap in the provider's code, and no more in onnxruntime
than onnxruntime's own nodes.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.harness.cann.installations import build_library
from tests.harness.sessions.ep_process import run_python

SOURCE = Path(__file__).parents[1] / "harness" / "libraries" / "count_allocations.cpp"

COUNTER = """
import ctypes, os
counter = ctypes.CDLL(os.environ["LD_PRELOAD"])
counter.StartCounting.argtypes = [ctypes.c_char_p, ctypes.c_bool]
counter.StopCounting.restype = ctypes.c_long
"""

OWN = """
from tests.runtime.ep_models import Case, make_feeds, make_model, window
from poolgrad_lowering.runtime import create_session
{case}
dims = [None] * len(case.x_shape)
session = create_session(make_model(case.op, case.attributes(), x=dims, grad=dims), backend="host")
feeds, expected = make_feeds(case)

def allocations(runs):
    counter.StartCounting(b"libpoolgrad_ep", False)
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


# What a Run allocates for 20 nodes, but for what happens within the host library, which stands for a device.
WHOLE = """
import onnxruntime
from benchmarks.node_models import GRADIENT, POOL, node_feeds, node_model
from poolgrad_lowering.runtime import create_session

SHAPE = [1, 1, 4, 4]

def allocations(op_type, count):
    model, feeds = node_model(op_type, count, SHAPE), node_feeds(op_type, SHAPE)
    if op_type in (GRADIENT, POOL):
        session = create_session(model, check_indices="0")
    else:
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    def count_one():
        counter.StartCounting(b"libaclnn_host", True)
        session.run(None, feeds)
        return counter.StopCounting()
    return min(count_one() for _ in range(10))

op_types = "Relu", GRADIENT, "MaxPool", POOL
answer({op_type: allocations(op_type, 21) - allocations(op_type, 1) for op_type in op_types})
"""

MODES = {"lenient": {}, "strict": {"ACLNN_HOST_STRICT": "1"}}
"""In strict mode tensors are in device memory."""

counted = pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="counts by being preloaded itself")


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("counter")
    return str(build_library(folder / "libcount_allocations.so", SOURCE.read_text(encoding="utf-8")))


@pytest.mark.parametrize(("case", "mode"), [*((case, "lenient") for case in CASES), ("max_pool_3d", "strict")])
@counted
def test_a_run_that_finds_a_cached_executor_allocates_nothing(counter: str, case: str, mode: str) -> None:
    code = COUNTER + OWN.format(case=CASES[case])
    first, later = run_python(code, LD_PRELOAD=counter, **MODES[mode])
    assert first > 0
    assert later == 0


@pytest.mark.parametrize("mode", MODES)
@counted
def test_a_node_costs_onnxruntime_no_more_than_one_of_its_own(counter: str, mode: str) -> None:
    code = COUNTER + WHOLE
    counts = run_python(code, LD_PRELOAD=counter, **MODES[mode])
    assert counts["MaxPool3DGradWithArgmax"] <= counts["Relu"]
    assert counts["MaxPool3DWithArgmaxV2"] <= counts["MaxPool"]  # with its Indices: two outputs, too
