# SPDX-License-Identifier: Apache-2.0

"""libaclnn_host, strict: device and pinned memory."""

from __future__ import annotations

import ctypes
import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from tests.runtime.aclnn_ctypes import POOL_2D, Backward
from tests.runtime.strict_device import ON_DEVICE, TO_DEVICE, TO_HOST, StrictDevice

PARAM_INVALID, DRIVER, FAULT = 107000, 507899, 507015


def test_the_process_is_a_host(device: StrictDevice) -> None:
    mode = ctypes.c_int(-1)
    assert device.c.aclrtGetRunMode(ctypes.byref(mode)) == 0
    assert mode.value == 1


@pytest.mark.parametrize("touch", ["read", "write", "beyond", "freed"])
def test_touching_what_is_the_devices_faults(touch: str) -> None:
    code = f"""
import ctypes
from tests.runtime.strict_device import strict_device
with strict_device() as device:
    touch = {touch!r}
    address = device.malloc(64) if touch in ("read", "write") else device.malloc_host(64)
    if touch not in ("read", "write"):
        ctypes.memset(address, 1, 64)
    if touch == "freed":
        device.c.aclrtFreeHost(address)
    print("alive", flush=True)
    if touch in ("read", "freed"):
        ctypes.string_at(address, 1)
    else:
        ctypes.memset(address + (64 if touch == "beyond" else 0), 1, 1)
    print("still alive", flush=True)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=False)
    assert done.stdout == "alive\n"
    assert done.returncode != 0


@pytest.mark.parametrize("size", [1, 63, 64, 65, 4096, 100000])
def test_addresses_are_aligned_and_no_more(device: StrictDevice, size: int) -> None:
    addresses = [device.malloc(size) for _ in range(3)]
    assert all(address % 64 == 0 for address in addresses)
    if size <= 64:
        assert all(address % 4096 for address in addresses)
    device.free(*addresses)


def test_fresh_memory_is_poison(device: StrictDevice) -> None:
    address = device.malloc(12)
    values = device.download(address, np.empty(3, np.float32))
    assert np.isnan(values).all()
    assert (values.view(np.int32) == -1).all()
    pinned = device.malloc_host(8)
    assert ctypes.string_at(pinned, 8) == b"\xff" * 8
    device.free(address)
    device.check(device.c.aclrtFreeHost(pinned))


def test_addresses_within_an_allocation(device: StrictDevice) -> None:
    address = device.upload(np.arange(10, dtype=np.int32))
    assert device.download(address + 16, np.empty(6, np.int32)).tolist() == [4, 5, 6, 7, 8, 9]
    device.check(device.c.aclrtMemset(address + 4, 4, 0, 4))
    device.check(device.c.aclrtMemcpy(address + 8, 8, address, 8, ON_DEVICE))
    assert device.download(address, np.empty(4, np.int32)).tolist() == [0, 0, 0, 0]
    assert device.aclnn.violations() == []
    device.free(address)


@pytest.mark.parametrize(
    ("offset", "count", "message"),
    [
        (4, 64, "4 bytes beyond the allocation of 64 bytes"),
        (0, 65, "1 bytes beyond"),
        (63, 2, "1 bytes beyond"),
        (64, 1, "no device memory"),
        (-1, 1, "no device memory"),
    ],
)
def test_addresses_beyond_an_allocation(device: StrictDevice, offset: int, count: int, message: str) -> None:
    address, buffer = device.malloc(64), ctypes.create_string_buffer(128)
    code = PARAM_INVALID if "no device" in message else DRIVER
    assert device.c.aclrtMemcpy(address + offset, 128, buffer, count, TO_DEVICE) == code
    assert message in (device.aclnn.message() or "")
    assert device.c.aclrtMemcpy(buffer, 128, address + offset, count, TO_HOST) == code
    assert device.c.aclrtMemset(address + offset, 128, 0, count) == code
    assert device.c.aclrtMemsetAsync(address + offset, 128, 0, count, None) == code
    assert device.aclnn.violations() == ["bad-address"] * 4
    assert buffer.raw == bytes(128)
    device.free(address)


@pytest.mark.parametrize("offset", [4, 16, 32])
@pytest.mark.parametrize("operand", ["grad_output", "indices", "grad_input"])
def test_tensors_begin_at_multiples_of_32_bytes(device: StrictDevice, operand: str, offset: int) -> None:
    y, indices = np.ones((1, 1, 1, 2), np.float32), np.zeros((1, 1, 1, 2), np.int32)
    x = np.zeros((1, 1, 2, 4), np.float32)
    call = Backward.of(y, x.copy(), indices, x, kernel_size=[2])
    memory = device.malloc(128)
    device.check(device.c.aclrtMemset(memory, 128, 0, 128))
    moved = dataclasses.replace(getattr(call, operand), address=memory + offset, owner=None)
    assert device.run(POOL_2D, dataclasses.replace(call, **{operand: moved})) == (0 if offset == 32 else FAULT)
    if offset != 32:
        assert "which is not a multiple of 32" in (device.message() or "")
        assert device.aclnn.violations() == ["misaligned"]
    device.free(memory)


def test_memory_of_the_wrong_side(device: StrictDevice) -> None:
    c, address, pinned = device.c, device.malloc(8), device.malloc_host(8)
    pageable = ctypes.create_string_buffer(8)
    for dst, src, kind in (
        (pageable, pinned, TO_DEVICE),
        (pinned, pageable, TO_DEVICE),
        (address, address, TO_DEVICE),
        (address, pageable, ON_DEVICE),
        (pageable, pinned, TO_HOST),
        (address, address, TO_HOST),
        (address, pageable, 0),
        (pageable, address, 0),
    ):
        assert c.aclrtMemcpy(dst, 8, src, 8, kind) == PARAM_INVALID
    assert c.aclrtMemset(pinned, 8, 0, 8) == PARAM_INVALID
    assert device.aclnn.violations() == ["bad-address"] * 9
    assert c.aclrtMemcpy(pageable, 8, pinned, 8, 0) == 0  # host to host
    device.free(address)
    device.check(c.aclrtFreeHost(pinned))


def test_freeing_what_cannot_be_freed(device: StrictDevice) -> None:
    c, address, pinned = device.c, device.malloc(128), device.malloc_host(8)
    device.free(freed := device.malloc(8))
    pageable = ctypes.create_string_buffer(8)
    for bad, message in (
        (address + 64, "lies within an allocation"),
        (pinned, "memory of the other side"),
        (freed, "was freed before"),
        (ctypes.addressof(pageable), "no memory of this device"),
    ):
        assert c.aclrtFree(bad) == DRIVER
        assert message in (device.aclnn.message() or "")
    assert c.aclrtFreeHost(address) == c.aclrtFreeHost(pageable) == DRIVER
    assert device.aclnn.violations() == ["bad-free"] * 6
    device.free(address)
    device.check(c.aclrtFreeHost(pinned))


def test_freed_memory_is_not_used(device: StrictDevice) -> None:
    device.free(freed := device.malloc(64))
    assert device.c.aclrtMemset(freed, 64, 0, 64) == DRIVER
    assert "freed memory" in (device.aclnn.message() or "")
    again = [device.malloc(64) for _ in range(50)]
    assert freed not in again
    assert device.aclnn.violations() == ["bad-address"]
    device.free(*again)


def test_more_memory_than_there_is(device: StrictDevice) -> None:
    address = ctypes.c_void_p()
    for size in (2**64 - 1, 2**62):
        assert device.c.aclrtMalloc(ctypes.byref(address), size, 0) == 207001
        assert device.c.aclrtMallocHost(ctypes.byref(address), size) == 207001
    assert address.value is None
