# SPDX-License-Identifier: Apache-2.0

"""No exception leaves libaclnn_host: it becomes a code and the thread's message."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from tests.harness.cann.installations import build_library
from tests.harness.libraries.failing_allocations import build_failing, takes_preloaded
from tests.harness.sessions.ep_process import run_python
from tests.runtime.aclnn_ctypes import current_device

LIBRARIES = Path(__file__).parents[1] / "harness" / "libraries"
BAD_ALLOC, INTERNAL_ERROR, NO_EXECUTOR = 200000, 500000, 561101

FIRST = """
import ctypes, os
from tests.runtime.aclnn_ctypes import POOL_2D, current_device
from tests.runtime.test_host_faults import legal

failing = ctypes.CDLL(os.environ["LD_PRELOAD"])
failing.FailAllocation.argtypes = [ctypes.c_long]
failing.HaveFailed.restype = ctypes.c_bool

def results(aclnn, make):
    # Of the function that make() returns: code and message where its first allocation fails, its second, and so on.
    found = []
    while True:
        call = make()
        aclnn.message()
        failing.FailAllocation(len(found) + 1)
        code = call()
        if not failing.HaveFailed():
            assert code == 0
            return found
        found.append([code, aclnn.message() or ""])
"""

CALLS = """
with current_device(strict={strict}) as aclnn:
    c, stream, value = aclnn.c, ctypes.c_void_p(), ctypes.c_int64(2)
    c.aclCreateIntArray.restype = ctypes.c_void_p
    calls = {{
        "create_stream": lambda: c.aclrtCreateStream(ctypes.byref(stream)),
        "create_list": lambda: 0 if c.aclCreateIntArray(ctypes.byref(value), ctypes.c_uint64(1)) else {code},
        "fail": lambda: c.aclnnHostFail(b"aclrtDestroyStream", 1, 1),
        "violations": lambda: 0 if c.aclnnHostViolations() is not None else {code},
    }}
    c.aclnnHostTraceStart()
    answer({{name: results(aclnn, lambda: call) for name, call in calls.items()}})
"""

PHASES = """
with current_device() as aclnn:
    pool, _, buffer = legal(POOL_2D)
    with aclnn.arguments(POOL_2D, pool) as arguments:
        def phase_2():
            code, executor = aclnn.phase_1(POOL_2D, arguments)
            assert code == 0
            return lambda: aclnn.execute(POOL_2D, executor)
        answer({"phase_1": results(aclnn, lambda: lambda: aclnn.phase_1(POOL_2D, arguments)[0]),
                "phase_2": results(aclnn, phase_2)})
"""


@pytest.mark.parametrize(
    ("function", "code", "message"),
    [
        ("ThrowBadAlloc", BAD_ALLOC, "out of host memory"),
        ("ThrowError", INTERNAL_ERROR, "the cause"),
        ("ThrowNumber", INTERNAL_ERROR, "an exception of unknown type"),
    ],
)
def test_whatever_is_thrown_is_a_code_with_a_message(tmp_path: Path, function: str, code: int, message: str) -> None:
    source = (LIBRARIES / "throwing.cpp").read_text(encoding="utf-8")
    throwing = ctypes.CDLL(str(build_library(tmp_path / "libthrowing.so", source)))
    with current_device() as aclnn:
        assert aclnn.c.aclnnHostCall(b"aclTest", None, getattr(throwing, function), None) == code
        assert f"aclTest: {message} ({code} " in (aclnn.message() or "")


@takes_preloaded
@pytest.mark.parametrize(
    "calls",
    [CALLS.format(strict=False, code=BAD_ALLOC), CALLS.format(strict=True, code=BAD_ALLOC), PHASES],
    ids=["lenient", "strict", "phases"],
)
def test_each_allocation_that_fails_is_a_code_with_a_message(tmp_path: Path, calls: str) -> None:
    """Except if only a line of the trace, or a part of a message, is lost."""
    for name, results in run_python(FIRST + calls, LD_PRELOAD=build_failing(tmp_path)).items():
        code = NO_EXECUTOR if name == "phase_1" else BAD_ALLOC
        failed = [message for found, message in results if found == code]
        assert failed, name
        assert {found for found, _ in results} <= {0, code}, name
        assert [message for message in failed if "out of host memory" not in message] == []
