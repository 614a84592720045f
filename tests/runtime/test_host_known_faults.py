# SPDX-License-Identifier: Apache-2.0

"""libaclnn_host: what CANN takes and computes wrong is right in the lenient library, and a violation in the strict one.

Each fault has calls that meet it, and near misses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tests.average_models import AVERAGE_2D, AVERAGE_3D, AverageCase
from tests.oracles import ascend_pool, assert_same_bits, pool_gradient, pool_windows
from tests.runtime.aclnn_ctypes import POOL_2D, POOL_3D, Backward, current_device
from tests.runtime.average_calls import A2, A3, A950, Array, AverageCall
from tests.runtime.strict_device import strict_device


@dataclass(frozen=True)
class Dilated:
    """The gradient of a pool of planes, with a value for each axis in each list."""

    api: str
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    def operands(self) -> tuple[Array, Array, Array]:
        """x whose least elements are between others, its argmax, and gradients that no sum rounds."""
        x = np.random.default_rng(3).integers(-3, 4, (2, 2, *self.size)).astype(np.float32)
        rows = zip(self.size, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        _, argmax = ascend_pool(x, [pool_windows(*row, ceil_mode=False) for row in rows])
        grad = np.arange(1, argmax.size + 1, dtype=np.float32).reshape(argmax.shape)
        return x, argmax.astype(np.int32), grad

    def call(self, x: Array, argmax: Array, grad: Array, result: Array) -> Backward:
        windows = {
            "kernel_size": self.kernel,
            "stride": self.stride,
            "padding": self.padding,
            "dilation": self.dilation,
        }
        return Backward.of(grad, x, argmax, result, **windows)


LOST_ON_A2 = {
    "the smallest": Dilated(POOL_3D, (1, 1, 3), (1, 1, 2), (1, 1, 2), (0, 0, 1), (1, 1, 2)),
    "strides above the kernels": Dilated(POOL_3D, (4, 9, 17), (2, 2, 2), (2, 3, 3), (0, 0, 0), (1, 1, 6)),
    "one axis of three": Dilated(POOL_3D, (7, 6, 6), (2, 3, 2), (2, 3, 2), (0, 1, 1), (1, 1, 2)),
}
KEPT_ON_A2 = {
    "a kernel above its stride": Dilated(POOL_3D, (1, 5, 9), (1, 2, 2), (1, 1, 2), (0, 0, 1), (1, 1, 2)),
    "gaps between other windows": Dilated(POOL_3D, (1, 1, 9), (1, 1, 2), (1, 1, 2), (0, 0, 0), (1, 1, 3)),
    "one window": Dilated(POOL_3D, (1, 1, 4), (1, 1, 2), (1, 1, 2), (0, 0, 0), (1, 1, 2)),
    "shared in the padding alone": Dilated(POOL_3D, (1, 1, 2), (1, 1, 2), (1, 1, 2), (0, 0, 1), (1, 1, 1)),
    "no second element": Dilated(POOL_3D, (1, 1, 6), (1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 4)),
    "no gaps": Dilated(POOL_2D, (9, 10), (2, 3), (2, 3), (1, 1), (1, 1)),
}
LOST_ON_950 = {"planes of two axes": Dilated(POOL_2D, (20, 22), (2, 2), (1, 1), (0, 1), (2, 2))}
KEPT_ON_950 = {
    "few positions": Dilated(POOL_2D, (9, 10), (2, 2), (1, 1), (0, 1), (2, 2)),
    "no gaps": Dilated(POOL_2D, (20, 22), (2, 2), (1, 1), (0, 1), (1, 1)),
    "three axes": Dilated(POOL_3D, (1, 20, 22), (1, 2, 2), (1, 1, 1), (0, 0, 1), (1, 2, 2)),
    **LOST_ON_A2,
}
LOST = [(soc, case) for soc in (A2, A3) for case in LOST_ON_A2.values()] + [
    (A950, case) for case in LOST_ON_950.values()
]
KEPT = [(A2, case) for case in KEPT_ON_A2.values()] + [(A950, case) for case in KEPT_ON_950.values()]


def expected(x: Array, argmax: Array, grad: Array) -> Array:
    planes = np.arange(4).reshape(2, 2, *[1] * (x.ndim - 2)) * x[0, 0].size
    return pool_gradient(x.shape, grad, argmax + planes)


@pytest.mark.parametrize(("soc", "case"), LOST)
def test_lost_gradients_are_a_violation(soc: str, case: Dilated) -> None:
    x, argmax, grad = case.operands()
    with strict_device(soc) as device:
        assert device.run(case.api, case.call(x, argmax, grad, np.zeros_like(x))) == 507015
        assert "CANN loses gradients of windows with a dilation of" in (device.message() or "")
        assert device.aclnn.violations() == ["known-fault"]


@pytest.mark.parametrize(("soc", "case"), KEPT)
def test_other_windows_are_none(soc: str, case: Dilated) -> None:
    x, argmax, grad = case.operands()
    result = np.full_like(x, 7)
    with strict_device(soc) as device:
        assert device.run(case.api, case.call(x, argmax, grad, result)) == 0, device.message()
    assert_same_bits(result, expected(x, argmax, grad))


@pytest.mark.parametrize(("soc", "case"), [*LOST, *KEPT])
def test_the_lenient_library_computes_all(soc: str, case: Dilated) -> None:
    x, argmax, grad = case.operands()
    result = np.full_like(x, 7)
    with current_device(soc) as aclnn:
        assert aclnn.run(case.api, case.call(x, argmax, grad, result)) == 0, aclnn.message()
    assert_same_bits(result, expected(x, argmax, grad))


def half(op: str, x_shape: tuple[int, ...]) -> AverageCase:
    """Windows of two elements, one of which may be padding: one more than elements along each axis."""
    axes = len(x_shape) - 2
    return AverageCase(op, x_shape, (2,) * axes, (1,) * axes, (1,) * axes)


DIVIDED_BY_ZERO = [
    (A2, half(AVERAGE_3D, (1, 1, 2))),
    (A2, half(AVERAGE_2D, (1, 1, 3, 3))),
    (A3, half(AVERAGE_3D, (3, 4, 1, 1, 3))),
    (A2, half(AVERAGE_3D, (1, 1, 1, 1, 3))),
    (A950, half(AVERAGE_3D, (3, 4, 1, 1, 5))),
    (A2, AverageCase(AVERAGE_3D, (1, 2, 3, 1, 1), (2, 1, 1), (1, 1, 1), (1, 0, 0))),
]
DIVIDED = [
    (A2, AverageCase(AVERAGE_3D, (1, 2, 2, 2, 2), (2, 1, 1), (1, 1, 1), (1, 0, 0))),  # a core for a plane of the depth
    (A2, half(AVERAGE_3D, (1, 1, 48))),
    (A2, half(AVERAGE_3D, (1, 2, 3))),  # a core for each of the four windows, and six elements
    (A2, half(AVERAGE_3D, (3, 4, 1, 1, 4))),
    (A950, half(AVERAGE_2D, (1, 1, 3, 3))),
    (A2, AverageCase(AVERAGE_2D, (1, 1, 3, 3), (3, 3), (1, 1), (1, 1))),
]


@pytest.mark.parametrize(("soc", "case"), DIVIDED_BY_ZERO)
def test_few_elements_of_a_half_type_are_a_violation(soc: str, case: AverageCase) -> None:
    call, grad = AverageCall(case), np.ones(case.grad_shape, np.float16)
    y = np.zeros(case.x_shape, np.float16)
    arguments = call.of(call.filled(grad), call.filled(y))
    with strict_device(soc) as device:
        assert device.run(call.api, arguments) == 507015
        assert "CANN divides by zero where" in (device.message() or "")
        assert device.aclnn.violations() == ["known-fault"]


OTHERS = [(*row, values) for row in DIVIDED for values in (np.float16, np.float32)]
"""Float32 has no such tiling."""


@pytest.mark.parametrize(("soc", "case", "values"), [*OTHERS, *((*row, np.float32) for row in DIVIDED_BY_ZERO)])
def test_other_elements_are_none(soc: str, case: AverageCase, values: type[np.generic]) -> None:
    call, grad = AverageCall(case), np.ones(case.grad_shape, values)
    y = np.zeros(case.x_shape, values)
    with strict_device(soc) as device:
        assert device.run(call.api, call.of(call.filled(grad), call.filled(y))) == 0, device.message()
