# SPDX-License-Identifier: Apache-2.0

"""libaclnn_host, strict: lifetimes of tensors, lists and executors, workspaces, and leaks at the end."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.runtime.aclnn_ctypes import POOL_2D, POOL_3D, Array, Backward, Tensor, current_device, library
from tests.runtime.strict_device import StrictDevice, strict_device

NULLPTR, INVALID, INNER, FAULT = 161001, 161002, 561000, 507015
A2 = "Ascend910B1"
ONES = np.array([[[[1, 0], [0, 0]]]] * 2, np.float32)


@dataclass
class Prepared:
    """A call between its phases. Its result is ones at the start of each plane."""

    device: StrictDevice
    arguments: list[Any]
    executor: int
    grad_input: int  # device address
    like: Array

    def execute(self) -> int:
        return self.device.execute(POOL_2D, self.executor, None, 0)

    def finish(self) -> Array:
        """Run the queued work and return gradInput."""
        self.device.check(self.device.c.aclrtSynchronizeStream(None))
        return self.device.download(self.grad_input, self.like)


@contextmanager
def prepared(device: StrictDevice) -> Iterator[Prepared]:
    grad, indices = np.ones((2, 1, 1, 1), np.float32), np.zeros((2, 1, 1, 1), np.int32)
    call = Backward.of(grad, np.zeros_like(ONES), indices, np.zeros_like(ONES), kernel_size=[2])
    assert call.grad_input is not None
    assert call.grad_input.address is not None
    with device.staged(call) as (on_device, there), device.aclnn.arguments(POOL_2D, on_device) as arguments:
        executor, size = device.phase_1(POOL_2D, arguments)
        assert size == 0
        yield Prepared(device, arguments, executor, there[call.grad_input.address], ONES)


def test_the_legal_life(device: StrictDevice) -> None:
    with prepared(device) as call:
        device.check(call.execute())
        assert (call.finish() == ONES).all()


def test_executor_used_twice(device: StrictDevice) -> None:
    with prepared(device) as call:
        device.check(call.execute())
        assert call.execute() == INNER
        assert device.c.aclDestroyAclOpExecutor(call.executor) == INNER
        assert device.c.aclSetAclOpExecutorRepeatable(call.executor) == INNER
        assert device.c.aclSetTensorAddr(call.executor, 0, call.arguments[0], None) == INNER
        call.finish()
    assert device.aclnn.violations() == ["stale-handle"] * 4


def test_executor_of_another_library(device: StrictDevice) -> None:
    other = library("under_test")
    with current_device() as lenient:
        call = Backward.of(*(np.zeros((1, 1, 1, 1), dtype) for dtype in (np.float32, np.float32, np.int32, np.float32)))
        with lenient.arguments(POOL_2D, call) as arguments:
            _, executor = lenient.phase_1(POOL_2D, arguments)
            assert executor is not None
            assert device.execute(POOL_2D, executor, None, 0) == INNER
            assert other.c.aclDestroyAclOpExecutor(executor) == 0
    assert device.aclnn.violations() == ["stale-handle"]


@pytest.mark.parametrize("position", range(8))
def test_tensor_or_list_destroyed_before_phase_2(device: StrictDevice, position: int) -> None:
    with prepared(device) as call:
        destroy = device.c.aclDestroyTensor if position in (0, 1, 2, 7) else device.c.aclDestroyIntArray
        index = position if position < 7 else len(call.arguments) - 1
        device.check(destroy(call.arguments[index]))
        assert call.execute() == INNER
        assert device.aclnn.violations() == ["executor-references"]
    assert device.aclnn.violations() == ["stale-handle"]  # the test destroys it once more


def test_a_new_tensor_is_not_taken_for_the_destroyed_one(device: StrictDevice) -> None:
    with prepared(device) as call:
        device.check(device.c.aclDestroyTensor(call.arguments[0]))
        dims = (ctypes.c_int64 * 4)(2, 1, 1, 1)
        tensors = [device.c.aclCreateTensor(dims, 4, 0, None, 0, 2, dims, 4, None) for _ in range(50)]
        assert call.execute() == INNER
        assert device.aclnn.violations() == ["executor-references"]
        for tensor in tensors:
            device.check(device.c.aclDestroyTensor(tensor))
    assert device.aclnn.violations() == ["stale-handle"]


def test_executor_in_two_calls_at_a_time(device: StrictDevice) -> None:
    codes: set[int] = set()
    with prepared(device) as call:
        device.check(device.c.aclSetAclOpExecutorRepeatable(call.executor))

        def hammer() -> None:
            device.check(device.c.aclrtSetDevice(0))
            deadline = time.monotonic() + 60  # on a busy machine the calls of threads seldom meet
            while time.monotonic() < deadline:
                codes.add(call.execute())
                device.check(device.c.aclrtSynchronizeStream(None))
                if len(codes) > 1:
                    return

        threads = [threading.Thread(target=hammer) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert codes == {0, INNER}
        assert set(device.aclnn.violations()) == {"executor-shared"}
        assert (call.finish() == ONES).all()
        device.check(device.c.aclDestroyAclOpExecutor(call.executor))


def test_tensors_may_go_after_phase_2(device: StrictDevice) -> None:
    grad, indices = np.ones((2, 1, 1, 1), np.float32), np.zeros((2, 1, 1, 1), np.int32)
    result = np.zeros_like(ONES)
    call = Backward.of(grad, np.zeros_like(ONES), indices, result, kernel_size=[2])
    with device.staged(call) as (on_device, _):
        with device.aclnn.arguments(POOL_2D, on_device) as arguments:
            executor, size = device.phase_1(POOL_2D, arguments)
            device.check(device.execute(POOL_2D, executor, None, size))
        device.check(device.c.aclrtSynchronizeStream(None))
    assert (result == ONES).all()


def test_phase_1_with_stale_handles(device: StrictDevice) -> None:
    with prepared(device) as call:
        device.check(call.execute())
        end = (ctypes.byref(ctypes.c_uint64()), ctypes.byref(ctypes.c_void_p()))
        for position in (0, 3):
            changed = list(call.arguments)
            changed[position] = ctypes.addressof(ctypes.c_int())
            assert device.c[f"{POOL_2D}GetWorkspaceSize"](*map(_argument, changed), *end) == INNER
        call.finish()
    assert device.aclnn.violations() == ["stale-handle"] * 2


def _argument(value: Any) -> Any:
    return value if isinstance(value, bool) else ctypes.c_void_p(value)


@pytest.mark.parametrize("destroy", ["aclDestroyTensor", "aclDestroyIntArray"])
def test_destroying_twice(device: StrictDevice, destroy: str) -> None:
    dims = (ctypes.c_int64 * 1)(1)
    handle = (
        device.c.aclCreateTensor(dims, 1, 0, None, 0, 2, dims, 1, None)
        if "Tensor" in destroy
        else device.c.aclCreateIntArray(dims, 1)
    )
    function: Callable[[int], int] = getattr(device.c, destroy)
    assert function(handle) == 0
    assert function(handle) == function(ctypes.addressof(dims)) == INNER
    assert device.aclnn.violations() == ["stale-handle"] * 2


def test_repeatable_executor(device: StrictDevice) -> None:
    """Queued work keeps the addresses from the time when it was queued."""
    with prepared(device) as call:
        device.check(device.c.aclSetAclOpExecutorRepeatable(call.executor))
        others = [device.upload(np.zeros_like(ONES)) for _ in range(2)]
        for address in (call.grad_input, *others):
            device.check(device.c.aclSetTensorAddr(call.executor, 0, call.arguments[-1], address))
            device.check(call.execute())
        assert (call.finish() == ONES).all()
        for address in others:
            assert (device.download(address, ONES) == ONES).all()
        device.free(*others)
        device.check(device.c.aclDestroyAclOpExecutor(call.executor))


def test_address_of_a_tensor_of_another_call(device: StrictDevice) -> None:
    dims = (ctypes.c_int64 * 1)(1)
    with prepared(device) as call:
        foreign = device.c.aclCreateTensor(dims, 1, 0, None, 0, 2, dims, 1, None)
        assert device.c.aclSetTensorAddr(call.executor, 0, foreign, None) == 0
        assert device.aclnn.violations() == ["foreign-tensor"]
        device.check(device.c.aclDestroyTensor(foreign))
        device.check(call.execute())
        assert (call.finish() == ONES).all()


def test_phase_2_needs_the_device(device: StrictDevice) -> None:
    codes: list[int] = []
    with prepared(device) as call:
        thread = threading.Thread(target=lambda: codes.append(call.execute()))
        thread.start()
        thread.join()
    assert codes == [361001]


def test_operands_in_memory_of_the_host(device: StrictDevice) -> None:
    """Phase 2 does not check it; the kernel faults."""
    memory = np.zeros(3 * 32 + 31, np.int8)
    first = memory[-memory.ctypes.data % 32 :]
    y, indices, x = (
        np.frombuffer(first, dtype, count, 32 * i).reshape(shape)
        for i, (dtype, count, shape) in enumerate(
            [(np.float32, 1, (1, 1, 1, 1)), (np.int32, 1, (1, 1, 1, 1)), (np.float32, 4, (1, 1, 2, 2))]
        )
    )
    call = Backward(*(Tensor(a.shape, a.dtype, address=a.ctypes.data) for a in (y, x, indices, x)), kernel_size=[2])
    stream = device.stream()
    with device.aclnn.arguments(POOL_2D, call) as arguments:
        executor, _ = device.phase_1(POOL_2D, arguments)
        device.check(device.execute(POOL_2D, executor, None, 0, stream))
        assert device.c.aclrtSynchronizeStream(stream) == FAULT
        assert "gradOutput" in (device.aclnn.message() or "")
    device.destroy(streams=(stream,))
    assert device.aclnn.violations() == ["bad-address"]


def overlapping(dtype: Any) -> Backward:
    grad, indices = np.ones((1, 1, 1, 2, 2), dtype), np.zeros((1, 1, 1, 2, 2), np.int32)
    x = np.zeros((1, 1, 1, 3, 3), dtype)
    indices[...] = 4  # the centre, in all four windows
    return Backward.of(grad, x, indices, x.copy(), kernel_size=[1, 2, 2], stride=[1, 1, 1], padding=[0])


@pytest.mark.parametrize(
    ("soc", "dtype", "needs"), [(A2, np.float16, True), (A2, np.float32, False), (None, np.float16, False)]
)
def test_workspace(soc: str | None, dtype: Any, needs: bool) -> None:
    with strict_device(soc) as device:
        call = overlapping(dtype)
        assert device.run(POOL_3D, call) == 0
        assert call.grad_input is not None
        assert call.grad_input.owner[0, 0, 0, 1, 1] == 4
        with device.staged(call) as (on_device, _), device.aclnn.arguments(POOL_3D, on_device) as arguments:
            executor, size = device.phase_1(POOL_3D, arguments)
            assert (size >= 9 * 4) == needs
            assert device.c.aclDestroyAclOpExecutor(executor) == 0


def test_workspace_that_is_none() -> None:
    """Missing, too small, in memory of the host, too far on, or freed before the stream is done."""
    pageable = ctypes.create_string_buffer(4096)
    with (
        strict_device(A2) as device,
        device.staged(overlapping(np.float16)) as (on_device, _),
        device.aclnn.arguments(POOL_3D, on_device) as arguments,
    ):

        def run(workspace: int | None, size: int, free: bool = False) -> tuple[int, int]:
            stream = device.stream()
            executor, _ = device.phase_1(POOL_3D, arguments)
            code = device.execute(POOL_3D, executor, workspace, size, stream)
            if free and workspace is not None:
                device.free(workspace)
            code_of_stream = device.c.aclrtSynchronizeStream(stream)
            device.destroy(streams=(stream,))
            return code, code_of_stream

        executor, size = device.phase_1(POOL_3D, arguments)
        device.check(device.c.aclDestroyAclOpExecutor(executor))
        workspace = device.malloc(size)
        assert run(None, size) == (NULLPTR, 0)
        assert run(None, 0) == run(workspace, size - 1) == (INVALID, 0)
        assert device.aclnn.violations() == ["workspace"] * 2
        assert run(ctypes.addressof(pageable), size) == run(workspace + 8, size) == (0, FAULT)
        assert device.aclnn.violations() == ["bad-address"] * 2
        assert run(workspace, size) == (0, 0)
        assert device.download(workspace, np.empty(4, np.uint8)).tolist() == [255] * 4
        assert run(workspace, size, free=True) == (0, FAULT)
        assert device.aclnn.violations() == ["memory-in-use", "bad-address"]


def test_workspace_of_two_streams() -> None:
    with strict_device(A2) as device:
        streams = (device.stream(), device.stream())
        calls = [overlapping(np.float16), overlapping(np.float16)]
        with device.staged(calls[0]) as (first, _), device.staged(calls[1]) as (second, _):
            workspace = device.malloc(4096)
            for stream, call in zip(streams, (first, second), strict=True):
                with device.aclnn.arguments(POOL_3D, call) as arguments:
                    executor, size = device.phase_1(POOL_3D, arguments)
                    device.check(device.execute(POOL_3D, executor, workspace, size, stream))
            assert device.aclnn.violations() == ["race"]
            device.destroy(streams=streams)
            device.free(workspace)


def test_output_is_poison_until_the_kernel_ran(device: StrictDevice) -> None:
    with prepared(device) as call:
        device.check(call.execute())
        assert np.isnan(device.download(call.grad_input, ONES)).all()
        assert device.aclnn.violations() == ["race"]
        assert (call.finish() == ONES).all()


def test_output_that_queued_work_still_reads_is_not_poisoned(device: StrictDevice) -> None:
    kept = device.malloc(ONES.nbytes)
    with prepared(device) as call:
        before = np.arange(8, dtype=np.float32).reshape(ONES.shape)
        device.check(device.c.aclrtMemcpy(call.grad_input, 32, before.ctypes.data, 32, 1))
        device.check(device.c.aclrtMemcpyAsync(kept, 32, call.grad_input, 32, 3, None))
        device.check(call.execute())
        assert (call.finish() == ONES).all()
    assert (device.download(kept, before) == before).all()
    device.free(kept)


def test_leaks_are_counted_and_told() -> None:
    with current_device(strict=True) as aclnn:
        aclnn.c.aclnnHostReset()
        device = StrictDevice(aclnn)
        dims = (ctypes.c_int64 * 1)(1)
        device.stream()
        device.event()
        device.malloc(1)
        device.malloc(1)
        device.malloc_host(1)
        device.c.aclCreateIntArray(dims, 1)
        with prepared(device):
            kinds = ("stream", "event", "device_memory", "pinned_memory", "int_array", "tensor", "executor")
            assert [aclnn.live(kind) for kind in kinds] == [1, 1, 6, 1, 5, 4, 1]
            assert aclnn.live() == 19
            assert aclnn.live("elephant") == -1
        assert aclnn.violations() == []
    assert aclnn.violations() == ["leak"] * 6
