# SPDX-License-Identifier: Apache-2.0

"""No exception leaves the provider's library, even if there is no memory to report it."""

from __future__ import annotations

from pathlib import Path

from tests.harness.libraries.failing_allocations import build_failing, takes_preloaded
from tests.harness.sessions.ep_process import run_python

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
