# SPDX-License-Identifier: Apache-2.0

"""CANN's C ABI as ctypes see it, over the built libaclnn_host.so; tensors are made from numpy arrays.

Knows the ABI and nothing of what is behind it. The library is the one that POOLGRAD_HOST_LIBRARY names, else the
installed one; tests load copies, so that they share no state with a provider in the same process.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import dataclasses
import functools
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from ctypes import c_bool, c_char_p, c_int, c_int8, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
bfloat16 = np.dtype(ml_dtypes.bfloat16)

DTYPES = {
    np.dtype(np.float32): 0,
    np.dtype(np.float16): 1,
    np.dtype(np.int8): 2,
    np.dtype(np.int32): 3,
    np.dtype(np.int64): 9,
    np.dtype(np.float64): 11,
    bfloat16: 27,
}
NCHW, NHWC, ND, NC1HWC0, NDHWC, NCDHW, NCL = 0, 1, 2, 3, 27, 30, 47

POOL_3D = "aclnnMaxPool3dWithArgmaxBackward"
POOL_2D = "aclnnMaxPool2dWithIndicesBackward"
ADAPTIVE_2D = "aclnnAdaptiveMaxPool2dBackward"
ADAPTIVE_3D = "aclnnAdaptiveMaxPool3dBackward"
WINDOWED = (POOL_3D, POOL_2D)
FORWARD_3D = "aclnnMaxPool3dWithArgmax"
FORWARD_2D = "aclnnMaxPool2dWithIndices"
ADAPTIVE_FORWARD_2D = "aclnnAdaptiveMaxPool2d"
ADAPTIVE_FORWARD_3D = "aclnnAdaptiveMaxPool3d"
AVERAGE_2D = "aclnnAvgPool2dBackward"
AVERAGE_3D = "aclnnAvgPool3dBackward"
ADAPTIVE_AVERAGE_2D = "aclnnAdaptiveAvgPool2dBackward"
ADAPTIVE_AVERAGE_3D = "aclnnAdaptiveAvgPool3dBackward"
AVERAGES = (AVERAGE_2D, AVERAGE_3D, ADAPTIVE_AVERAGE_2D, ADAPTIVE_AVERAGE_3D)

_pointer = ctypes.POINTER
_PHASE_1_END = [_pointer(c_uint64), _pointer(c_void_p)]
_PHASE_1_WINDOWED = [c_void_p] * 7 + [c_bool, c_void_p, *_PHASE_1_END]
_PHASE_1_ADAPTIVE = [c_void_p] * 4 + _PHASE_1_END
_PHASE_1_FORWARD = [c_void_p] * 5 + [c_bool, c_void_p, c_void_p, *_PHASE_1_END]
_PHASE_1_ADAPTIVE_FORWARD = [c_void_p] * 4 + _PHASE_1_END
_PHASE_1_AVERAGE_2D = [c_void_p] * 5 + [c_bool, c_bool, c_int64, c_int8, c_void_p, *_PHASE_1_END]
_PHASE_1_AVERAGE_3D = [c_void_p] * 5 + [c_bool, c_bool, c_int64, c_void_p, *_PHASE_1_END]
_PHASE_1_ADAPTIVE_AVERAGE = [c_void_p] * 3 + _PHASE_1_END
_PHASE_2 = [c_void_p, c_uint64, c_void_p, c_void_p]

# name: (result, arguments)
PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "aclInit": (c_int, [c_char_p]),
    "aclFinalize": (c_int, []),
    "aclGetRecentErrMsg": (c_char_p, []),
    "aclrtGetSocName": (c_char_p, []),
    "aclrtGetDeviceCount": (c_int, [_pointer(c_uint32)]),
    "aclrtSetDevice": (c_int, [c_int32]),
    "aclrtResetDevice": (c_int, [c_int32]),
    "aclrtGetDevice": (c_int, [_pointer(c_int32)]),
    "aclrtGetCurrentContext": (c_int, [_pointer(c_void_p)]),
    "aclrtSetCurrentContext": (c_int, [c_void_p]),
    "aclrtGetRunMode": (c_int, [_pointer(c_int)]),
    "aclsysGetVersionStr": (c_int, [c_char_p, c_char_p]),
    "aclrtCtxSetSysParamOpt": (c_int, [c_int, c_int64]),
    "aclrtCtxGetSysParamOpt": (c_int, [c_int, _pointer(c_int64)]),
    "aclrtSetSysParamOpt": (c_int, [c_int, c_int64]),
    "aclrtGetSysParamOpt": (c_int, [c_int, _pointer(c_int64)]),
    "aclrtCreateStream": (c_int, [_pointer(c_void_p)]),
    "aclrtDestroyStream": (c_int, [c_void_p]),
    "aclrtSynchronizeStream": (c_int, [c_void_p]),
    "aclrtSynchronizeDevice": (c_int, []),
    "aclrtStreamQuery": (c_int, [c_void_p, _pointer(c_int)]),
    "aclrtCreateEventWithFlag": (c_int, [_pointer(c_void_p), c_uint32]),
    "aclrtDestroyEvent": (c_int, [c_void_p]),
    "aclrtRecordEvent": (c_int, [c_void_p, c_void_p]),
    "aclrtStreamWaitEvent": (c_int, [c_void_p, c_void_p]),
    "aclrtSynchronizeEvent": (c_int, [c_void_p]),
    "aclrtQueryEventStatus": (c_int, [c_void_p, _pointer(c_int)]),
    "aclrtMalloc": (c_int, [_pointer(c_void_p), c_size_t, c_int]),
    "aclrtFree": (c_int, [c_void_p]),
    "aclrtGetMemInfo": (c_int, [c_int, _pointer(c_size_t), _pointer(c_size_t)]),
    "aclrtMallocHost": (c_int, [_pointer(c_void_p), c_size_t]),
    "aclrtFreeHost": (c_int, [c_void_p]),
    "aclrtMemcpy": (c_int, [c_void_p, c_size_t, c_void_p, c_size_t, c_int]),
    "aclrtMemcpyAsync": (c_int, [c_void_p, c_size_t, c_void_p, c_size_t, c_int, c_void_p]),
    "aclrtMemset": (c_int, [c_void_p, c_size_t, c_int32, c_size_t]),
    "aclrtMemsetAsync": (c_int, [c_void_p, c_size_t, c_int32, c_size_t, c_void_p]),
    "aclCreateTensor": (
        c_void_p,
        [_pointer(c_int64), c_uint64, c_int, _pointer(c_int64), c_int64, c_int, _pointer(c_int64), c_uint64, c_void_p],
    ),
    "aclDestroyTensor": (c_int32, [c_void_p]),
    "aclCreateIntArray": (c_void_p, [_pointer(c_int64), c_uint64]),
    "aclDestroyIntArray": (c_int32, [c_void_p]),
    "aclSetTensorAddr": (c_int32, [c_void_p, c_size_t, c_void_p, c_void_p]),
    "aclSetAclOpExecutorRepeatable": (c_int32, [c_void_p]),
    "aclDestroyAclOpExecutor": (c_int32, [c_void_p]),
    **{f"{api}GetWorkspaceSize": (c_int32, _PHASE_1_WINDOWED) for api in WINDOWED},
    **{f"{api}GetWorkspaceSize": (c_int32, _PHASE_1_ADAPTIVE) for api in (ADAPTIVE_2D, ADAPTIVE_3D)},
    **{f"{api}GetWorkspaceSize": (c_int32, _PHASE_1_FORWARD) for api in (FORWARD_3D, FORWARD_2D)},
    **{
        f"{api}GetWorkspaceSize": (c_int32, _PHASE_1_ADAPTIVE_FORWARD)
        for api in (ADAPTIVE_FORWARD_2D, ADAPTIVE_FORWARD_3D)
    },
    f"{AVERAGE_2D}GetWorkspaceSize": (c_int32, _PHASE_1_AVERAGE_2D),
    f"{AVERAGE_3D}GetWorkspaceSize": (c_int32, _PHASE_1_AVERAGE_3D),
    **{
        f"{api}GetWorkspaceSize": (c_int32, _PHASE_1_ADAPTIVE_AVERAGE)
        for api in (ADAPTIVE_AVERAGE_2D, ADAPTIVE_AVERAGE_3D)
    },
    **dict.fromkeys((*WINDOWED, ADAPTIVE_2D, ADAPTIVE_3D, *AVERAGES), (c_int32, _PHASE_2)),
    **dict.fromkeys((FORWARD_3D, FORWARD_2D, ADAPTIVE_FORWARD_2D, ADAPTIVE_FORWARD_3D), (c_int32, _PHASE_2)),
}


# The library's own functions (control.h), which CANN does not have.
CONTROL: dict[str, tuple[Any, list[Any]]] = {
    "aclnnHostTraceStart": (None, []),
    "aclnnHostTraceStop": (None, []),
    "aclnnHostTraceRead": (c_char_p, []),
    "aclnnHostFail": (c_int32, [c_char_p, c_uint64, c_int32]),
    "aclnnHostViolations": (c_char_p, []),
    "aclnnHostLiveObjects": (c_int64, [c_char_p]),
    "aclnnHostSetVectors": (c_int32, [c_char_p]),
    "aclnnHostSetThreads": (c_int32, [c_int64]),
    "aclnnHostReset": (None, []),
}


def int64s(values: Sequence[int]) -> Any:
    """Return a C array of int64."""
    return (c_int64 * len(values))(*values)


@dataclasses.dataclass(frozen=True)
class Tensor:
    """The arguments of aclCreateTensor. Strides and offset count elements; `owner` keeps the memory alive."""

    dims: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None = None
    offset: int = 0
    format: int = ND
    storage_dims: tuple[int, ...] | None = None  # None: as dims
    address: int | None = None
    owner: Any = dataclasses.field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, array: Array, format: int = ND) -> Tensor:  # noqa: A002 - the ABI's name
        """Describe an array, which may be a view of a contiguous array of the same dtype."""
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        assert owner.flags.c_contiguous
        return cls(
            dims=array.shape,
            dtype=array.dtype,
            strides=tuple(stride // array.itemsize for stride in array.strides),
            offset=(array.ctypes.data - owner.ctypes.data) // array.itemsize,
            format=format,
            storage_dims=(owner.size,),
            address=owner.ctypes.data,
            owner=owner,
        )


@dataclasses.dataclass(frozen=True)
class Backward:
    """The arguments of a gradient's phase 1; the lists are for the windowed functions."""

    grad_output: Tensor | None
    self_: Tensor | None
    indices: Tensor | None
    grad_input: Tensor | None
    kernel_size: Sequence[int] | None = (1,)
    stride: Sequence[int] | None = ()
    padding: Sequence[int] | None = (0,)
    dilation: Sequence[int] | None = (1,)
    ceil_mode: bool = False

    @classmethod
    def of(cls, *arrays: Array, format: int = ND, **windows: Any) -> Backward:  # noqa: A002 - the ABI's name
        """Describe a call on arrays: grad_output, self, indices, grad_input."""
        grad_output, self_, indices, grad_input = (Tensor.of(array, format) for array in arrays)
        return cls(grad_output, self_, indices, grad_input, **windows)

    def in_order(self, api: str) -> list[Argument]:
        """The arguments in the order of the prototype."""
        windows = [self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode]
        return [self.grad_output, self.self_, self.indices, *(windows if api in WINDOWED else []), self.grad_input]


@dataclasses.dataclass(frozen=True)
class Forward:
    """The arguments of a pool's phase 1; output_size is for the adaptive functions, the other lists for the rest."""

    self_: Tensor | None
    out: Tensor | None
    indices: Tensor | None
    kernel_size: Sequence[int] | None = (1,)
    stride: Sequence[int] | None = ()
    padding: Sequence[int] | None = (0,)
    dilation: Sequence[int] | None = (1,)
    ceil_mode: bool = False
    output_size: Sequence[int] | None = ()

    @classmethod
    def of(cls, *arrays: Array, format: int = NCHW, **lists: Any) -> Forward:  # noqa: A002 - the ABI's name
        """Describe a call on arrays: self, out, indices."""
        self_, out, indices = (Tensor.of(array, format) for array in arrays)
        return cls(self_, out, indices, **lists)

    def in_order(self, api: str) -> list[Argument]:
        """The arguments in the order of the prototype."""
        windows = [self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode]
        adaptive = api in (ADAPTIVE_FORWARD_2D, ADAPTIVE_FORWARD_3D)
        return [self.self_, *([self.output_size] if adaptive else windows), self.out, self.indices]


@dataclasses.dataclass(frozen=True)
class Average:
    """The arguments of phase 1 of an average pool's gradient; the lists and numbers are for the windowed functions."""

    grad_output: Tensor | None
    self_: Tensor | None
    grad_input: Tensor | None
    kernel_size: Sequence[int] | None = (1,)
    stride: Sequence[int] | None = ()
    padding: Sequence[int] | None = (0,)
    ceil_mode: bool = False
    count_include_pad: bool = False
    divisor_override: int = 0
    cube_math_type: int = 0

    @classmethod
    def of(cls, *arrays: Array, format: int = NCHW, **windows: Any) -> Average:  # noqa: A002 - the ABI's name
        """Describe a call on arrays: grad_output, self, grad_input."""
        grad_output, self_, grad_input = (Tensor.of(array, format) for array in arrays)
        return cls(grad_output, self_, grad_input, **windows)

    def in_order(self, api: str) -> list[Argument]:
        """The arguments in the order of the prototype."""
        windows: list[Argument] = [self.kernel_size, self.stride, self.padding]
        windows += [self.ceil_mode, self.count_include_pad, self.divisor_override]
        windows += [self.cube_math_type] if api == AVERAGE_2D else []
        return [self.grad_output, self.self_, *(windows if api in (AVERAGE_2D, AVERAGE_3D) else []), self.grad_input]


Argument = Tensor | Sequence[int] | bool | int | None
Call = Backward | Forward | Average


class Aclnn:
    """The functions of the library, and two-phase calls."""

    def __init__(self, path: Path) -> None:
        self.c = ctypes.CDLL(str(path))
        for name, (result, arguments) in {**PROTOTYPES, **CONTROL}.items():
            function = getattr(self.c, name)
            function.restype, function.argtypes = result, arguments

    def message(self) -> str | None:
        """Read and clear this thread's message."""
        text = self.c.aclGetRecentErrMsg()
        return None if text is None else text.decode()

    def violations(self) -> list[str]:
        """Return and clear the violated rules, in order."""
        text = self.c.aclnnHostViolations().decode()
        self.c.aclnnHostReset()
        return [json.loads(line)["violation"] for line in text.splitlines()]

    def trace(self) -> list[dict[str, Any]]:
        """Return and clear the lines of the trace."""
        return [json.loads(line) for line in self.c.aclnnHostTraceRead().decode().splitlines()]

    def live(self, kind: str | None = None) -> int:
        """Return the number of live objects of a kind, or of all kinds."""
        count: int = self.c.aclnnHostLiveObjects(None if kind is None else kind.encode())
        return count

    def create_tensor(self, tensor: Tensor) -> int | None:
        """Return an aclTensor*, for the caller to destroy."""
        storage = tensor.dims if tensor.storage_dims is None else tensor.storage_dims
        strides = None if tensor.strides is None else int64s(tensor.strides)
        handle: int | None = self.c.aclCreateTensor(
            int64s(tensor.dims), len(tensor.dims), DTYPES[tensor.dtype], strides, tensor.offset, tensor.format,
            int64s(storage), len(storage), tensor.address,
        )  # fmt: skip
        return handle

    @contextlib.contextmanager
    def arguments(self, api: str, call: Call) -> Iterator[list[Any]]:
        """Make the handles of a call, in the order of the prototype; destroy them at the end."""
        with contextlib.ExitStack() as stack:

            def made(argument: Argument) -> int | bool | None:
                if argument is None or isinstance(argument, int):
                    return argument
                if isinstance(argument, Tensor):
                    handle, destroy = self.create_tensor(argument), self.c.aclDestroyTensor
                else:
                    handle = self.c.aclCreateIntArray(int64s(argument), len(argument))
                    destroy = self.c.aclDestroyIntArray
                assert handle, self.message()
                stack.callback(destroy, handle)
                return handle

            yield [made(argument) for argument in call.in_order(api)]

    def phase_1(self, api: str, arguments: list[Any]) -> tuple[int, int | None]:
        """Phase 1: return its code and the executor."""
        workspace_size, executor = c_uint64(2**63), c_void_p()
        code: int = getattr(self.c, f"{api}GetWorkspaceSize")(
            *arguments, ctypes.byref(workspace_size), ctypes.byref(executor)
        )
        assert workspace_size.value == (2**63 if code else 0)
        return code, executor.value

    def execute(self, api: str, executor: int | None, workspace_size: int = 0) -> int:
        """Phase 2, without a workspace."""
        code: int = getattr(self.c, api)(None, workspace_size, executor, None)
        return code

    def check(self, api: str, call: Call) -> int:
        """Run phase 1 and destroy its executor."""
        with self.arguments(api, call) as arguments:
            code, executor = self.phase_1(api, arguments)
            if code == 0:
                assert self.c.aclDestroyAclOpExecutor(executor) == 0
        return code

    def run(self, api: str, call: Call) -> int:
        """Run both phases; phase 1 must succeed. Returns the code of phase 2."""
        with self.arguments(api, call) as arguments:
            code, executor = self.phase_1(api, arguments)
            assert code == 0, self.message()
            return self.execute(api, executor)


@functools.cache
def library(name: str = "under_test") -> Aclnn:
    """Load a private copy of the library; each name has a state of its own."""
    path = os.environ.get("POOLGRAD_HOST_LIBRARY")
    if path is None:
        from poolgrad_lowering.runtime import get_host_library_path

        path = get_host_library_path()
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)  # not before: sanitizers read their symbols from the file
    copy = Path(folder.name) / f"libaclnn_host_{name}.so"
    shutil.copy(path, copy)
    return Aclnn(copy)


@contextlib.contextmanager
def environment(**variables: str | None) -> Iterator[None]:
    """Set environment variables, or remove them with None, in a with block."""
    before = {name: os.environ.get(name) for name in variables}

    def put(values: dict[str, str | None]) -> None:
        for name, value in values.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value

    put(variables)
    try:
        yield
    finally:
        put(before)


@contextlib.contextmanager
def initialized(soc: str | None = None, *, strict: bool = False) -> Iterator[Aclnn]:
    """Initialize the library as the given SoC, None being the default, and finalize it at the end.

    The strict library is another copy than the lenient one.
    """
    with environment(ACLNN_HOST_SOC=soc, ACLNN_HOST_STRICT="1" if strict else None):
        aclnn = library("strict" if strict else "under_test")
        assert aclnn.c.aclInit(None) == 0, aclnn.message()
        try:
            yield aclnn
        finally:
            assert aclnn.c.aclFinalize() == 0


@contextlib.contextmanager
def current_device(soc: str | None = None, *, strict: bool = False) -> Iterator[Aclnn]:
    """`initialized`, and the device current on this thread."""
    with initialized(soc, strict=strict) as aclnn:
        assert aclnn.c.aclrtSetDevice(0) == 0, aclnn.message()
        aclnn.message()
        yield aclnn
