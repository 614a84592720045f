# SPDX-License-Identifier: Apache-2.0

"""libaclnn_host: the lifetime of an executor."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tests.runtime.aclnn_ctypes import POOL_2D, Aclnn, Backward, Tensor, int64s

NULLPTR, RUNTIME, INNER_NULLPTR, FAULT = 161001, 361001, 561103, 507015


def example() -> tuple[Backward, Any]:
    """Return a call whose result is ones at the start of each plane, and its gradInput."""
    grad, indices = np.ones((2, 1, 1, 1), np.float32), np.zeros((2, 1, 1, 1), np.int32)
    result = np.full((2, 1, 2, 2), 7, np.float32)
    return Backward.of(grad, result, indices, result, kernel_size=[2]), result


ONES = np.array([[[[1, 0], [0, 0]]]] * 2, np.float32)


def test_lists_may_go_after_phase_1(aclnn: Aclnn) -> None:
    call, result = example()
    with aclnn.arguments(POOL_2D, call) as arguments:
        lists = [aclnn.c.aclCreateIntArray(int64s([2]), 1) for _ in range(2)]
        code, executor = aclnn.phase_1(POOL_2D, [*arguments[:3], *lists, *arguments[5:]])
        assert code == 0
        for handle in lists:
            aclnn.c.aclDestroyIntArray(handle)
        assert aclnn.execute(POOL_2D, executor) == 0
    assert (result == ONES).all()


def test_failed_phase_1_leaves_the_executor_alone(aclnn: Aclnn) -> None:
    call, _ = example()
    with aclnn.arguments(POOL_2D, dataclasses.replace(call, kernel_size=[0])) as arguments:
        code, executor = aclnn.phase_1(POOL_2D, arguments)
    assert code != 0
    assert executor is None


def test_phase_2_refuses_null(aclnn: Aclnn) -> None:
    assert aclnn.execute(POOL_2D, None) == NULLPTR
    call, result = example()
    with aclnn.arguments(POOL_2D, call) as arguments:
        _, executor = aclnn.phase_1(POOL_2D, arguments)
        assert aclnn.execute(POOL_2D, executor, workspace_size=16) == NULLPTR  # and consumes the executor
        assert "workspace is null" in (aclnn.message() or "")
    assert (result == 7).all()
    for function in (aclnn.c.aclSetAclOpExecutorRepeatable, aclnn.c.aclDestroyAclOpExecutor):
        assert function(None) == INNER_NULLPTR
    assert aclnn.c.aclSetTensorAddr(None, 0, None, None) == NULLPTR


def test_executor_may_be_destroyed_unused(aclnn: Aclnn) -> None:
    call, result = example()
    assert aclnn.check(POOL_2D, call) == 0
    assert (result == 7).all()


def test_phase_2_needs_the_device(aclnn: Aclnn) -> None:
    call, result = example()
    with aclnn.arguments(POOL_2D, call) as arguments:
        _, executor = aclnn.phase_1(POOL_2D, arguments)
        assert aclnn.c.aclrtResetDevice(0) == 0
        assert aclnn.execute(POOL_2D, executor) == RUNTIME
        assert "aclrtSetDevice" in (aclnn.message() or "")
    assert (result == 7).all()


def test_repeatable_executor_follows_its_tensors(aclnn: Aclnn) -> None:
    call, result = example()
    other = np.full_like(result, 7)
    with aclnn.arguments(POOL_2D, call) as arguments:
        _, executor = aclnn.phase_1(POOL_2D, arguments)
        assert aclnn.c.aclSetAclOpExecutorRepeatable(executor) == 0
        for target in (result, other, result):
            target[...] = 7
            assert aclnn.c.aclSetTensorAddr(executor, 0, arguments[-1], target.ctypes.data) == 0
            assert aclnn.execute(POOL_2D, executor) == 0
            assert (target == ONES).all()
        assert aclnn.c.aclSetTensorAddr(executor, 0, arguments[2], None) == 0
        assert aclnn.execute(POOL_2D, executor) == FAULT  # survives its failures, too
        assert aclnn.execute(POOL_2D, executor) == FAULT
        assert aclnn.c.aclDestroyAclOpExecutor(executor) == 0


def test_repeatable_executor_of_nothing(aclnn: Aclnn) -> None:
    empty = Tensor.of(np.zeros((0, 1, 2, 2), np.float32))
    call = Backward(empty, empty, dataclasses.replace(empty, dtype=np.dtype(np.int32)), empty)
    with aclnn.arguments(POOL_2D, call) as arguments:
        code, executor = aclnn.phase_1(POOL_2D, arguments)
        assert code == 0
        assert aclnn.c.aclSetAclOpExecutorRepeatable(executor) == 0
        assert aclnn.execute(POOL_2D, executor) == aclnn.execute(POOL_2D, executor) == 0
        assert aclnn.c.aclDestroyAclOpExecutor(executor) == 0
