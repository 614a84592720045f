# SPDX-License-Identifier: Apache-2.0

"""Repeatable calls of libaclnn_host by CANN's C ABI, on the memory of torch's tensors; each is prepared once."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import byref, c_bool, c_int8, c_int32, c_int64, c_uint64, c_void_p
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.pool_cases import PoolCase

DTYPES = {"torch.float32": 0, "torch.float16": 1, "torch.int32": 3, "torch.int64": 9, "torch.bfloat16": 27}
NCHW = 0
FORWARD = {2: "aclnnMaxPool2dWithIndices", 3: "aclnnMaxPool3dWithArgmax"}


REPEATED = 100002
"""ACL_ERROR_REPEAT_INITIALIZE: the process has initialised the library before."""


class HostCalls:
    """The library at a path, initialised for this thread. A call keeps its tensors alive."""

    def __init__(self, path: str | Path) -> None:
        self._c = ctypes.CDLL(str(path))
        for create in (self._c.aclCreateTensor, self._c.aclCreateIntArray):
            create.restype = c_void_p
        self._c.aclGetRecentErrMsg.restype = ctypes.c_char_p
        if (code := self._c.aclInit(None)) != REPEATED:  # two questions of a run each have their calls
            self._check(code)
        self._check(self._c.aclrtSetDevice(c_int32(0)))

    def forward(self, case: PoolCase, x: Any, y: Any, indices: Any) -> Callable[[], None]:
        """A call that pools x, of shape [N, C, *spatial], into y and writes the positions of the maxima to indices."""
        kept = (x, y, indices)
        self_, out, places = map(self._tensor, kept)
        if case.counts:
            arguments = [self_, self._list(case.counts), out, places]
            return self._planned(f"aclnnAdaptiveMaxPool{case.axes}d", arguments, kept)
        return self._planned(FORWARD[case.axes], [self_, *self._windows(case), out, places], kept)

    def backward(self, case: PoolCase, dy: Any, indices: Any, dx: Any) -> Callable[[], None]:
        """A call that writes the gradient of x to dx, from dy and the indices."""
        kept = (dy, dx, indices, dx)
        grad, self_, places, result = map(self._tensor, kept)
        if case.counts:
            return self._planned(f"aclnnAdaptiveMaxPool{case.axes}dBackward", [grad, self_, places, result], kept)
        arguments = [grad, self_, places, *self._windows(case), result]
        return self._planned(f"{FORWARD[case.axes]}Backward", arguments, kept)

    def average(self, case: PoolCase, dy: Any, dx: Any) -> Callable[[], None]:
        """A call that writes the gradient of x of an average pool, which counts its padding, to dx."""
        kept = (dy, dx, dx)
        grad, self_, result = map(self._tensor, kept)
        if case.counts:
            return self._planned(f"aclnnAdaptiveAvgPool{case.axes}dBackward", [grad, self_, result], kept)
        lists = map(self._list, (case.kernel, case.stride, case.padding))
        keeps_float32 = [c_int8(0)] if case.axes == 2 else []
        arguments = [grad, self_, *lists, c_bool(False), c_bool(True), c_int64(0), *keeps_float32, result]
        return self._planned(f"aclnnAvgPool{case.axes}dBackward", arguments, kept)

    def _windows(self, case: PoolCase) -> list[Any]:
        ones = (1,) * case.axes
        return [*map(self._list, (case.kernel, case.stride, case.padding, ones)), c_bool(False)]

    def _planned(self, function: str, arguments: list[Any], kept: object) -> Callable[[], None]:
        size, executor = c_uint64(), c_void_p()
        self._check(getattr(self._c, f"{function}GetWorkspaceSize")(*arguments, byref(size), byref(executor)))
        self._check(self._c.aclSetAclOpExecutorRepeatable(executor))
        return partial(self._run, getattr(self._c, function), executor, kept)

    def _run(self, function: Any, executor: c_void_p, _kept: object) -> None:
        self._check(function(None, c_uint64(0), executor, None))

    def _tensor(self, tensor: Any) -> c_void_p:
        dims = _int64s(tensor.shape)
        rank, address = c_uint64(tensor.dim()), c_void_p(tensor.data_ptr())
        dtype = c_int32(DTYPES[str(tensor.dtype)])
        handle = self._c.aclCreateTensor(dims, rank, dtype, None, c_int64(0), c_int32(NCHW), dims, rank, address)
        return c_void_p(handle)

    def _list(self, values: Sequence[int]) -> c_void_p:
        return c_void_p(self._c.aclCreateIntArray(_int64s(values), c_uint64(len(values))))

    def _check(self, code: int) -> None:
        if code != 0:
            raise RuntimeError(f"libaclnn_host: {code}: {self._c.aclGetRecentErrMsg()}")


def _int64s(values: Sequence[int]) -> Any:
    return (c_int64 * len(values))(*values)
