# SPDX-License-Identifier: Apache-2.0

"""The cache of a node's executors: how many it keeps, for which calls, and what a failure does to them."""

from __future__ import annotations

import gc
import math
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from poolgrad_lowering.runtime import create_session
from tests.harness.cann.installations import install
from tests.harness.sessions.ep_process import run_python
from tests.harness.sessions.host_control import HostLibrary
from tests.runtime.ep_models import NODE, Array, Case, make_feeds, make_model, window

CASES = {
    "max_pool": Case("MaxPool3DGradWithArgmax", (2, 3, 6, 6), window([1, 2, 2], [1, 2, 2], [0, 0, 0], [1, 1, 1])),
    "adaptive": Case("AdaptiveMaxPool3DGrad", (2, 3, 5, 7), out=(3, 2)),
}
CASE = CASES["max_pool"]
PHASE_1 = "aclnnMaxPool3dWithArgmaxBackwardGetWorkspaceSize"
PHASE_2 = "aclnnMaxPool3dWithArgmaxBackward"
KINDS = ("tensor", "int_array", "executor")
MOST_EXECUTORS = 32

# The functions that a Run calls if it finds a cached executor: none that creates, allocates or destroys.
STEADY = {"aclrtGetDevice", "aclSetTensorAddr", "aclrtSynchronizeStream", PHASE_2, "aclnnAdaptiveMaxPool2dBackward"}


@pytest.fixture
def host() -> Iterator[HostLibrary]:
    library = HostLibrary()
    library.reset()
    yield library
    library.reset()


def open_session(case: Case = CASE, **options: str) -> Any:
    """A session of a model without known sizes."""
    dims = [None] * len(case.x_shape)
    return create_session(make_model(case.op, case.attributes(), x=dims, grad=dims), backend="host", **options)


def run(session: Any, case: Case = CASE) -> None:
    feeds, expected = make_feeds(case)
    assert session.run(None, feeds)[0].tobytes() == expected.tobytes()


def with_batch(n: int) -> Case:
    return Case(CASE.op, (n, *CASE.x_shape[1:]), CASE.window)


def calls(trace: list[dict[str, Any]]) -> Counter[str]:
    return Counter(line["call"] for line in trace if "call" in line)


def live(host: HostLibrary, *kinds: str) -> list[int]:
    gc.collect()  # sessions that only a dead traceback holds
    return [host.live(kind) for kind in kinds or KINDS]


def executors(host: HostLibrary) -> int:
    return sum(live(host, "executor"))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_later_runs_create_nothing(host: HostLibrary, case: Case) -> None:
    session = open_session(case)
    first = calls(host.trace(lambda: run(session, case)))
    assert sum(count for name, count in first.items() if name.endswith("GetWorkspaceSize")) == 1
    assert first["aclSetAclOpExecutorRepeatable"] == 1
    assert first["aclCreateTensor"] == 4
    for _ in range(3):
        later = calls(host.trace(lambda: run(session, case)))
        assert later.keys() <= STEADY
        assert later["aclSetTensorAddr"] == 4


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_tensor_has_the_strides_of_contiguous_memory(host: HostLibrary, case: Case) -> None:
    session = open_session(case)  # the first one of a process makes tensors too
    trace = host.trace(lambda: run(session, case))
    created = [line for line in trace if line.get("call") == "aclCreateTensor"]
    assert len(created) == 4
    for line in created:
        dims = line["viewDims"]
        assert line["stride"] == [math.prod(dims[axis + 1 :]) for axis in range(len(dims))]
        assert (line["offset"], line["storageDims"]) == (0, dims)


def test_every_size_has_its_executor(host: HostLibrary) -> None:
    session = open_session()
    for n in (1, 2, 3):
        assert calls(host.trace(lambda n=n: run(session, with_batch(n))))[PHASE_1] == 1
    for n in (2, 1, 3, 1):
        assert calls(host.trace(lambda n=n: run(session, with_batch(n)))).keys() <= STEADY


def test_the_least_recently_used_executor_is_dropped(host: HostLibrary) -> None:
    before = executors(host)
    session = open_session()
    for n in range(1, MOST_EXECUTORS + 1):
        run(session, with_batch(n))
    run(session, with_batch(1))  # so that 2 is the oldest
    run(session, with_batch(MOST_EXECUTORS + 1))
    assert executors(host) - before == MOST_EXECUTORS
    assert PHASE_1 not in calls(host.trace(lambda: run(session, with_batch(1))))
    assert PHASE_1 in calls(host.trace(lambda: run(session, with_batch(2))))


def test_concurrent_calls_use_different_executors(host: HostLibrary) -> None:
    before = executors(host)
    session = open_session()
    barrier = threading.Barrier(4)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            barrier.wait()
            for n in (1, 2, 3, 1, 2, 3):
                run(session, with_batch(n))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert 3 <= executors(host) - before <= 12


def test_executors_that_cannot_be_repeated_are_created_in_every_run(host: HostLibrary) -> None:
    before = live(host)
    session = open_session()
    host.fail("aclSetAclOpExecutorRepeatable", 0, 561000)
    assert calls(host.trace(lambda: run(session)))["aclSetAclOpExecutorRepeatable"] == 1
    for _ in range(2):
        later = calls(host.trace(lambda: run(session)))
        assert later[PHASE_1] == 1
        assert later["aclSetAclOpExecutorRepeatable"] == 0  # the cache records the refusal
    assert live(host) == before
    assert calls(host.trace(lambda: run(session, with_batch(5))))["aclSetAclOpExecutorRepeatable"] == 1


# Each call of a first Run, by its number, and a code for it to fail with.
FIRST_RUN = [
    *((name, nth, 500000) for name in ("aclCreateTensor", "aclCreateIntArray") for nth in (1, 4)),
    (PHASE_1, 1, 161002),
    ("aclSetAclOpExecutorRepeatable", 1, 561103),
    *(("aclSetTensorAddr", nth, 161001) for nth in (1, 4)),
    (PHASE_2, 1, 561103),
    ("aclrtSynchronizeStream", 1, 507015),
]


@pytest.mark.parametrize(("function", "nth", "code"), FIRST_RUN)
def test_a_failure_of_the_first_run_leaves_nothing_behind(
    host: HostLibrary, function: str, nth: int, code: int
) -> None:
    before = live(host)
    session = open_session()
    host.fail(function, nth, code)
    created = function.startswith("aclCreate")
    with pytest.raises(Exception, match=f"{CASE.op} node '{NODE}': {function} .*{'null' if created else code}"):
        run(session)
    kept = 1 if function == "aclrtSynchronizeStream" else 0  # the executor itself did not fail
    assert executors(host) == before[KINDS.index("executor")] + kept
    run(session)
    run(session)
    del session
    assert live(host) == before


@pytest.mark.parametrize(("function", "code"), [("aclSetTensorAddr", 161001), (PHASE_2, 561103)])
def test_an_executor_that_failed_is_not_used_again(host: HostLibrary, function: str, code: int) -> None:
    session = open_session()
    run(session)
    before = executors(host)
    host.fail(function, 1, code)
    with pytest.raises(Exception, match=f"'{NODE}': {function} failed with {code}"):
        run(session)
    assert executors(host) == before - 1
    assert calls(host.trace(lambda: run(session)))[PHASE_1] == 1
    assert calls(host.trace(lambda: run(session))).keys() <= STEADY


def test_a_session_releases_what_it_made(host: HostLibrary) -> None:
    kinds = (*KINDS, "stream", "device_memory")
    before = live(host, *kinds)
    session = open_session()
    for n in (1, 2):
        run(session, with_batch(n))
    assert executors(host) == before[KINDS.index("executor")] + 2
    del session
    assert live(host, *kinds) == before


def test_every_node_has_its_own_cache() -> None:
    """Two nodes of the same sizes and types differ in their attributes."""
    overlapping = Case(CASE.op, CASE.x_shape, window([1, 2, 2], [1, 1, 1], [0, 0, 0], [1, 1, 1]))
    sessions = [(open_session(case), case) for case in (CASE, overlapping)]
    for _ in range(2):
        for session, case in sessions:
            run(session, case)


def feeds_of(case: Case) -> dict[str, Array]:
    return make_feeds(case)[0]


def test_a_strict_device_finds_no_misuse(tmp_path: Path) -> None:
    """Executors with a workspace, on a device with inaccessible memory and lazy streams."""
    code = """
from tests.harness.sessions.host_control import HostLibrary
from poolgrad_lowering.runtime import register
from tests.runtime.test_executor_cache import Case, KINDS, create_session, live, make_feeds, make_model, window
host = HostLibrary()
register()  # onnxruntime's copies keep a stream as long as the process
kinds = (*KINDS, "stream", "device_memory")
before = live(host, *kinds)
overlapping = window([1, 3, 3], [1, 2, 2], [0, 0, 0], [1, 1, 1])
model = make_model("MaxPool3DGradWithArgmax", {**overlapping, "ceil_mode": 0, "data_format": "NCDHW"},
                   x=[None] * 4, grad=[None] * 4, values="float16")
session = create_session(model, backend="cann", deterministic="1")
def run():
    for n in (1, 2, 1, 2):
        feeds, expected = make_feeds(Case("MaxPool3DGradWithArgmax", (n, 3, 7, 7), overlapping), "float16")
        assert session.run(None, feeds)[0].tobytes() == expected.tobytes()
sized = [line["workspaceSize"] > 0 for line in host.trace(run) if line.get("call", "").endswith("WorkspaceSize")]
del session
answer([sized, host.violations(), live(host, *kinds) == before])
"""
    environment = {"ASCEND_HOME_PATH": str(install(tmp_path)), "ACLNN_HOST_SOC": "Ascend910B3"}
    sized, violations, is_released = run_python(code, ACLNN_HOST_STRICT="1", **environment)
    assert sized == [True, True]
    assert violations == []
    assert is_released


ADVICE = [
    (PHASE_1, 561107, "ASCEND_OPP_PATH is not set; source the set_env.sh"),
    (PHASE_1, 561112, "install the CANN operator package"),
    (PHASE_2, 561003, "install the CANN operator package"),
    ("aclrtSynchronizeStream", 507015, "a kernel failed on the device.*start the process again"),
    ("aclrtSynchronizeStream", 107003, "reset or switch devices"),
    ("aclrtCreateStream", 107002, "reset or switch devices"),
    ("aclrtCreateStream", 207001, "the device is out of memory; use a smaller batch"),
    ("aclrtSetDevice", 107001, "see npu-smi info and ASCEND_RT_VISIBLE_DEVICES"),
]


@pytest.mark.parametrize(("function", "code", "advice"), ADVICE)
def test_a_failure_tells_function_code_and_what_to_do(host: HostLibrary, function: str, code: int, advice: str) -> None:
    session = open_session()
    host.fail(function, 1, code)
    if function == "aclrtSetDevice":
        host.fail("aclrtGetDevice", 1, 107002)
    with pytest.raises(Exception, match=f"'{NODE}': {function} failed with {code} \\(ACL\\w+\\).*; .*{advice}"):
        session.run(None, feeds_of(CASE))
    run(session)


def test_arguments_refused_for_want_of_a_device_are_explained(host: HostLibrary) -> None:
    session = open_session()
    host.fail(PHASE_1, 1, 161002)
    host.fail("aclrtGetDevice", 2, 107002)  # the first is asked before phase 1
    with pytest.raises(Exception, match=r"161002 .*; this thread has no context of the device any more"):
        session.run(None, feeds_of(CASE))
    host.fail(PHASE_1, 1, 161002)
    with pytest.raises(Exception, match="161002") as failure:
        session.run(None, feeds_of(CASE))
    assert "context" not in str(failure.value)
