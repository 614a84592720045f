# SPDX-License-Identifier: Apache-2.0

"""libaclnn_host, strict: gradients of average pools in device memory, in an order that no caller may rely on."""

from __future__ import annotations

import numpy as np
import pytest

from tests.average_models import ADAPTIVE_3D, AVERAGE_2D, AVERAGE_3D, AverageCase
from tests.oracles import assert_same_bits
from tests.runtime.aclnn_ctypes import NCHW, Average, Tensor, bfloat16
from tests.runtime.average_calls import A2, A3, A950, Array, AverageCall
from tests.runtime.strict_device import StrictDevice, strict_device

VALUES = {"float32": np.dtype(np.float32), "float16": np.dtype(np.float16), "bfloat16": bfloat16}
APART = {"2d apart", "3d apart", "adaptive apart", "global"}
CASES = {
    "2d": AverageCase(AVERAGE_2D, (2, 3, 9, 11), (3, 3), (2, 1), (1, 0)),
    "2d, padding counts": AverageCase(AVERAGE_2D, (2, 3, 9, 11), (3, 3), (2, 1), (1, 0), count_include_pad=True),
    "2d, many planes": AverageCase(AVERAGE_2D, (2, 40, 9, 11), (3, 3), (2, 2), (1, 0)),
    "2d apart": AverageCase(AVERAGE_2D, (2, 3, 8, 9), (2, 3), (2, 3), (0, 0)),
    "3d": AverageCase(AVERAGE_3D, (2, 2, 5, 6, 7), (2, 3, 2), (1, 2, 2), (1, 1, 0), ceil_mode=True),
    "3d apart": AverageCase(AVERAGE_3D, (2, 2, 4, 6, 8), (2, 2, 2), (2, 3, 2), (0, 0, 0)),
    "adaptive": AverageCase(ADAPTIVE_3D, (2, 3, 10, 7), output_size=(4, 3)),
    "adaptive apart": AverageCase(ADAPTIVE_3D, (2, 3, 10, 9), output_size=(5, 3)),
    "adaptive, many planes": AverageCase(ADAPTIVE_3D, (2, 40, 10, 7), output_size=(4, 3)),
    "adaptive 3d": AverageCase(ADAPTIVE_3D, (2, 2, 5, 7, 9), output_size=(3, 4, 5)),
    "global": AverageCase(AVERAGE_2D, (2, 3, 12, 11), (12, 11), (12, 11), (0, 0)),
}
BY_CUBE = {"2d, padding counts"}


def gradients(case: AverageCase, values: str) -> Array:
    return np.random.default_rng(7).standard_normal(case.grad_shape).astype(VALUES[values])


def computed(device: StrictDevice, call: AverageCall, grad: Array) -> Array:
    y = np.full(call.case.x_shape, 7, grad.dtype)
    assert device.run(call.api, call.of(grad, y)) == 0, device.message()
    return y


@pytest.mark.parametrize("deterministic", [0, 1])
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("soc", [A950, A2, A3])
@pytest.mark.parametrize("name", CASES)
def test_order_of_the_sums(name: str, soc: str, values: str, deterministic: int) -> None:
    """Row-major where atomics add and the call is deterministic; the other operators promise no order."""
    call = AverageCall(CASES[name])
    grad = gradients(call.case, values)
    ordered = deterministic == 1 and soc != A950 and name not in BY_CUBE
    with strict_device(soc) as device:
        device.check(device.c.aclrtCtxSetSysParamOpt(0, deterministic))
        actual = computed(device, call, grad)
    assert_same_bits(actual, call.expected(grad, soc, reverse=name not in APART and not ordered))
    if name not in APART and values == "float32":
        assert call.expected(grad, soc).tobytes() != call.expected(grad, soc, reverse=True).tobytes()


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("soc", [A950, A2])
@pytest.mark.parametrize("name", CASES)
def test_workspace(name: str, soc: str, values: str) -> None:
    """Atlas A2 and A3 sum overlapping windows of 16-bit floats in float32 beside the result."""
    call = AverageCall(CASES[name])
    y = np.zeros(call.case.x_shape, VALUES[values])
    with (
        strict_device(soc) as device,
        device.staged(call.of(gradients(call.case, values), y)) as (on_device, _),
        device.aclnn.arguments(call.api, on_device) as arguments,
    ):
        executor, size = device.phase_1(call.api, arguments)
        device.check(device.c.aclDestroyAclOpExecutor(executor))
    needs = soc == A2 and values != "float32" and name not in APART | BY_CUBE
    assert size == (-(-4 * y.size // 512) * 512 if needs else 0)


def test_views() -> None:
    """Strided operands at offsets, poisoned and written in their elements only."""
    call = AverageCall(CASES["2d apart"])
    grad = gradients(call.case, "float32")
    apart = np.zeros((*grad.shape, 2), np.float32)
    apart[..., 1] = grad
    canvas = np.full((2, 10, 12, 4), 7, np.float32)
    result = canvas[:, 1:-1, 2:-1, :3].transpose(0, 3, 1, 2)
    x = np.zeros(call.case.x_shape, np.float32)
    tensors = [Tensor.of(array, NCHW) for array in (apart[..., 1], x, result)]
    with strict_device() as device:
        assert device.run(call.api, Average(*tensors, **call.lists())) == 0, device.message()
    assert_same_bits(np.ascontiguousarray(result), call.expected(grad))
    mask = np.ones(canvas.shape, bool)
    mask[:, 1:-1, 2:-1, :3] = False
    assert (canvas[mask] == 7).all()


def test_self_may_be_the_memory_of_the_result() -> None:
    """It is read for its shape alone."""
    call = AverageCall(CASES["2d"])
    grad, y = gradients(call.case, "float32"), np.full(call.case.x_shape, np.nan, np.float32)
    with strict_device() as device:
        tensors = [Tensor.of(array, NCHW) for array in (grad, y, y)]
        assert device.run(call.api, Average(*tensors, **call.lists())) == 0, device.message()
    assert_same_bits(y, call.expected(grad, reverse=True))


def test_the_trace_has_the_arguments() -> None:
    call = AverageCall(CASES["2d, padding counts"])
    with strict_device() as device:
        device.c.aclnnHostTraceStart()
        computed(device, call, gradients(call.case, "float32"))
        lines = device.aclnn.trace()
        device.c.aclnnHostTraceStop()
    (line,) = [line for line in lines if line.get("call") == f"{call.api}GetWorkspaceSize"]
    assert (line["countIncludePad"], line["divisorOverride"], line["cubeMathType"]) == (1, 0, 0)


def test_a_call_that_is_made_to_fail() -> None:
    call = AverageCall(CASES["3d"])
    grad = gradients(call.case, "float32")
    y = np.full(call.case.x_shape, 7, np.float32)
    with strict_device() as device:
        device.check(device.c.aclnnHostFail(call.api.encode(), 1, 507015))
        assert device.run(call.api, call.of(grad, y)) == 507015
    assert (y == 7).all()
