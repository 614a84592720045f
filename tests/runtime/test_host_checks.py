# SPDX-License-Identifier: Apache-2.0

"""libaclnn_host phase 1: every check, its code, their order, and the dtypes of each product."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.runtime.aclnn_ctypes import (
    ADAPTIVE_2D,
    ADAPTIVE_3D,
    NC1HWC0,
    NCDHW,
    NCHW,
    NHWC,
    POOL_2D,
    POOL_3D,
    Aclnn,
    Backward,
    Tensor,
    current_device,
)
from tests.runtime.average_calls import A2, A3, A950
from tests.runtime.phase_one import (
    BF16,
    DOUBLE,
    FLOAT,
    HALF,
    INT8,
    INT32,
    INT64,
    INVALID,
    NULLPTR,
    Change,
    check_legal,
    check_refused,
    code_of,
    dims,
    given,
    order,
    row,
    tensors,
)

APIS = (POOL_3D, POOL_2D, ADAPTIVE_2D, ADAPTIVE_3D)
WINDOWED = (POOL_3D, POOL_2D)
AXES = {POOL_3D: 3, POOL_2D: 2, ADAPTIVE_2D: 2, ADAPTIVE_3D: 3}


def tensor(dims: tuple[int, ...], dtype: np.dtype[Any] = FLOAT) -> Tensor:
    """Describe a tensor without data, which phase 1 never reads."""
    return Tensor(dims, dtype)


def legal(api: str) -> Backward:
    """Return a call that every product with the function accepts: 2x2(x2) windows on an 8x8(x8) plane."""
    axes = AXES[api]
    x, y = tensor((2, 3) + (8,) * axes), tensor((2, 3) + (4,) * axes)
    indices = tensor(y.dims, INT32)
    return Backward(y, x, indices, x, kernel_size=[2] * axes, padding=[0] * axes, dilation=[1] * axes)


GRADS = ("grad_output", "self_", "grad_input")
ALL = (*GRADS, "indices")


@pytest.mark.parametrize("api", APIS)
def test_legal(api: str) -> None:
    check_legal(api, legal(api))


@pytest.mark.parametrize(
    ("api", "name"),
    [(api, name) for api in APIS for name in ALL]
    + [(api, name) for api in WINDOWED for name in ("kernel_size", "stride", "padding", "dilation")],
)
def test_null(aclnn: Aclnn, api: str, name: str) -> None:
    assert aclnn.check(api, given(**{name: None})(legal(api))) == NULLPTR
    words = name.rstrip("_").split("_")
    camel = words[0] + "".join(word.capitalize() for word in words[1:])
    assert (aclnn.message() or "").startswith(f"{api}GetWorkspaceSize: {camel} is null")


@pytest.mark.parametrize("api", APIS)
def test_null_results(aclnn: Aclnn, api: str) -> None:
    function = getattr(aclnn.c, f"{api}GetWorkspaceSize")
    with aclnn.arguments(api, legal(api)) as arguments:
        assert function(*arguments, None, None) == NULLPTR
    assert "workspaceSize is null" in (aclnn.message() or "")


def supported(api: str, soc: str) -> tuple[set[np.dtype[Any]], set[np.dtype[Any]]]:
    """Return the dtypes of values and of indices that phase 1 accepts."""
    if soc not in (A950, A2, A3):
        return set(), set()
    values = {FLOAT} if api == POOL_2D and soc != A950 else {FLOAT, HALF, BF16}
    if soc == A950 or api == ADAPTIVE_2D:
        return values, {INT32, INT64}
    return values, {INT32, INT8} if api == POOL_2D else {INT32}


@pytest.mark.parametrize("soc", [A950, A2, A3, "Ascend910B", "Ascend310P3", "Ascend310B1"])
@pytest.mark.parametrize("api", APIS)
def test_dtypes(api: str, soc: str) -> None:
    values, indices = supported(api, soc)
    with current_device(soc) as aclnn:
        for value, index in itertools.product((FLOAT, HALF, BF16, DOUBLE), (INT32, INT64, INT8, FLOAT)):
            call = tensors("indices", dtype=index)(tensors(*GRADS, dtype=value)(legal(api)))
            expected = 0 if value in values and index in indices else INVALID
            assert aclnn.check(api, call) == expected, (value, index)


HALF_GRAD_INPUT, FLOAT_INDICES = tensors("grad_input", dtype=HALF), tensors("indices", dtype=FLOAT)
NCHW_INDICES, INT64_INDICES = tensors("indices", format=NCHW), tensors("indices", dtype=INT64)
HUGE_PLANES_2D, HUGE_PLANES_3D = (dims(**dict.fromkeys(ALL, shape)) for shape in [(1, 1, 2**31), (1, 1, 1, 2**31)])

INVALID_ROWS = [
    row("self dtype", APIS, tensors(*GRADS, dtype=DOUBLE), "self has dtype DOUBLE"),
    row("grad_output dtype", APIS, tensors("grad_output", dtype=HALF), "gradOutput has dtype FLOAT16"),
    row("grad_input dtype", APIS, tensors("grad_input", dtype=HALF), "gradInput has dtype FLOAT16"),
    row("indices dtype", APIS, tensors("indices", dtype=FLOAT), "indices has dtype FLOAT"),
    row("int64 late", (ADAPTIVE_3D,), tensors("indices", dtype=INT64), "supported: INT32 on", (A2, A3)),
    row("grad_output format", APIS, tensors("grad_output", format=NCHW), "gradOutput has format NCHW"),
    row("grad_input format", APIS, tensors("grad_input", format=NCDHW), "gradInput has format NCDHW"),
    row("indices format", (ADAPTIVE_2D, ADAPTIVE_3D), tensors("indices", format=NCHW), "indices has format NCHW"),
    row("private format", APIS, tensors(*ALL, format=NC1HWC0), "private format NC1HWC0"),
    row("private indices", WINDOWED, tensors("indices", format=NC1HWC0), "indices has the private format NC1HWC0"),
    row("rank 2 of all", APIS, dims(**dict.fromkeys(ALL, (8, 8))), "dimensions"),
    row("rank 6 of all", APIS, dims(**dict.fromkeys(ALL, (1, 1, 1, 1, 8, 8))), "dimensions"),
    row("rank of grad_output", APIS, dims(grad_output=(4, 4)), "gradOutput has shape [4, 4]"),
    row("rank of grad_input", APIS, dims(grad_input=(8, 8)), "gradInput has shape [8, 8]"),
    row("rank of indices", APIS, dims(indices=(4, 4)), "indices has shape [4, 4]"),
    row("kernel empty", WINDOWED, given(kernel_size=[]), "kernelSize is []"),
    row("kernel length", WINDOWED, given(kernel_size=[2] * 4), "kernelSize is [2, 2, 2, 2]"),
    row("kernel length 3 in 2-D", (POOL_2D,), given(kernel_size=[2, 2, 2]), "1 or 2 values"),
    row("kernel length 2 in 3-D", (POOL_3D,), given(kernel_size=[2, 2]), "1 or 3 values"),
    row("kernel 0", WINDOWED, given(kernel_size=[0]), "kernelSize is [0]"),
    row("stride length", WINDOWED, given(stride=[2] * 4), "stride is [2, 2, 2, 2]; it has to have 1"),
    row("stride 0", WINDOWED, given(stride=[0]), "stride is [0]"),
    row("stride negative", WINDOWED, given(stride=[-(2**63)]), "stride is"),
    row("padding empty", WINDOWED, given(padding=[]), "padding is []"),
    row("padding length", WINDOWED, given(padding=[0] * 4), "padding is [0, 0, 0, 0]"),
    row("padding negative", WINDOWED, given(padding=[-1]), "padding is [-1]"),
    row("padding over half", WINDOWED, given(kernel_size=[3], padding=[2]), "0 to 1, half the kernel"),
    row("dilation empty", WINDOWED, given(dilation=[]), "dilation is []"),
    row("dilation length", WINDOWED, given(dilation=[1] * 4), "dilation is [1, 1, 1, 1]"),
    row("dilation 0", WINDOWED, given(dilation=[0]), "dilation is [0]"),
    row("dilation 2", (POOL_2D,), given(dilation=[2]), "dilation is [2]", (A2, A3)),
    row("indices shape", (POOL_3D, ADAPTIVE_2D, ADAPTIVE_3D), dims(indices=(2, 3, 4, 4, 5)), "indices has shape"),
    row("grad_input shape 3-D", (POOL_3D, ADAPTIVE_3D), dims(grad_input=(2, 3, 8, 8, 9)), "gradInput has shape"),
    row("grad_input shape 2-D", (POOL_2D, ADAPTIVE_2D), dims(grad_input=(2, 3, 8, 9)), "gradInput has shape"),
    row("no channel", (POOL_2D,), dims(self_=(2, 0, 8, 8), grad_input=(2, 0, 8, 8)), "no dimension but the batch"),
    row("no row", (POOL_2D,), dims(self_=(2, 3, 0, 8), grad_input=(2, 3, 0, 8)), "no dimension but the batch"),
    row("window over plane", (POOL_2D,), given(kernel_size=[9], stride=[20]), "do not fit"),
    row("huge window", (POOL_2D,), given(kernel_size=[2**62], stride=[2**62]), "do not fit"),
    row("grad_output size", (POOL_2D,), dims(grad_output=(2, 3, 4, 5)), "gradOutput has planes of [4, 5]"),
    row("grad_output N", (POOL_2D,), dims(grad_output=(1, 3, 4, 4)), "gradOutput has N = 1"),
    row("grad_output C", (POOL_2D,), dims(grad_output=(2, 1, 4, 4)), "C = 1"),
    row("grad_output without N", (POOL_2D,), dims(grad_output=(3, 4, 4)), "gradOutput has shape [3, 4, 4]"),
    # of two checks that fail the first in CANN's order decides, which the message tells
    order("indices, grads", POOL_3D, A950, "indices has dtype", HALF_GRAD_INPUT, FLOAT_INDICES),
    order("grads, indices", POOL_2D, A950, "gradInput has dtype", HALF_GRAD_INPUT, FLOAT_INDICES),
    order("self, grads", POOL_3D, A950, "self has dtype", tensors("self_", dtype=DOUBLE)),
    order("grads, self", ADAPTIVE_2D, A950, "gradOutput has dtype", tensors("self_", dtype=DOUBLE)),
    order("list by list", POOL_3D, A950, "kernelSize is [0]", given(kernel_size=[0], stride=[1] * 4)),
    order("lengths, values", POOL_2D, A950, "stride is", given(kernel_size=[0], stride=[1] * 4)),
    order("dilation, plane", POOL_3D, A2, "dilation is", HUGE_PLANES_3D, given(dilation=[0])),
    order("plane, shapes", POOL_3D, A2, "2147483648 elements", HUGE_PLANES_3D, dims(indices=(1, 1, 1, 1))),
    order("ranks, lists", POOL_3D, A950, "self has shape", given(kernel_size=[0]), dims(self_=(8, 8))),
    order("formats, ranks", POOL_3D, A950, "has format", tensors("self_", format=NCHW), dims(self_=(8, 8))),
    order("shapes", POOL_2D, A950, "gradInput has shape", dims(grad_output=(2, 3, 9, 9), grad_input=(2, 3, 1, 1))),
    order("format, plane", ADAPTIVE_2D, A2, "indices has format", HUGE_PLANES_2D, NCHW_INDICES),
    order("plane, format", ADAPTIVE_3D, A2, "2147483648 elements", HUGE_PLANES_3D, NCHW_INDICES),
    order("format, int64", ADAPTIVE_3D, A2, "private format", tensors(*ALL, format=NC1HWC0), INT64_INDICES),
    order("plane, int64", ADAPTIVE_3D, A2, "2147483648 elements", HUGE_PLANES_3D, INT64_INDICES),
    order("rank, shapes", ADAPTIVE_3D, A2, "many dimensions as self", dims(indices=(4, 4), grad_input=(2, 3, 9, 9, 9))),
]  # fmt: skip


@pytest.mark.parametrize(("apis", "change", "message", "socs", "code"), INVALID_ROWS)
def test_invalid(apis: tuple[str, ...], change: Change, message: str, socs: tuple[str, ...], code: int) -> None:
    check_refused(lambda api: change(legal(api)), apis, message, socs, code)


@pytest.mark.parametrize(
    ("api", "change"),
    [
        pytest.param(POOL_3D, given(stride=[1, 2, 3], kernel_size=[2]), id="sizes of the 3-D gradient"),
        pytest.param(POOL_3D, dims(grad_output=(1, 1, 9, 9, 9), indices=(1, 1, 9, 9, 9)), id="N and C of the 3-D one"),
        pytest.param(POOL_3D, dims(grad_output=(3, 4, 4, 4), indices=(3, 4, 4, 4)), id="ranks 4 and 5 mixed"),
        pytest.param(POOL_3D, tensors("indices", format=NCHW), id="format of 3-D indices"),
        pytest.param(POOL_2D, tensors("indices", format=NCHW), id="format of 2-D indices"),
        pytest.param(POOL_2D, dims(indices=(9, 9, 9)), id="shape of 2-D indices"),
        pytest.param(ADAPTIVE_2D, dims(grad_output=(2, 3, 9, 9), indices=(2, 3, 9, 9)), id="output larger than self"),
        pytest.param(ADAPTIVE_3D, dims(grad_output=(2, 3, 1, 1, 9), indices=(2, 3, 1, 1, 9)), id="one axis larger"),
        pytest.param(POOL_3D, given(dilation=[1, 2, 3]), id="dilation of 3-D"),
    ],
)
@pytest.mark.parametrize("soc", [A950, A2])
def test_not_refused_by_phase_1(api: str, change: Change, soc: str) -> None:
    assert code_of(api, change(legal(api)), soc) == 0


@pytest.mark.parametrize(
    "change",
    [
        given(kernel_size=[2], stride=[2], padding=[0], dilation=[1]),
        given(stride=[]),
        tensors(*ALL, format=NCHW),
        dims(self_=(2, 8, 8), grad_input=(2, 8, 8), grad_output=(2, 4, 4), indices=(2, 4, 4)),
    ],
)
def test_short_forms(aclnn: Aclnn, change: Change) -> None:
    assert aclnn.check(POOL_2D, change(legal(POOL_2D))) == 0


def test_channels_last(aclnn: Aclnn) -> None:
    shapes = dims(self_=(2, 8, 8, 3), grad_input=(2, 8, 8, 3), grad_output=(2, 4, 4, 3), indices=(2, 4, 4, 3))
    call = shapes(legal(POOL_2D))
    assert aclnn.check(POOL_2D, tensors(*ALL, format=NHWC)(call)) == 0
    assert aclnn.check(POOL_2D, call) == INVALID


@pytest.mark.parametrize(("soc", "code"), [(A950, 0), (A2, INVALID), (A3, INVALID)])
@pytest.mark.parametrize("api", [POOL_3D, ADAPTIVE_2D, ADAPTIVE_3D])
def test_planes_of_more_than_int32(api: str, soc: str, code: int) -> None:
    huge, one = ((1,) * AXES[api] + (last,) for last in (2**31, 1))
    call = dims(self_=huge, grad_input=huge, grad_output=one, indices=one)(legal(api))
    with current_device(soc) as aclnn:
        assert aclnn.check(api, call) == code
        assert code == 0 or "2147483648 elements" in (aclnn.message() or "")


@pytest.mark.parametrize("api", APIS)
def test_null_comes_before_all_else(aclnn: Aclnn, api: str) -> None:
    broken = given(kernel_size=[])(tensors("self_", dtype=DOUBLE)(legal(api)))
    assert aclnn.check(api, given(grad_input=None)(broken)) == NULLPTR
