# SPDX-License-Identifier: Apache-2.0

"""libaclnn_host phase 1 of the gradients of average pools: every check, its code, the order, and empty tensors."""

from __future__ import annotations

import numpy as np
import pytest

from tests.runtime.aclnn_ctypes import (
    ADAPTIVE_AVERAGE_2D,
    ADAPTIVE_AVERAGE_3D,
    AVERAGE_2D,
    AVERAGE_3D,
    AVERAGES,
    NC1HWC0,
    NCDHW,
    NCHW,
    NCL,
    ND,
    NDHWC,
    NHWC,
    Average,
    Tensor,
    current_device,
)
from tests.runtime.average_calls import A2, A3, A950
from tests.runtime.phase_one import (
    BF16,
    DOUBLE,
    FLOAT,
    HALF,
    INNER,
    INT32,
    INVALID,
    NULLPTR,
    Change,
    both,
    check_legal,
    code_of,
    dims,
    given,
    tensors,
)

NO_KERNEL, FAULT, FAILED = 561003, 507015, 561000
AXES = {AVERAGE_2D: 2, AVERAGE_3D: 3, ADAPTIVE_AVERAGE_2D: 2, ADAPTIVE_AVERAGE_3D: 3}
RESULT = {AVERAGE_2D: "gradInput", AVERAGE_3D: "output"}
WINDOWED = (AVERAGE_2D, AVERAGE_3D)
TENSORS = ("grad_output", "self_", "grad_input")


def legal(api: str) -> Average:
    """A call that every product with the function takes: 2x2(x2) windows on an 8x8(x8) plane. Nothing has memory."""
    axes = AXES[api]
    format_ = NCHW if axes == 2 else NCDHW
    x, y = (Tensor((2, 3) + (size,) * axes, FLOAT, format=format_) for size in (8, 4))
    return Average(y, x, x, kernel_size=[2] * axes, stride=[2] * axes, padding=[0] * axes)


def planes(grad_output: tuple[int, ...], x: tuple[int, ...]) -> Change:
    """Tensors of these shapes; `x` is that of self and of the result."""
    return dims(grad_output=grad_output, self_=x, grad_input=x)


BOTH = (A950, A2)

# Each check that fails alone, by product.
CODES: list[tuple[str, Change, int, tuple[str, ...]]] = [
    (AVERAGE_2D, tensors(*TENSORS, format=ND), INVALID, BOTH),
    (AVERAGE_2D, tensors(*TENSORS, format=NHWC), INVALID, BOTH),
    (AVERAGE_2D, tensors("self_", format=NCL), 0, BOTH),
    (AVERAGE_2D, tensors("grad_output", format=NCL), INVALID, BOTH),
    (AVERAGE_2D, tensors("grad_input", format=NCL), INVALID, BOTH),
    (AVERAGE_2D, both(planes((3, 4, 4), (3, 8, 8)), tensors(*TENSORS, format=NCL)), 0, BOTH),
    # Planes without N are viewed as NCL, but for the operator over three axes, whose result is ND.
    (AVERAGE_2D, planes((3, 4, 4), (3, 8, 8)), FAILED, (A950,)),
    (AVERAGE_2D, planes((3, 4, 4), (3, 8, 8)), 0, (A2, A3)),
    (AVERAGE_2D, both(planes((3, 4, 4), (3, 8, 8)), given(count_include_pad=True)), INVALID, (A2, A3)),
    (AVERAGE_2D, both(planes((3, 1, 1), (3, 10, 10)), given(kernel_size=[10])), INNER, BOTH),
    (AVERAGE_2D, dims(grad_output=(3, 4, 4)), INVALID, BOTH),
    (AVERAGE_2D, planes((4, 4), (8, 8)), INVALID, BOTH),
    (AVERAGE_2D, dims(self_=(2, 3, 8, 9)), INVALID, BOTH),
    (AVERAGE_2D, tensors("self_", dtype=HALF), 0, BOTH),
    (AVERAGE_2D, tensors("self_", dtype=INT32), INVALID, BOTH),
    (AVERAGE_2D, tensors("grad_output", dtype=HALF), INVALID, BOTH),
    (AVERAGE_2D, tensors("grad_input", dtype=DOUBLE), INVALID, BOTH),
    (AVERAGE_2D, given(kernel_size=[]), INVALID, BOTH),
    (AVERAGE_2D, given(kernel_size=[2, 2, 2]), INVALID, BOTH),
    (AVERAGE_2D, given(kernel_size=[2, 0]), INVALID, BOTH),
    (AVERAGE_2D, given(kernel_size=[2]), 0, BOTH),
    (AVERAGE_2D, given(stride=[]), 0, BOTH),
    (AVERAGE_2D, given(stride=[2]), 0, BOTH),
    (AVERAGE_2D, given(stride=[2, 2, 2]), INVALID, BOTH),
    (AVERAGE_2D, given(stride=[2, 0]), INVALID, BOTH),
    (AVERAGE_2D, given(padding=[]), INVALID, BOTH),
    (AVERAGE_2D, given(padding=[0]), 0, BOTH),
    (AVERAGE_2D, given(padding=[0, 0, 0]), INVALID, BOTH),
    (AVERAGE_2D, given(padding=[0, 2]), INVALID, BOTH),
    (AVERAGE_2D, given(padding=[0, -1]), INVALID, BOTH),
    (AVERAGE_2D, given(padding=[-1, 0], count_include_pad=True), INVALID, BOTH),
    (AVERAGE_2D, given(kernel_size=[2], padding=[0, -1]), INNER, (A950,)),
    (AVERAGE_2D, given(kernel_size=[2], padding=[0, -1]), INVALID, (A2, A3)),
    (AVERAGE_2D, given(kernel_size=[2], padding=[-1, 0]), INVALID, BOTH),
    (AVERAGE_2D, given(cube_math_type=3), 0, BOTH),
    (AVERAGE_2D, given(cube_math_type=4), INVALID, BOTH),
    (AVERAGE_2D, given(cube_math_type=-1), INVALID, BOTH),
    (AVERAGE_2D, given(divisor_override=-300), 0, BOTH),
    # The size of the gradient: by the tiling, by the cube, or by nobody.
    (AVERAGE_2D, dims(grad_output=(2, 3, 4, 3)), INNER, (A950,)),
    (AVERAGE_2D, dims(grad_output=(2, 3, 4, 3)), 0, (A2, A3)),
    (AVERAGE_2D, both(dims(grad_output=(2, 3, 4, 3)), given(count_include_pad=True)), INVALID, (A2,)),
    (AVERAGE_2D, dims(grad_output=(2, 1, 4, 4)), INNER, (A950,)),
    (AVERAGE_2D, dims(grad_output=(2, 1, 4, 4)), INVALID, (A2, A3)),
    (AVERAGE_2D, dims(grad_output=(3, 2, 4, 4)), 0, (A2, A3)),
    # The number of windows is rounded towards 0: one that is larger than the padded plane is one.
    (AVERAGE_2D, both(dims(grad_output=(2, 3, 1, 4)), given(kernel_size=[9, 2])), 0, BOTH),
    (AVERAGE_2D, both(dims(grad_output=(2, 3, 1, 4)), given(kernel_size=[10, 2])), INNER, (A950,)),
    (AVERAGE_2D, both(planes((2, 3, 1, 4), (2, 3, 4, 8)), given(kernel_size=[5, 2], count_include_pad=True)), 0, (A2,)),
    # A global pool looks neither at padding nor at strides, only at planes.
    (AVERAGE_2D, both(planes((2, 3, 1, 1), (2, 3, 10, 10)), given(kernel_size=[10], padding=[-3, 5])), 0, BOTH),
    (AVERAGE_2D, both(planes((2, 3, 1, 1), (2, 3, 9, 9)), given(kernel_size=[9], padding=[-3, 5])), INVALID, BOTH),
    (AVERAGE_2D, both(planes((2, 4, 1, 1), (2, 3, 10, 10)), given(kernel_size=[10])), INNER, BOTH),
    (AVERAGE_3D, tensors(*TENSORS, format=ND), 0, BOTH),
    (AVERAGE_3D, tensors(*TENSORS, format=NDHWC), 0, BOTH),
    (AVERAGE_3D, tensors("self_", format=NC1HWC0), 0, BOTH),
    (AVERAGE_3D, tensors("grad_output", format=ND), INVALID, BOTH),
    (AVERAGE_3D, tensors(*TENSORS, format=NC1HWC0), INVALID, BOTH),
    (AVERAGE_3D, dims(grad_output=(3, 4, 4, 4)), INVALID, BOTH),
    (AVERAGE_3D, planes((4, 4, 4), (8, 8, 8)), INVALID, BOTH),
    (AVERAGE_3D, planes((3, 4, 4, 4), (3, 8, 8, 8)), 0, BOTH),
    (AVERAGE_3D, dims(self_=(2, 3, 8, 8, 9)), INVALID, BOTH),
    (AVERAGE_3D, tensors("self_", dtype=HALF), 0, BOTH),
    (AVERAGE_3D, tensors("self_", dtype=DOUBLE), INVALID, BOTH),
    (AVERAGE_3D, tensors("grad_input", dtype=HALF), INNER, (A950,)),
    (AVERAGE_3D, given(kernel_size=[2, 2]), INVALID, BOTH),
    (AVERAGE_3D, given(kernel_size=[2, 2, 0]), INVALID, BOTH),
    (AVERAGE_3D, given(stride=[2, 2]), INVALID, BOTH),
    (AVERAGE_3D, given(stride=[]), 0, BOTH),
    (AVERAGE_3D, given(stride=[0]), INVALID, BOTH),
    (AVERAGE_3D, given(padding=[]), INVALID, BOTH),
    (AVERAGE_3D, given(padding=[0]), 0, BOTH),
    (AVERAGE_3D, given(padding=[-1]), INVALID, BOTH),
    (AVERAGE_3D, given(padding=[0, 0, 2]), INVALID, BOTH),
    (AVERAGE_3D, dims(grad_output=(2, 3, 4, 4, 3)), INVALID, BOTH),
    (AVERAGE_3D, both(dims(grad_output=(2, 3, 1, 4, 4)), given(kernel_size=[9, 2, 2])), 0, BOTH),
    (AVERAGE_3D, both(dims(grad_output=(2, 3, 1, 4, 4)), given(kernel_size=[10, 2, 2])), INVALID, BOTH),
    (AVERAGE_3D, dims(grad_output=(2, 1, 4, 4, 4)), INVALID, BOTH),
    (AVERAGE_3D, dims(grad_output=(2, 3, 0, 4, 4)), 0, BOTH),
    (AVERAGE_3D, both(dims(grad_output=(2, 3, 0, 4, 4)), given(padding=[9])), 0, BOTH),
    (ADAPTIVE_AVERAGE_2D, tensors(*TENSORS, format=ND), 0, BOTH),
    (ADAPTIVE_AVERAGE_2D, tensors(*TENSORS, format=NHWC), 0, BOTH),
    # Of the operators' results those that are ND fit any format.
    (ADAPTIVE_AVERAGE_2D, tensors("grad_input", format=NC1HWC0), INNER, BOTH),
    (ADAPTIVE_AVERAGE_2D, both(dims(grad_output=(2, 3, 1, 1)), tensors("grad_input", format=NC1HWC0)), 0, BOTH),
    (ADAPTIVE_AVERAGE_2D, both(planes((3, 4, 4), (3, 8, 8)), tensors("grad_input", format=NC1HWC0)), INNER, (A950,)),
    (ADAPTIVE_AVERAGE_2D, both(planes((3, 4, 4), (3, 8, 8)), tensors("grad_input", format=NC1HWC0)), 0, (A2, A3)),
    (ADAPTIVE_AVERAGE_2D, tensors("grad_output", "self_", format=ND), 0, BOTH),
    (ADAPTIVE_AVERAGE_2D, tensors("self_", format=ND), INVALID, BOTH),
    (ADAPTIVE_AVERAGE_2D, tensors(*TENSORS, format=NC1HWC0), INVALID, BOTH),
    (ADAPTIVE_AVERAGE_2D, tensors("self_", dtype=HALF), INVALID, BOTH),
    (ADAPTIVE_AVERAGE_2D, tensors(*TENSORS, dtype=DOUBLE), INVALID, BOTH),
    (ADAPTIVE_AVERAGE_2D, tensors("grad_input", dtype=HALF), INNER, (A950,)),
    (ADAPTIVE_AVERAGE_2D, dims(grad_output=(3, 4, 4)), INVALID, BOTH),
    (ADAPTIVE_AVERAGE_2D, dims(grad_output=(1, 3, 4, 4)), INVALID, BOTH),
    (ADAPTIVE_AVERAGE_2D, dims(grad_input=(1, 3, 8, 8)), INVALID, BOTH),
    (ADAPTIVE_AVERAGE_2D, dims(grad_input=(3, 8, 8)), INVALID, BOTH),
    (ADAPTIVE_AVERAGE_2D, planes((2, 2, 2, 1, 1), (2,) * 5), INVALID, BOTH),
    (ADAPTIVE_AVERAGE_2D, dims(grad_input=(2, 3, 8, 9)), INNER, BOTH),
    (ADAPTIVE_AVERAGE_2D, dims(grad_output=(2, 3, 9, 11)), 0, BOTH),
    (ADAPTIVE_AVERAGE_3D, tensors(*TENSORS, format=ND), 0, BOTH),
    (ADAPTIVE_AVERAGE_3D, tensors("self_", format=ND), INVALID, BOTH),
    (ADAPTIVE_AVERAGE_3D, tensors("grad_input", format=ND), INVALID, BOTH),
    (ADAPTIVE_AVERAGE_3D, tensors(*TENSORS, format=NC1HWC0), INVALID, BOTH),
    (ADAPTIVE_AVERAGE_3D, tensors("grad_input", dtype=HALF), INVALID, BOTH),
    (ADAPTIVE_AVERAGE_3D, tensors(*TENSORS, dtype=DOUBLE), INVALID, BOTH),
    (ADAPTIVE_AVERAGE_3D, both(tensors(*TENSORS, dtype=DOUBLE), dims(grad_output=(2, 3, 1, 1, 1))), 0, BOTH),
    (ADAPTIVE_AVERAGE_3D, dims(grad_output=(3, 4, 4, 4)), INVALID, BOTH),
    (ADAPTIVE_AVERAGE_3D, dims(grad_output=(2, 1, 4, 4, 4)), INVALID, BOTH),
    (ADAPTIVE_AVERAGE_3D, dims(grad_output=(2, 3, 0, 0, 1)), INVALID, BOTH),
    (ADAPTIVE_AVERAGE_3D, dims(self_=(2, 3, 0, 8, 8), grad_input=(2, 3, 0, 8, 8)), INVALID, BOTH),
    (ADAPTIVE_AVERAGE_3D, dims(grad_input=(2, 3, 8, 8, 9)), INVALID, BOTH),
    (ADAPTIVE_AVERAGE_3D, planes((3,) + (1,) * 5, (3,) * 6), INVALID, BOTH),
    # The batch may be empty on Ascend 950.
    (ADAPTIVE_AVERAGE_3D, planes((0, 3, 4, 4, 4), (0, 3, 8, 8, 8)), 0, (A950,)),
    (ADAPTIVE_AVERAGE_3D, planes((0, 3, 4, 4, 4), (0, 3, 8, 8, 8)), INVALID, (A2,)),
]  # fmt: skip


@pytest.mark.parametrize("api", AVERAGES)
def test_legal(api: str) -> None:
    check_legal(api, legal(api))


@pytest.mark.parametrize("number", range(len(CODES)))
def test_codes(number: int) -> None:
    api, change, code, socs = CODES[number]
    for soc in socs:
        assert code_of(api, change(legal(api)), soc) == code, soc


@pytest.mark.parametrize(
    ("api", "name"),
    [(api, name) for api in AVERAGES for name in TENSORS]
    + [(api, name) for api in WINDOWED for name in ("kernel_size", "stride", "padding")],
)
def test_null(api: str, name: str) -> None:
    with current_device() as aclnn:
        assert aclnn.check(api, given(**{name: None})(legal(api))) == NULLPTR
        words = name.rstrip("_").split("_")
        camel = words[0] + "".join(word.capitalize() for word in words[1:])
        shown = RESULT.get(api, "out") if name == "grad_input" else camel
        assert (aclnn.message() or "").startswith(f"{api}GetWorkspaceSize: {shown} is null")


@pytest.mark.parametrize("api", AVERAGES)
def test_dtypes(api: str) -> None:
    for soc in (A950, A2, A3, "Ascend910B", "Ascend310P3", "Ascend310B1"):
        with current_device(soc) as aclnn:
            for dtype in (FLOAT, HALF, BF16, DOUBLE, INT32):
                expected = 0 if soc in (A950, A2, A3) and dtype in (FLOAT, HALF, BF16) else INVALID
                assert aclnn.check(api, tensors(*TENSORS, dtype=dtype)(legal(api))) == expected, (soc, dtype)


# Two faults at a time: the code is that of the check that comes first.
@pytest.mark.parametrize(
    ("api", "change", "code"),
    [
        (AVERAGE_2D, both(given(padding=None), tensors("self_", dtype=INT32)), NULLPTR),
        (AVERAGE_3D, both(given(padding=[9], stride=None), tensors("self_", dtype=INT32)), NULLPTR),
        # 0 for an empty tensor stands before the checks of values, and after those of lengths.
        (AVERAGE_2D, both(given(padding=[-1, 0]), dims(grad_output=(2, 3, 0, 4))), 0),
        (AVERAGE_2D, both(given(padding=[2, 0]), dims(grad_output=(2, 3, 0, 4))), INVALID),
        (AVERAGE_3D, both(given(kernel_size=[0]), dims(grad_output=(2, 3, 0, 4, 4))), 0),
        (AVERAGE_3D, both(given(kernel_size=[2, 2]), dims(grad_output=(2, 3, 0, 4, 4))), INVALID),
        (ADAPTIVE_AVERAGE_2D, both(dims(grad_output=(2, 3, 0, 4)), dims(grad_input=(2, 3, 8, 9))), 0),
        (ADAPTIVE_AVERAGE_3D, both(given(self_=None), tensors("grad_output", dtype=INT32)), NULLPTR),
    ],
)
def test_order(api: str, change: Change, code: int) -> None:
    assert code_of(api, change(legal(api))) == code


@pytest.mark.parametrize("api", AVERAGES)
def test_empty_gradients_leave_the_result_as_it_is(api: str) -> None:
    if api == ADAPTIVE_AVERAGE_3D:
        pytest.skip("it refuses empty gradients")
    axes = AXES[api]
    grad, y = np.empty((2, 3, *[0] * axes), np.float32), np.full((2, 3, *[8] * axes), 7, np.float32)
    call = Average.of(grad, y.copy(), y, format=NCHW if axes == 2 else NCDHW, kernel_size=[2], padding=[0])
    with current_device() as aclnn:
        assert aclnn.run(api, call) == 0, aclnn.message()
    assert (y == 7).all()


def test_a_result_of_an_axis_without_elements() -> None:
    grad, y = np.ones((1, 1, 1, 1, 1), np.float32), np.empty((1, 1, 0, 1, 1), np.float32)
    call = Average.of(grad, y.copy(), y, format=NCDHW, kernel_size=[2, 1, 1], padding=[1, 0, 0])
    with current_device() as aclnn:
        assert aclnn.run(AVERAGE_3D, call) == 0, aclnn.message()


def test_sizes_that_nobody_checks_fault() -> None:
    grad, y = np.ones((2, 3, 4, 3), np.float32), np.full((2, 3, 8, 8), 7, np.float32)
    call = Average.of(grad, y.copy(), y, kernel_size=[2], padding=[0])
    with current_device(A2) as aclnn:
        assert aclnn.run(AVERAGE_2D, call) == FAULT
    assert (y == 7).all()


def test_double_has_no_kernel() -> None:
    grad, y = np.ones((2, 3, 1, 1, 1)), np.full((2, 3, 8, 8, 8), 7.0)
    with current_device() as aclnn:
        assert aclnn.run(ADAPTIVE_AVERAGE_3D, Average.of(grad, y.copy(), y, format=NCDHW)) == NO_KERNEL


def test_memory_that_elements_share() -> None:
    grad, y = np.ones((1, 1, 4, 4), np.float32), np.zeros((1, 1, 8, 8), np.float32)
    call = Average.of(grad, y.copy(), y, kernel_size=[2], padding=[0])
    shared = tensors("grad_input", strides=(64, 64, 0, 1))(call)
    outside = tensors("grad_input", offset=1)(call)
    with current_device() as aclnn:
        assert aclnn.run(AVERAGE_2D, shared) == FAULT
        assert aclnn.run(AVERAGE_2D, outside) == FAULT
