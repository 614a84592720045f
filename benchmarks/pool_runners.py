# SPDX-License-Identifier: Apache-2.0

"""Pools and gradients on the same values in the host library, torch, onnxruntime and onnxruntime-training."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper

from benchmarks.bound_session import bound_runner
from benchmarks.host_calls import HostCalls
from benchmarks.memory_floor import MemoryFloor
from benchmarks.pool_cases import PoolCase
from benchmarks.training_peer import TrainingPeer

Variants = dict[str, Callable[[], object]]
OWN, FLOOR, TORCH, ORT, TRAINING = "libaclnn_host", "memory", "torch", "onnxruntime", "onnxruntime-training"
PLANE_INDICES = {True: torch.int64, False: torch.int32}
"""The dtype of the library's indices, by whether the pool is AdaptiveMaxPool2d, which supports int64 only."""


@dataclass(frozen=True)
class Operands:
    """The operands of all runners: x, y, dy, and `places`, the maxima's positions in their planes, of y's shape."""

    case: PoolCase
    x: Any
    y: Any
    places: Any
    dy: Any

    @classmethod
    def drawn(cls, case: PoolCase, dtype: str) -> Operands:
        """Operands with normally distributed values; torch computes y and the positions of the maxima."""
        seeded = torch.Generator().manual_seed(0)
        x = torch.randn(case.shape, generator=seeded).to(getattr(torch, dtype))
        y, places = _torch_pool(case)(x)
        return cls(case, x, y, places, torch.randn(y.shape, generator=seeded).to(x.dtype))


@dataclass(frozen=True)
class Runtimes:
    """The runtimes that are not Python packages. `training` is None if no environment has onnxruntime-training."""

    host: HostCalls
    memory: MemoryFloor
    training: TrainingPeer | None


def forward_runners(runtimes: Runtimes, operands: Operands) -> Variants:
    """Runners of the pool with indices, by name. Raises `AssertionError` if the library and torch differ."""
    case, x = operands.case, operands.x
    y, indices = torch.zeros_like(operands.y), torch.zeros_like(operands.places, dtype=_index_type(case))
    own, pool = runtimes.host.forward(case, x, y, indices), _torch_pool(case)
    own()
    if not (torch.equal(y, operands.y) and torch.equal(indices.long(), operands.places)):
        raise AssertionError(f"{case.name}: libaclnn_host and torch differ")
    floor = runtimes.memory.of(x.nbytes, y.nbytes + indices.nbytes)
    runners: Variants = {FLOOR: floor, OWN: own, TORCH: lambda: pool(x)}
    if x.dtype == torch.float32 and not case.counts:
        runners[ORT] = bound_runner(_pool_model(case).SerializeToString(), {"x": x.numpy()})
    return runners


def backward_runners(runtimes: Runtimes, operands: Operands) -> Variants:
    """Runners of the gradient from indices, by name. onnxruntime runs the scatter onto zeros that exporters write."""
    case, x, dy = operands.case, operands.x, operands.dy
    indices, dx = operands.places.to(_index_type(case)), torch.zeros_like(x)
    runners: Variants = {
        FLOOR: runtimes.memory.of(dy.nbytes + indices.nbytes, dx.nbytes),
        OWN: runtimes.host.backward(case, dy, indices, dx),
        TORCH: _torch_gradient(operands),
    }
    if x.dtype == torch.float32:
        planes = case.shape[0] * case.shape[1]
        feeds = {"zeros": torch.zeros_like(x), "indices": operands.places, "dy": dy}
        flat = {name: value.reshape(planes, -1).numpy() for name, value in feeds.items()}
        runners[ORT] = bound_runner(_scatter_model(flat).SerializeToString(), flat)
        if runtimes.training is not None and not case.counts:
            given = {"dy": dy.numpy(), "indices": _whole_indices(operands)}
            runners[TRAINING] = runtimes.training.runner(_onnx_windows(case), case.shape, given)
    return runners


def _whole_indices(operands: Operands) -> np.ndarray[Any, Any]:
    """The positions of the maxima in the flattened x."""
    case = operands.case
    planes = torch.arange(case.shape[0] * case.shape[1]).reshape(*case.shape[:2], *[1] * case.axes)
    whole: np.ndarray[Any, Any] = (operands.places + planes * math.prod(case.shape[2:])).numpy()
    return whole


def _index_type(case: PoolCase) -> Any:
    return PLANE_INDICES[bool(case.counts) and case.axes == 2]


def _torch_pool(case: PoolCase) -> Callable[[Any], Any]:
    functional = torch.nn.functional
    if case.counts:
        adaptive = getattr(functional, f"adaptive_max_pool{case.axes}d")
        return lambda x: adaptive(x, case.counts, return_indices=True)
    pool = getattr(functional, f"max_pool{case.axes}d")
    return lambda x: pool(x, case.kernel, case.stride, case.padding, return_indices=True)


def _torch_gradient(operands: Operands) -> Callable[[], object]:
    case, given = operands.case, (operands.dy, operands.x)
    if case.counts:
        adaptive = getattr(torch.ops.aten, f"adaptive_max_pool{case.axes}d_backward")
        return lambda: adaptive(*given, operands.places)
    gradient = getattr(torch.ops.aten, f"max_pool{case.axes}d_with_indices_backward")
    windows = (case.kernel, case.stride, case.padding, [1] * case.axes, False)
    return lambda: gradient(*given, *windows, operands.places)


def _onnx_windows(case: PoolCase) -> dict[str, Sequence[int]]:
    return {"kernel_shape": case.kernel, "strides": case.stride, "pads": case.padding * 2}


def _pool_model(case: PoolCase) -> onnx.ModelProto:
    node = helper.make_node("MaxPool", ["x"], ["y", "indices"], **_onnx_windows(case))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, case.shape)
    return _model(node, [x], {"y": TensorProto.FLOAT, "indices": TensorProto.INT64})


def _scatter_model(feeds: Mapping[str, np.ndarray[Any, Any]]) -> onnx.ModelProto:
    node = helper.make_node("ScatterElements", list(feeds), ["dx"], axis=1, reduction="add")
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in feeds.items()
    ]
    return _model(node, inputs, {"dx": TensorProto.FLOAT})


def _model(node: onnx.NodeProto, inputs: list[onnx.ValueInfoProto], outputs: Mapping[str, int]) -> onnx.ModelProto:
    named = [helper.make_tensor_value_info(name, element, None) for name, element in outputs.items()]
    graph = helper.make_graph([node], "one_node", inputs, named)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
