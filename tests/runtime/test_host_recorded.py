# SPDX-License-Identifier: Apache-2.0

"""libaclnn_host: the bits of Ascend's own kernels, recorded on a CPU, in every call of Atlas A2 and A3."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from poolgrad_lowering.runtime.self_test.recorded import Recorded, recorded
from tests.runtime.aclnn_ctypes import (
    ADAPTIVE_3D,
    AVERAGE_3D,
    FORWARD_3D,
    NCDHW,
    POOL_3D,
    Aclnn,
    Array,
    Average,
    Backward,
    Call,
    Forward,
    bfloat16,
    current_device,
)

A2, A3 = "Ascend910B1", "Ascend910_9391"
TYPES = {"float32": np.dtype(np.float32), "float16": np.dtype(np.float16), "bfloat16": bfloat16}
FUNCTIONS = {
    "MaxPool3DGradWithArgmax": POOL_3D,
    "AdaptiveMaxPool3DGrad": ADAPTIVE_3D,
    "AvgPool3DGrad": AVERAGE_3D,
    "MaxPool3DWithArgmaxV2": FORWARD_3D,
}


def results(device: Aclnn, call: Recorded) -> dict[str, Array]:
    """The results of the same call of the library, by the names of the recorded ones."""
    pooling, dtype = call.pooling, TYPES[call.element.name]
    given = {name: array if name == "argmax" else array.view(dtype) for name, array in call.tensors.items()}
    windows: dict[str, Any] = {}
    if pooling.kernel:
        windows = {"kernel_size": pooling.kernel, "stride": pooling.strides, "padding": pooling.pads}
        windows["ceil_mode"] = pooling.ceil_mode
    made = {"y": np.full_like(given["y"], 7)}
    x = np.zeros(pooling.x_shape, dtype)
    arguments: Call
    if not call.op.is_gradient:
        made["argmax"] = np.full_like(given["argmax"], -1)
        arguments = Forward.of(given["x"], made["y"], made["argmax"], format=NCDHW, **windows)
    elif call.op.has_argmax:
        arguments = Backward.of(given["grad"], x, given["argmax"], made["y"], format=NCDHW, **windows)
    else:
        windows.update(count_include_pad=pooling.count_include_pad, divisor_override=pooling.divisor)
        arguments = Average.of(given["grad"], x, made["y"], format=NCDHW, **windows)
    assert device.run(FUNCTIONS[call.op.name], arguments) == 0, (call.pooling, device.message())
    return made


def same(call: Recorded, found: dict[str, Array]) -> bool:
    """Whether all bits are equal, but for the signs of zeros of forward pools.

    Of tied zeros the stand-in for AscendC kept the last one's sign, by its assumption of what Max gives for +0 and -0;
    the kernel's index is that of the first one, whose sign the library returns.
    """
    for name, array in found.items():
        unsigned = f"u{array.itemsize}"
        differs = array.view(unsigned) != call.tensors[name].view(unsigned)
        if not call.op.is_gradient and name == "y":
            differs &= array != 0
        if differs.any():
            return False
    return True


def test_calls_are_there_for_each_kernel_and_type() -> None:
    counted = Counter((call.op.name, call.element.name) for call in recorded())
    assert counted == {
        (name, element): 40 if name in ("AdaptiveMaxPool3DGrad", "AvgPool3DGrad") else 50
        for name in FUNCTIONS
        for element in TYPES
    }


@pytest.mark.parametrize("soc", [A2, A3])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_bits_are_those_of_the_kernel(name: str, soc: str) -> None:
    with current_device(soc) as aclnn:
        others = [call.pooling for call in recorded() if call.op.name == name and not same(call, results(aclnn, call))]
    assert others == []
