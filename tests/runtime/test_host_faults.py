# SPDX-License-Identifier: Apache-2.0

"""libaclnn_host phase 2: what fails there, with which code, and that nothing outside of gradInput is written."""

from __future__ import annotations

import ctypes
import dataclasses
from typing import Any

import numpy as np
import pytest

from tests.runtime.aclnn_ctypes import (
    ADAPTIVE_2D,
    ADAPTIVE_3D,
    NHWC,
    POOL_2D,
    POOL_3D,
    Aclnn,
    Backward,
    Tensor,
    bfloat16,
    current_device,
)

FIND_KERNEL, INNER_NULLPTR, FAULT, OUT_OF_MEMORY = 561003, 561103, 507015, 200000
A950, A2, A3 = "Ascend950PR_9599", "Ascend910B1", "Ascend910_9391"
SIZES = {POOL_3D: (4, 6, 8), POOL_2D: (6, 8), ADAPTIVE_2D: (6, 8), ADAPTIVE_3D: (4, 6, 8)}
CANARY = 64


def legal(api: str, index_type: Any = np.int32, value_type: Any = np.float32) -> tuple[Backward, Any, Any]:
    """Return a call that succeeds, its indices, and the buffer that gradInput lies in with canaries around it."""
    x_shape, y_shape = (2, 3, *SIZES[api]), (2, 3, *(size // 2 for size in SIZES[api]))
    grad, indices = np.ones(y_shape, value_type), np.zeros(y_shape, index_type)
    buffer = np.full(int(np.prod(x_shape)) + 2 * CANARY, 7, value_type)
    result = buffer[CANARY:-CANARY].reshape(x_shape)
    call = Backward.of(grad, result, indices, result, kernel_size=[2])
    return call, indices, buffer


def canaries_live(buffer: Any) -> bool:
    return bool((buffer[:CANARY] == 7).all() and (buffer[-CANARY:] == 7).all())


@pytest.mark.parametrize("api", SIZES)
def test_the_legal_call_succeeds(aclnn: Aclnn, api: str) -> None:
    call, _, buffer = legal(api)
    assert aclnn.run(api, call) == 0
    assert canaries_live(buffer)
    assert (buffer[CANARY:-CANARY] != 7).all()


@pytest.mark.parametrize("value_type", [np.float32, np.float16, bfloat16])
@pytest.mark.parametrize(
    ("index_type", "value"),
    [(np.int32, value) for value in (-1, None, 2**31 - 1, -(2**31))]
    + [(np.int64, value) for value in (-1, None, 2**32, 2**63 - 1, -(2**63))],
)
@pytest.mark.parametrize("api", SIZES)
def test_index_outside_its_plane(aclnn: Aclnn, api: str, index_type: Any, value: int | None, value_type: Any) -> None:
    plane = int(np.prod(SIZES[api]))
    bad = plane if value is None else value
    call, indices, buffer = legal(api, index_type, value_type)
    indices[1, 2, ..., 1, 2] = bad  # in each depth of the last plane: the first is told
    assert aclnn.run(api, call) == FAULT
    message = aclnn.message() or ""
    assert message.startswith(f"{api}: indices is {bad} at (n, c, d, h, w) = [1, 2, 0, 1, 2]")
    assert f"planes of self have {plane} elements" in message
    assert "(507015 ACL_ERROR_RT_AICORE_EXCEPTION)" in message
    assert canaries_live(buffer)


def test_first_of_many_bad_indices_is_told_whatever_the_threads_do(aclnn: Aclnn) -> None:
    grad, indices = np.ones((64, 8, 32, 32), np.float32), np.zeros((64, 8, 32, 32), np.int32)
    indices[3:, 5, 7, 9] = -5
    result = np.zeros((64, 8, 64, 64), np.float32)
    call = Backward.of(grad, result, indices, result, kernel_size=[2])
    for _ in range(10):
        assert aclnn.run(POOL_2D, call) == FAULT
        assert "indices is -5 at (n, c, d, h, w) = [3, 5, 0, 7, 9]" in (aclnn.message() or "")


def with_dims(call: Backward, **dims: tuple[int, ...]) -> Backward:
    """Replace tensors by contiguous zeros of the given dims."""
    changed = {}
    for name, shape in dims.items():
        changed[name] = Tensor.of(np.zeros(shape, getattr(call, name).dtype))
    return dataclasses.replace(call, **changed)  # type: ignore[arg-type]


def failing_phase(aclnn: Aclnn, api: str, call: Backward) -> tuple[int, int]:
    """Return the phase that refuses the call, and its code."""
    with aclnn.arguments(api, call) as arguments:
        code, executor = aclnn.phase_1(api, arguments)
        return (1, code) if code != 0 else (2, aclnn.execute(api, executor))


# Phase 1 runs the tiling of AdaptiveMaxPool3DGrad, which Atlas A2 and A3 use if the sizes do not divide.
@pytest.mark.parametrize(
    ("api", "dims", "message"),
    [
        (POOL_3D, {"grad_output": (2, 3, 2, 3, 5), "indices": (2, 3, 2, 3, 5)}, "gradOutput has planes of [2, 3, 5]"),
        (POOL_3D, {"grad_output": (1, 3, 2, 3, 4), "indices": (1, 3, 2, 3, 4)}, "gradOutput has N = 1"),
        (POOL_3D, {"grad_output": (2, 1, 2, 3, 4), "indices": (2, 1, 2, 3, 4)}, "C = 1"),
        (POOL_3D, {"grad_output": (3, 2, 3, 4), "indices": (3, 2, 3, 4)}, "4 and 4 dimensions; self has 5"),
        (POOL_2D, {"indices": (2, 3, 3, 3)}, "indices has (N, C, D, H, W) = [2, 3, 1, 3, 3]"),
        (POOL_2D, {"indices": (3, 3, 4)}, "4 and 3 dimensions; self has 4"),
        (ADAPTIVE_2D, {"grad_output": (2, 4, 3, 4), "indices": (2, 4, 3, 4)}, "C = 4"),
        (ADAPTIVE_2D, {"grad_output": (2, 4, 4, 4), "indices": (2, 4, 4, 4)}, "C = 4"),
        (ADAPTIVE_2D, {"grad_output": (1, 3, 3, 9), "indices": (1, 3, 3, 9)}, "N = 1"),
        (ADAPTIVE_3D, {"grad_output": (1, 3, 1, 1, 1), "indices": (1, 3, 1, 1, 1)}, "N = 1"),
        (ADAPTIVE_3D, {"grad_output": (1, 3, 3, 1, 1), "indices": (1, 3, 3, 1, 1)}, "N = 1"),
    ],
)
@pytest.mark.parametrize("soc", [A950, A2, A3])
def test_shapes_that_tiling_refuses(api: str, dims: dict[str, tuple[int, ...]], message: str, soc: str) -> None:
    call, _, buffer = legal(api)
    pooled = dims.get("grad_output", ())[2:]
    divides = len(pooled) == len(SIZES[api]) and all(s % p == 0 for s, p in zip(SIZES[api], pooled, strict=True))
    phase = 1 if api in (ADAPTIVE_2D, ADAPTIVE_3D) and (soc == A950 or not divides) else 2
    with current_device(soc) as aclnn:
        assert failing_phase(aclnn, api, with_dims(call, **dims)) == (phase, INNER_NULLPTR)
        text = aclnn.message() or ""
    assert text.startswith(f"{api}GetWorkspaceSize: " if phase == 1 else f"{api}: ")
    assert message in text
    assert (buffer == 7).all()


def test_window_that_does_not_fit(aclnn: Aclnn) -> None:
    call, _, buffer = legal(POOL_3D)
    huge = dataclasses.replace(call, kernel_size=[9], stride=[2**62], dilation=[2**62])
    assert aclnn.run(POOL_3D, huge) == INNER_NULLPTR
    assert "do not fit" in (aclnn.message() or "")
    assert (buffer == 7).all()


def test_no_kernel_for_int8_indices() -> None:
    call, _, buffer = legal(POOL_2D, np.int8)
    with current_device(A2) as aclnn:
        assert aclnn.run(POOL_2D, call) == FIND_KERNEL
    assert (buffer == 7).all()


def test_channels_last_is_read_as_channels_first_on_a2() -> None:
    grad, indices = np.zeros((2, 2, 2, 3), np.float32), np.zeros((2, 2, 2, 3), np.int32)
    x = np.zeros((2, 4, 4, 3), np.float32)
    call = Backward.of(grad, x, indices, x, format=NHWC, kernel_size=[2])
    for soc, code in ((A950, 0), (A2, INNER_NULLPTR)):
        with current_device(soc) as aclnn:
            assert aclnn.run(POOL_2D, call) == code


@pytest.mark.parametrize("name", ["grad_output", "indices", "grad_input"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"address": None}, "address is null"),
        ({"offset": 1}, "outside of its storage"),
        ({"offset": -1}, "outside of its storage"),
        ({"storage_dims": (1,)}, "outside of its storage"),
        ({"strides": (10**9, 48, 8, 1)}, "outside of its storage"),
        ({"strides": (2**62, -(2**62), 2**62, 2**62)}, "outside of its storage"),
        ({"strides": (-1000, 8, 4, 1)}, "outside of its storage"),
    ],
)
def test_memory_that_may_not_be_touched(aclnn: Aclnn, name: str, change: dict[str, Any], message: str) -> None:
    call, _, buffer = legal(POOL_2D)
    tensor = getattr(call, name)
    if change.get("offset") == 1:
        change = {"offset": int(np.prod(tensor.storage_dims)) - int(np.prod(tensor.dims)) + 1}
    changed = {name: dataclasses.replace(tensor, **change)}
    assert aclnn.run(POOL_2D, dataclasses.replace(call, **changed)) == FAULT
    text = aclnn.message() or ""
    assert message in text
    assert {"grad_output": "gradOutput", "indices": "indices", "grad_input": "gradInput"}[name] in text
    assert (buffer == 7).all()


def test_unaligned_data(aclnn: Aclnn) -> None:
    call, _, buffer = legal(POOL_2D)
    assert call.grad_output is not None
    assert call.grad_output.address is not None
    off = dataclasses.replace(call.grad_output, address=call.grad_output.address + 1)
    assert aclnn.run(POOL_2D, dataclasses.replace(call, grad_output=off)) == FAULT
    assert "not aligned to its 4-byte elements" in (aclnn.message() or "")
    assert (buffer == 7).all()


@pytest.mark.parametrize("strides", [(144, 48, 0, 1), (0, 0, 0, 0), (48, 48, 8, 1), (144, 48, 7, 1)])
def test_grad_input_whose_elements_share_memory(aclnn: Aclnn, strides: tuple[int, ...]) -> None:
    call, _, buffer = legal(POOL_2D)
    assert call.grad_input is not None
    shared = dataclasses.replace(call.grad_input, strides=strides)
    assert aclnn.run(POOL_2D, dataclasses.replace(call, grad_input=shared)) == FAULT
    assert "share memory" in (aclnn.message() or "")
    assert (buffer == 7).all()


@pytest.mark.skipif(
    any(hasattr(ctypes.CDLL(None), f"__{name}_init") for name in ("asan", "tsan")), reason="a sanitizer aborts instead"
)
def test_memory_for_a_packed_plane_runs_out(aclnn: Aclnn) -> None:
    """A plane of more bytes than there are addresses, expanded from one element, cannot be packed."""
    one = np.zeros((1, 1, 1, 1), np.float32)
    huge = (1, 1, 2**23, 2**23)
    x = dataclasses.replace(Tensor.of(one), dims=huge, strides=None, storage_dims=huge)
    grad = dataclasses.replace(x, strides=(0, 0, 0, 0))
    call = Backward(grad, x, dataclasses.replace(grad, dtype=np.dtype(np.int32)), x)
    assert aclnn.run(ADAPTIVE_2D, call) == OUT_OF_MEMORY
    assert "out of host memory" in (aclnn.message() or "")
