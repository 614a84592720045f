# SPDX-License-Identifier: Apache-2.0

"""How calls of torch_npu and of sessions differ for the gradient of the same average pool, and why."""

from __future__ import annotations

from tests.torch_npu.average_pools import AveragePool
from tests.torch_npu.differences import EXPLICIT_STRIDE, STORAGE, Call, Difference, OneSided, with_shapes


def with_batch(call: Call, pool: AveragePool) -> Call:
    return call if pool.is_batched else with_shapes(call, lambda dims: [1, *dims])


def with_divisor_of_the_window(call: Call, pool: AveragePool) -> Call:
    return call | {"divisorOverride": int(pool.divisors.max())} if pool.is_divided_by_kernel else call


DIFFERENCES = (
    EXPLICIT_STRIDE,
    Difference(
        "batch",
        "x without a batch: one axis less",
        "a batch of 1",
        "ONNX's pools always have a batch. The planes are the same, and the format follows from the number of axes.",
        with_batch,
    ),
    Difference(
        "one window over all of a plane and its padding, 10 elements and more along both axes",
        "no divisor: CANN divides by all elements of the kernel, although the padding does not count",
        "the number of elements that the window counts, as `divisorOverride`",
        "The compiler and the provider pass the divisor where CANN's own is not that of the pool. torch_npu's gradient "
        "is not that of torch there.",
        with_divisor_of_the_window,
    ),
    STORAGE,
)

ONE_SIDED = (
    OneSided(
        "more windows than elements",
        "the call",
        "no call: function body",
        "As for max pools.",
        lambda pool: pool.enlarges,
        torch_npu_calls=True,
        session_calls=False,
    ),
    OneSided(
        "window larger than x with its padding",
        "the call",
        "no call: the compiler refuses it (`output-size`)",
        "No window fits; PyTorch has one in `ceil_mode`.",
        lambda pool: pool.exceeds,
        torch_npu_calls=True,
        session_calls=False,
    ),
)
