# SPDX-License-Identifier: Apache-2.0

"""A Run that cannot be done fails with an error that names node and fault; no exception leaves the library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from poolgrad_lowering.runtime import create_session
from tests.harness.libraries.failing_allocations import build_failing, takes_preloaded
from tests.harness.sessions.ep_process import run_python
from tests.runtime.ep_models import NODE, Case, make_feeds, make_model, window

CASE = Case("MaxPool3DGradWithArgmax", (2, 3, 6, 6), window([1, 2, 2], [1, 2, 2], [0, 0, 0], [1, 1, 1]))


def open_session(case: Case = CASE, **model_options: Any) -> Any:
    dims = [None] * len(case.x_shape)
    return create_session(make_model(case.op, case.attributes(), x=dims, grad=dims, **model_options), backend="host")


@pytest.mark.parametrize("indices", ["int32", "int64"])
@pytest.mark.parametrize("bad", [-1, 36, 2**31 - 1, -(2**31)])
def test_index_outside_its_plane(indices: str, bad: int) -> None:
    feeds, _ = make_feeds(CASE, indices=indices)
    feeds["argmax"][1, 2, 0, 1] = bad
    session = open_session(indices=indices)
    with pytest.raises(Exception, match=f"'{NODE}'.* {bad} at .*\\[1, 2, 0, 0, 1\\].*36 elements"):
        session.run(None, feeds)


def test_a_run_after_a_failed_one_is_right() -> None:
    session = open_session()
    feeds, expected = make_feeds(CASE)
    with pytest.raises(Exception, match="outside"):
        session.run(None, {**feeds, "argmax": feeds["argmax"] + 36})
    assert np.array_equal(session.run(None, feeds)[0], expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grad": (2, 3, 3, 4), "argmax": (2, 3, 3, 4)}, r"grad \(2, 3, 3, 4\) is not the pooled shape.* W .*gives 3"),
        ({"argmax": (2, 3, 3, 2)}, r"argmax \(2, 3, 3, 2\) and grad \(2, 3, 3, 3\) differ"),
        ({"grad": (1, 3, 3, 3), "argmax": (1, 3, 3, 3)}, "differ in N or C"),
        ({"grad": (2, 4, 3, 3), "argmax": (2, 4, 3, 3)}, "differ in N or C"),
        ({"x": (2, 3, 6, 0)}, "is empty"),
    ],
)
def test_shapes_that_do_not_fit(changes: dict[str, tuple[int, ...]], message: str) -> None:
    feeds, _ = make_feeds(CASE)
    feeds |= {name: np.zeros(shape, feeds[name].dtype) for name, shape in changes.items()}
    with pytest.raises(Exception, match=f"'{NODE}'.*{message}"):
        open_session().run(None, feeds)


def test_adaptive_output_larger_than_the_input() -> None:
    feeds, _ = make_feeds(Case("AdaptiveMaxPool3DGrad", (2, 3, 3, 4), out=(5, 4)))
    with pytest.raises(Exception, match=rf"'{NODE}'.*grad \(2, 3, 5, 4\) has more positions"):
        open_session(Case("AdaptiveMaxPool3DGrad", (2, 3, 3, 4))).run(None, feeds)


def test_rank_that_the_model_left_open() -> None:
    model = make_model(CASE.op, CASE.attributes(), x=[None] * 4, grad=[None] * 4)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.ClearField("shape")
    session = create_session(model, backend="host")  # not claimed: the entry depends on the rank
    feeds, expected = make_feeds(CASE)
    assert np.array_equal(session.run(None, feeds)[0], expected)


CODE = """
import ctypes, json, os
from poolgrad_lowering.runtime import get_library_path

failing = ctypes.CDLL(os.environ["LD_PRELOAD"])
failing.FailAllocationsFrom.argtypes = [ctypes.c_long]
failing.HaveFailed.restype = ctypes.c_bool
describe = ctypes.CDLL(get_library_path()).PoolgradDescribeRuntime
describe.restype = ctypes.c_char_p
problems = []
while True:
    failing.FailAllocationsFrom(len(problems) + 1)
    text = describe(b"host")
    if not failing.HaveFailed():
        break
    problems.append(json.loads(text)["problem"])
answer(problems)
"""


@takes_preloaded
def test_without_memory_the_description_is_a_problem(tmp_path: Path) -> None:
    problems = run_python(CODE, LD_PRELOAD=build_failing(tmp_path))
    assert "out of memory" in problems
    assert None not in problems
