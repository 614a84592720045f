# SPDX-License-Identifier: Apache-2.0

"""libaclnn_host phase 1 of the pools: every check, its code, their order, and the dtypes of each product."""

from __future__ import annotations

import dataclasses

import pytest

from tests.runtime.aclnn_ctypes import (
    ADAPTIVE_FORWARD_2D,
    ADAPTIVE_FORWARD_3D,
    FORWARD_2D,
    FORWARD_3D,
    NC1HWC0,
    NCDHW,
    NCHW,
    ND,
    NDHWC,
    NHWC,
    Aclnn,
    Forward,
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
    INT8,
    INT32,
    INT64,
    INVALID,
    NULLPTR,
    SOCS,
    WITHOUT,
    Change,
    both,
    check_legal,
    check_refused,
    code_of,
    dims,
    given,
    order,
    row,
    tensors,
)

WINDOWED, ADAPTIVE = (FORWARD_3D, FORWARD_2D), (ADAPTIVE_FORWARD_2D, ADAPTIVE_FORWARD_3D)
APIS = (*WINDOWED, *ADAPTIVE)
AXES = {FORWARD_3D: 3, FORWARD_2D: 2, ADAPTIVE_FORWARD_2D: 2, ADAPTIVE_FORWARD_3D: 3}
ALL = ("self_", "out", "indices")


def legal(api: str) -> Forward:
    """Return a call that every product accepts: 2x2(x2) windows on an 8x8(x8) plane. Phase 1 reads no data."""
    axes = AXES[api]
    format_ = NCDHW if axes == 3 else NCHW
    x, y = (Tensor((2, 3) + (size,) * axes, FLOAT, format=format_) for size in (8, 4))
    indices = dataclasses.replace(y, dtype=INT64 if api == ADAPTIVE_FORWARD_2D else INT32)
    return Forward(x, y, indices, kernel_size=[2] * axes, output_size=[4] * axes)


@pytest.mark.parametrize("api", APIS)
def test_legal(api: str) -> None:
    check_legal(api, legal(api))


@pytest.mark.parametrize("api", APIS)
def test_null(aclnn: Aclnn, api: str) -> None:
    names = [*ALL, *(("kernel_size", "stride", "padding", "dilation") if api in WINDOWED else ("output_size",))]
    broken = tensors("self_", dtype=INT8)(legal(api))
    for name in names:
        assert aclnn.check(api, given(**{name: None})(broken)) == NULLPTR
        assert "is null" in (aclnn.message() or "")


@pytest.mark.parametrize("soc", WITHOUT)
@pytest.mark.parametrize("api", APIS)
def test_products_without_the_function(api: str, soc: str) -> None:
    with current_device(soc) as aclnn:
        assert aclnn.check(api, legal(api)) == INVALID


def test_product_comes_before_null() -> None:
    with current_device("Ascend910A") as aclnn:
        assert aclnn.check(FORWARD_3D, given(self_=None)(legal(FORWARD_3D))) == INVALID
        assert aclnn.check(FORWARD_2D, given(self_=None)(legal(FORWARD_2D))) == NULLPTR


VALUE_TYPES = {FLOAT, HALF, BF16}
INDEX_TYPES = {
    (FORWARD_3D, A950): {INT32, INT64},
    (FORWARD_3D, A2): {INT32},
    (FORWARD_2D, A950): {INT32, INT64},
    (FORWARD_2D, A2): {INT32, INT64},
    (ADAPTIVE_FORWARD_2D, A950): {INT64},
    (ADAPTIVE_FORWARD_2D, A2): {INT64},
    (ADAPTIVE_FORWARD_3D, A950): {INT32, INT64},
    (ADAPTIVE_FORWARD_3D, A2): {INT32},
}


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("api", APIS)
def test_dtypes(api: str, soc: str) -> None:
    indices = INDEX_TYPES[api, A950 if soc == A950 else A2]
    values = VALUE_TYPES | ({DOUBLE} if api == ADAPTIVE_FORWARD_2D else set())
    with current_device(soc) as aclnn:
        for dtype in (FLOAT, HALF, BF16, DOUBLE, INT8, INT32, INT64):
            changed = tensors("self_", "out", dtype=dtype)(legal(api))
            assert aclnn.check(api, changed) == (0 if dtype in values else INVALID)
            changed = tensors("indices", dtype=dtype)(legal(api))
            assert aclnn.check(api, changed) == (0 if dtype in indices else INVALID)


D2, D3 = (ADAPTIVE_FORWARD_2D,), (ADAPTIVE_FORWARD_3D,)
PLANE = both(dims(**dict.fromkeys(ALL, (1, 1, 1, 1, 2**31))), given(output_size=[1, 1, 2**31]))
ONE = (1, 1, 1)
ROWS = [
    row("out dtype", APIS, tensors("out", dtype=HALF), "out has dtype FLOAT16"),
    row("out format", WINDOWED, tensors("out", format=ND), "out has format ND"),
    row("indices format", (FORWARD_3D,), tensors("indices", format=ND), "indices has format ND"),
    row("private format", WINDOWED, tensors(*ALL, format=NC1HWC0), "private format NC1HWC0"),
    row("format of 3-D", (FORWARD_3D,), tensors(*ALL, format=NHWC), "self has format NHWC", (A950,)),
    row("ND adaptive 3-D", D3, tensors(*ALL, format=ND), "self has format ND", (A2, A3)),
    row("ND out of adaptive 3-D", D3, tensors("out", format=ND), "out has format ND"),
    row("NCHW out of adaptive 3-D", D3, tensors("out", format=NCHW), "out has format NCHW"),
    row("ND and DOUBLE", D2, both(tensors("self_", "out", dtype=DOUBLE), tensors(*ALL, format=ND)),
        "self has format ND", code=INNER),
    row("NHWC adaptive 3-D", D3, tensors("self_", format=NHWC), "self has format NHWC"),
    row("NHWC adaptive 2-D", D2, both(tensors(*ALL, format=NHWC), dims(out=(2, 3, 4, 4))), "self has format NHWC",
        code=INNER),
    row("NHWC adaptive 2-D, no batch", D2, both(tensors(*ALL, format=NHWC), dims(self_=(3, 8, 8), out=(3, 4, 4),
        indices=(3, 4, 4))), "self has format NHWC", code=INNER),
    row("NHWC and DOUBLE", D2, both(tensors("self_", "out", dtype=DOUBLE), tensors(*ALL, format=NHWC)),
        "self has format NHWC", code=INNER),
    row("empty out of adaptive 2-D", D2, dims(out=(2, 3, 0, 4), indices=(2, 3, 0, 4)), "out has shape [2, 3, 0, 4]",
        code=INNER),
    row("NDHWC", (FORWARD_3D,), tensors(*ALL, format=NDHWC), "self has format NDHWC", (A2, A3)),
    row("NDHWC of its own shape", (FORWARD_3D,), both(tensors(*ALL, format=NDHWC), dims(out=(2, 1, 4, 4, 8),
        indices=(2, 1, 4, 4, 8))), "self has format NDHWC", (A2, A3)),
    row("rank 2", WINDOWED, dims(self_=(8, 8)), "self has shape [8, 8]"),
    row("rank 6", APIS, dims(out=(1,) * 6, indices=(1,) * 6), "out has shape [1, 1, 1, 1, 1, 1]"),
    row("kernel length", WINDOWED, given(kernel_size=[2] * 4), "kernelSize is [2, 2, 2, 2]"),
    row("no kernel", WINDOWED, given(kernel_size=[]), "kernelSize is []"),
    row("kernel 0", WINDOWED, given(kernel_size=[0]), "kernelSize is [0]"),
    row("stride length", WINDOWED, given(stride=[2] * 4), "stride is [2, 2, 2, 2]"),
    row("stride 0", WINDOWED, given(stride=[0]), "stride is [0]"),
    row("padding length", WINDOWED, given(padding=[]), "padding is []"),
    row("padding negative", WINDOWED, given(padding=[-1]), "padding is [-1]"),
    row("padding over half", WINDOWED, given(padding=[2]), "padding is [2]"),
    row("dilation length", WINDOWED, given(dilation=[]), "dilation is []"),
    row("dilation 2", WINDOWED, given(dilation=[2]), "dilation is [2]", (A2, A3)),
    row("dilation 0", (FORWARD_2D,), given(dilation=[0]), "dilation is [0]"),
    row("no channel", (FORWARD_2D,), dims(self_=(2, 0, 8, 8)), "no dimension but the batch"),
    row("no row", D2, dims(self_=(2, 3, 0, 8)), "no dimension but the first"),
    row("no row 3-D", D3, dims(self_=(2, 3, 8, 0, 8)), "no dimension but the first"),
    row("out shape 3-D", (FORWARD_3D,), dims(out=(2, 3, 4, 4, 5)), "out has shape [2, 3, 4, 4, 5]"),
    row("out shape 2-D", (FORWARD_2D,), dims(out=(2, 3, 4, 5)), "pooling self gives [2, 3, 4, 4]"),
    row("indices shape 3-D", (FORWARD_3D,), dims(indices=(2, 3, 4, 4, 5)), "indices has shape [2, 3, 4, 4, 5]"),
    row("indices shape 2-D", (FORWARD_2D,), dims(indices=(2, 3, 4, 5)), "indices has shape [2, 3, 4, 5]"),
    row("one element, other rank", (FORWARD_2D,), dims(self_=(1, 1, 2, 2), out=ONE, indices=ONE), "out has shape"),
    row("one index, other rank", (FORWARD_2D,), dims(self_=(1, 1, 2, 2), out=(1, *ONE), indices=ONE),
        "indices has shape [1, 1"),
    row("channels", (FORWARD_2D,), dims(out=(2, 2, 4, 4)), "out has shape [2, 2, 4, 4]"),
    row("window over plane", WINDOWED, given(kernel_size=[9]), "do not fit"),
    row("huge window", WINDOWED, given(kernel_size=[2**62], stride=[2**62]), "do not fit"),
    row("plane 3-D", (FORWARD_3D,), PLANE, "2147483648 elements", (A2, A3), code=INNER),
    row("plane adaptive 3-D", D3, PLANE, "2147483648 elements"),
    row("indices of adaptive 2-D", D2, dims(indices=(2, 3, 4, 5)), "indices has shape [2, 3, 4, 5]"),
    row("indices of adaptive 3-D", D3, dims(indices=(2, 3, 5, 4, 4)), "indices has shape [2, 3, 5, 4, 4]"),
    row("last size of adaptive indices", D3, dims(indices=(2, 3, 4, 4, 5)), "indices has shape [2, 3, 4, 4, 5]"),
    row("output_size length", ADAPTIVE, given(output_size=[4] * 4), "outputSize is [4, 4, 4, 4]"),
    row("one output size", ADAPTIVE, given(output_size=[4]), "outputSize is [4]", (A2, A3)),
    row("one output size 2-D", D2, given(output_size=[4]), "outputSize is [4]", (A950,)),
    row("output size 0", D2, given(output_size=[0, 4]), "outputSize is [0, 4]"),
    row("output size 0 3-D", D3, both(dims(out=(2, 3, 4, 4, 0), indices=(2, 3, 4, 4, 0)), given(output_size=[4, 4, 0])),
        "outputSize is [4, 4, 0]"),
    row("out of adaptive 2-D", D2, given(output_size=[4, 5]), "gives [2, 3, 4, 5]", code=INNER),
    row("out of adaptive 3-D", D3, given(output_size=[5, 4, 4]), "gives [2, 3, 5, 4, 4]"),
    row("channels of adaptive 3-D", D3, dims(self_=(2, 5, 8, 8, 8)), "gives [2, 5, 4, 4, 4]"),
    row("sizes of adaptive 3-D where self is empty", D3, dims(self_=(0, 3, 8, 8, 8)), "gives [0, 3, 4, 4, 4]"),
    # of two checks that fail the first in CANN's order decides, which the message tells
    order("indices, out", FORWARD_3D, A950, "indices has dtype", tensors("out", "indices", dtype=HALF)),
    order("out, indices", FORWARD_2D, A950, "out has dtype", tensors("out", "indices", dtype=HALF)),
    order("formats, ranks", FORWARD_3D, A950, "has format", tensors("out", format=ND), dims(self_=(8, 8))),
    order("ranks, lists", FORWARD_3D, A950, "self has shape", given(kernel_size=[0]), dims(self_=(8, 8))),
    order("list by list", FORWARD_3D, A950, "kernelSize is [0]", given(kernel_size=[0], stride=[1] * 4)),
    order("lengths, values", FORWARD_2D, A950, "stride is", given(kernel_size=[0], stride=[1] * 4)),
    order("lists, shapes", FORWARD_3D, A2, "dilation is", given(dilation=[2]), dims(out=(1,) * 5)),
    order("shape, output size", ADAPTIVE_FORWARD_2D, A2, "indices has", dims(out=(1,) * 4), given(output_size=[0, 0])),
    order("output size, plane", ADAPTIVE_FORWARD_3D, A2, "outputSize is []", PLANE, given(output_size=[])),
    order("out shape, empty axis", ADAPTIVE_FORWARD_3D, A2, "gives", dims(self_=(2, 5, 0, 8, 8))),
]  # fmt: skip


@pytest.mark.parametrize(("apis", "change", "message", "socs", "code"), ROWS)
def test_invalid(apis: tuple[str, ...], change: Change, message: str, socs: tuple[str, ...], code: int) -> None:
    check_refused(lambda api: change(legal(api)), apis, message, socs, code)


@pytest.mark.parametrize(
    ("api", "change", "soc"),
    [
        pytest.param(FORWARD_2D, tensors("indices", format=ND), A2, id="format of 2-D indices"),
        pytest.param(FORWARD_3D, tensors(*ALL, format=NHWC), A2, id="format of 3-D on A2"),
        pytest.param(ADAPTIVE_FORWARD_3D, tensors(*ALL, format=ND), A950, id="ND adaptive 3-D on 950"),
        pytest.param(ADAPTIVE_FORWARD_3D, tensors("indices", format=ND), A2, id="format of adaptive 3-D indices"),
        pytest.param(
            ADAPTIVE_FORWARD_3D,
            both(dims(self_=(1, 1, 2, 2, 2), indices=(1,) * 4, out=(1,) * 5), given(output_size=[1, 1, 1])),
            A2,
            id="one adaptive index, other rank",
        ),
        pytest.param(
            ADAPTIVE_FORWARD_2D,
            both(
                tensors("self_", "out", dtype=DOUBLE, format=ND),
                dims(self_=(3, 8, 8), out=(3, 4, 4), indices=(3, 4, 4)),
            ),
            A2,
            id="DOUBLE and ND of rank 3",
        ),
        pytest.param(
            FORWARD_3D, dims(self_=(1, 1, 2, 2, 2), out=(1,) * 4, indices=(1,) * 4), A950, id="one element, other rank"
        ),
        pytest.param(FORWARD_3D, dims(self_=(0, 3, 8, 8, 8)), A2, id="shapes where self is empty"),
        pytest.param(ADAPTIVE_FORWARD_2D, dims(self_=(0, 3, 8, 8)), A2, id="sizes where self is empty"),
        pytest.param(
            ADAPTIVE_FORWARD_2D,
            both(tensors(*ALL, format=NHWC), dims(self_=(0, 3, 8, 8))),
            A2,
            id="NHWC, self is empty",
        ),
        pytest.param(
            FORWARD_3D, both(tensors(*ALL, format=NDHWC), dims(self_=(0, 3, 8, 8, 8))), A2, id="NDHWC, self is empty"
        ),
        pytest.param(FORWARD_2D, given(stride=[], padding=[0, 0], dilation=[1, 1]), A2, id="short lists"),
    ],
)
def test_not_refused(api: str, change: Change, soc: str) -> None:
    assert code_of(api, change(legal(api)), soc) == 0
