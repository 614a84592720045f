# SPDX-License-Identifier: Apache-2.0

"""libaclnn_host against torch over random windows, sizes and types: pools and their gradients, bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.generators.windows import AdaptiveWindows, PoolWindows, adaptive_windows, pool_windows
from tests.oracles import assert_same_bits
from tests.runtime.aclnn_ctypes import (
    ADAPTIVE_2D,
    ADAPTIVE_3D,
    ADAPTIVE_FORWARD_2D,
    ADAPTIVE_FORWARD_3D,
    FORWARD_2D,
    FORWARD_3D,
    POOL_2D,
    POOL_3D,
    Aclnn,
    Backward,
    Forward,
)
from tests.runtime.strict_device import StrictDevice

Array = npt.NDArray[Any]
WINDOWED = {2: (FORWARD_2D, POOL_2D, "max_pool2d"), 3: (FORWARD_3D, POOL_3D, "max_pool3d")}
ADAPTIVE = {
    2: (ADAPTIVE_FORWARD_2D, ADAPTIVE_2D, "adaptive_max_pool2d"),
    3: (ADAPTIVE_FORWARD_3D, ADAPTIVE_3D, "adaptive_max_pool3d"),
}
SOME = settings(
    max_examples=150,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
MANY = settings(SOME, max_examples=5000)


Either = Aclnn | StrictDevice


@dataclass(frozen=True)
class Case:
    """A pool over x of `shape`, of the values that x and dy repeat; no dtype of numpy's, but torch's name of it."""

    shape: tuple[int, ...]
    windows: PoolWindows | AdaptiveWindows
    dtype: str
    values: tuple[float, ...]
    terms: tuple[float, ...]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rank = draw(st.integers(2, 3))
    sizes = draw(st.lists(st.integers(1, 12 if rank == 2 else 7), min_size=rank, max_size=rank))
    windowed = pool_windows(sizes, opset=18, symmetric=True, automatic=False)
    windows = draw(windowed if draw(st.integers(0, 3)) else adaptive_windows(sizes))
    shape = (draw(st.integers(1, 3)), draw(st.integers(1, 4)), *sizes)
    # Small integers: their sums are exact in every type, and the order in which torch adds does not matter.
    values = st.sampled_from((0.0, -0.0, 1.0, -1.0, 2.0, float("inf"), float("-inf"), float("nan")))
    lists = (st.lists(held, min_size=1, max_size=13).map(tuple) for held in (values, st.integers(-8, 8).map(float)))
    return Case(shape, windows, draw(st.sampled_from(("float32", "float16", "bfloat16"))), *map(draw, lists))


def arguments(windows: PoolWindows | AdaptiveWindows) -> dict[str, Any]:
    """The windows, named alike by torch and by aclnn."""
    if isinstance(windows, AdaptiveWindows):
        return {"output_size": list(windows.counts)}
    rank = len(windows.axes)
    lists = {"kernel_size": windows.kernel, "stride": windows.strides, "dilation": windows.dilations}
    return {**lists, "padding": windows.pads[:rank], "ceil_mode": windows.ceil}


def check(either: Either, case: Case) -> None:
    torch = pytest.importorskip("torch")
    adaptive = isinstance(case.windows, AdaptiveWindows)
    forward, backward, name = (ADAPTIVE if adaptive else WINDOWED)[len(case.shape) - 2]
    told = arguments(case.windows)
    dtype = np.dtype(case.dtype)
    x = np.resize(np.array(case.values, np.float32), case.shape)
    leaf = torch.from_numpy(x).to(getattr(torch, case.dtype)).requires_grad_()
    pooled, recorded = getattr(torch.nn.functional, name)(leaf, return_indices=True, **told)
    dy = np.resize(np.array(case.terms, np.float32), tuple(pooled.shape))
    pooled.backward(torch.from_numpy(dy).to(pooled.dtype))

    x, dy = x.astype(dtype), dy.astype(dtype)
    index_type = np.int64 if forward == ADAPTIVE_FORWARD_2D else np.int32
    y, indices = np.full(dy.shape, 7, dtype), np.full(dy.shape, -7, index_type)
    assert either.run(forward, Forward.of(x, y, indices, **told)) == 0, either.message()
    assert_same_bits(y, pooled.detach().float().numpy().astype(dtype))
    assert_same_bits(indices.astype(np.int64), recorded.numpy())
    dx = np.full_like(x, 7)
    lists = {} if adaptive else told
    assert either.run(backward, Backward.of(dy, x, indices, dx, **lists)) == 0, either.message()
    assert_same_bits(dx, leaf.grad.float().numpy().astype(dtype))


@SOME
@given(cases())
def test_random_pools(either: Either, case: Case) -> None:
    check(either, case)


@pytest.mark.long
@MANY
@given(cases())
def test_many_random_pools(either: Either, case: Case) -> None:
    check(either, case)
