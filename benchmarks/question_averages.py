# SPDX-License-Identifier: Apache-2.0

"""How fast are the host library's gradients of average pools, beside memory, torch and onnxruntime's ConvTranspose?

They are computed as on Atlas A2. Sums of many terms are also computed as on Ascend 950, where rows of x share none.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from onnx import ModelProto, TensorProto, helper, numpy_helper

from benchmarks.bound_session import bound_runner
from benchmarks.host_calls import HostCalls
from benchmarks.measuring import STEADY, interleaved
from benchmarks.memory_floor import MemoryFloor
from benchmarks.pool_cases import CASES, PoolCase
from benchmarks.pool_runners import FLOOR, ORT, OWN, TORCH, Variants
from poolgrad_lowering.runtime import get_host_library_path

ROUNDS = 15
DTYPES = ("float32", "float16", "bfloat16")


def measure(work: Path) -> dict[str, Any]:
    """Times and ratios of the gradient of an average pool that counts its padding, per case and dtype."""
    host, memory = _host_of("Ascend910B1", work), MemoryFloor(work)
    cases = [_case(host, memory, case, dtype) for case in CASES for dtype in DTYPES]
    return {"cases": cases, "other": _other_product(host, _host_of("Ascend950PR_9599", work), CASES[-1])}


def _host_of(soc: str, work: Path) -> HostCalls:
    """The library as it computes on a product. A copy, since a process has one product for a library."""
    with patch.dict(os.environ, ACLNN_HOST_SOC=soc):
        return HostCalls(shutil.copyfile(get_host_library_path(), work / f"libaclnn_host_{soc}.so"))


def _other_product(host: HostCalls, other: HostCalls, case: PoolCase) -> dict[str, Any]:
    operands = _operands(case, "float32")
    timings = interleaved(
        {"own": host.average(case, *operands), "other": other.average(case, *operands)}, ROUNDS, unmeasured=STEADY
    )
    return {"name": case.name, "ratio": timings["other"].ratio_to(timings["own"])}


def _case(host: HostCalls, memory: MemoryFloor, case: PoolCase, dtype: str) -> dict[str, Any]:
    timings = interleaved(runners(host, memory, case, dtype), ROUNDS, unmeasured=STEADY)
    rows = [
        {"name": name, **timing.to_dict(), "ratio": timing.ratio_to(timings[FLOOR])} for name, timing in timings.items()
    ]
    return {"name": case.name, "dtype": dtype, "rows": rows}


def runners(host: HostCalls, memory: MemoryFloor, case: PoolCase, dtype: str) -> Variants:
    """Runners by name. Raises `AssertionError` if the library's results are not close to torch's in float32.

    Both add up to 25 quotients in float32, perhaps in another order; the library then rounds once to the type. Where
    the quotients cancel, that is some units of their size.
    """
    dy, dx = _operands(case, dtype)
    x = torch.zeros_like(dx)
    own, expected = host.average(case, dy, dx), _torch(case, dy, x)
    own()
    wide, bound = _torch(case, dy.float(), x.float())(), 2 * torch.finfo(x.dtype).eps
    torch.testing.assert_close(dx.float(), wide, rtol=bound, atol=bound * float(wide.abs().max()))
    found: Variants = {FLOOR: memory.of(dy.nbytes, dx.nbytes), OWN: own}
    if case.axes == 2 or dtype == "float32":  # torch has no other 3-D ones on the CPU
        found[TORCH] = expected
    if dtype == "float32" and not case.counts:
        found[ORT] = bound_runner(spelled_out(case, tuple(dy.shape)).SerializeToString(), {"dy": dy.numpy()})
    return found


def _operands(case: PoolCase, dtype: str) -> tuple[Any, Any]:
    """A random gradient, and where that of x is written."""
    seeded = torch.Generator().manual_seed(0)
    counts = case.counts or [
        (size + 2 * pad - kernel) // stride + 1
        for size, kernel, stride, pad in zip(case.shape[2:], case.kernel, case.stride, case.padding, strict=True)
    ]
    dx = torch.zeros(case.shape, dtype=getattr(torch, dtype))
    return torch.randn((*case.shape[:2], *counts), generator=seeded).to(dx.dtype), dx


def _torch(case: PoolCase, dy: Any, x: Any) -> Any:
    if case.counts:
        adaptive = getattr(torch.ops.aten, f"_adaptive_avg_pool{case.axes}d_backward")
        return lambda: adaptive(dy, x)
    gradient = getattr(torch.ops.aten, f"avg_pool{case.axes}d_backward")
    return lambda: gradient(dy, x, case.kernel, case.stride, case.padding, False, True, None)


def spelled_out(case: PoolCase, dy_shape: tuple[int, ...]) -> ModelProto:
    """The gradient as `poolgrad_lowering.torch` writes it: Div, and a ConvTranspose with ones over planes as batch.

    The windows reach the end of x, behind which is padding only.
    """
    rank = 2 + case.axes
    full = [
        (count - 1) * stride + kernel
        for count, stride, kernel in zip(dy_shape[2:], case.stride, case.kernel, strict=True)
    ]
    ends = [pad + size for pad, size in zip(case.padding, case.shape[2:], strict=True)]
    more = [max(end - size, 0) for end, size in zip(ends, full, strict=True)]
    constants = {
        "elements": np.float32(np.prod(case.kernel)),
        "planes_shape": np.array([-1, 1, *dy_shape[2:]]),
        "ones": np.ones((1, 1, *case.kernel), np.float32),
        "pads": np.array([0] * rank + [0, 0, *more]),
        "begins": np.array(case.padding),
        "ends": np.array(ends),
        "axes": np.arange(2, rank),
        "x_shape": np.array(case.shape),
    }
    nodes = [
        helper.make_node("Div", ["dy", "elements"], ["mean"]),
        helper.make_node("Reshape", ["mean", "planes_shape"], ["planes"]),
        helper.make_node("ConvTranspose", ["planes", "ones"], ["sums"], strides=list(case.stride)),
        helper.make_node("Pad", ["sums", "pads"], ["padded"]),
        helper.make_node("Slice", ["padded", "begins", "ends", "axes"], ["cut"]),
        helper.make_node("Reshape", ["cut", "x_shape"], ["dx"]),
    ]
    graph = helper.make_graph(
        nodes,
        "average",
        [helper.make_tensor_value_info("dy", TensorProto.FLOAT, dy_shape)],
        [helper.make_tensor_value_info("dx", TensorProto.FLOAT, case.shape)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
