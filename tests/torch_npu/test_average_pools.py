# SPDX-License-Identifier: Apache-2.0

"""torch_npu's gradients of average pools on the host library, against the product's arithmetic and torch's CPU kernels.

One process runs all pools with every type and layout of tensors, for a product, a mode of torch_npu's queue and a mode
of the host library.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from tests.harness.torch_npu.client import ASCEND_950, SOCS, STRICT, run_client, start
from tests.oracles import assert_same_bits
from tests.torch_npu.average_pools import (
    PADDED_GLOBAL,
    AveragePool,
    arithmetic,
)
from tests.torch_npu.cases import HOST_MODES, PROCESSES, average_cases
from tests.torch_npu.tensors import DTYPES, on_npu, to_array, to_tensor

pytestmark = pytest.mark.torch_npu

UNIT_ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
LEAST = {"float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133}
"""The smallest positive number: the distance of subnormal ones, which have no relative accuracy."""
BITS_OF_SUMS = 8
"""In every type sums of as many bits are exact."""


def is_strict() -> bool:
    """Whether this process runs the host library in strict mode."""
    return "ACLNN_HOST_STRICT" in os.environ


def draw(pool: AveragePool, seed: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Random numbers, or numbers whose quotients and sums are exact for many pools."""
    rng = np.random.default_rng(seed)
    drawn = rng.standard_normal(pool.grad_shape) if seed % 2 == 0 else rng.integers(-1, 2, pool.grad_shape)
    return drawn.astype(np.float32)


def is_exact(pool: AveragePool, dy: np.ndarray[Any, Any]) -> bool:
    """Whether quotients by powers of two, and all of their sums, are exact in every type and order."""
    largest = int(pool.divisors.max())
    if any(divisor & (divisor - 1) for divisor in map(int, pool.divisors.reshape(-1))):
        return False
    are_integers = bool((dy == np.round(dy)).all())
    return are_integers and pool.sums_of_magnitudes(dy).max() * largest <= 2**BITS_OF_SUMS


def bound(pool: AveragePool, soc: str, dtype: str, magnitudes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """How far a result may be from torch's; None if it has to have the same bits.

    Both sum the terms in float32: each sum rounds once less than it has terms. The library's lenient mode sums in
    torch's order, strict mode perhaps in another. Both are rounded to the element type at last.
    """
    how, unit = arithmetic(pool, soc, DTYPES[dtype]), UNIT_ROUNDOFF[dtype]
    additions = pool.most_windows - 1
    if how.roundings == 0 and (additions == 0 or not is_strict()):
        return None
    relative = (how.roundings + 2 * additions) * UNIT_ROUNDOFF["float32"] + how.rounds_reciprocal * unit
    if dtype != "float32":
        relative += 2 * unit
    second_order = 1.01
    return np.asarray(second_order * relative * magnitudes.astype(np.float64) + LEAST[dtype])


def check_pool(torch: Any, soc: str, case: tuple[AveragePool, str, str], seed: int) -> bool:
    """Run a gradient on the NPU, and compare it; return whether it had to have the bits of torch's CPU kernel."""
    pool, dtype, layout = case
    dy = draw(pool, seed).astype(DTYPES[dtype])
    deterministic = seed % 4 < 2
    torch.use_deterministic_algorithms(deterministic)
    tensors = (np.zeros(pool.shape, dy.dtype), dy)
    x, grad = (on_npu(torch, array, layout, pool.rank) for array in tensors)
    found = to_array(torch, pool.gradient(torch, grad, x))
    # Strict mode sums in reverse where CANN promises no order. Operators of Atlas A2 and A3 that add by atomics do, in
    # deterministic mode; whether one of two axes runs on the cube is not told apart here.
    has_order = deterministic and soc != ASCEND_950 and (pool.rank == 3 or pool.is_adaptive)
    reversals = (False, True) if is_strict() and not has_order else (False,)
    orders = [pool.expected(dy, soc, reverse=reverse) for reverse in reversals]
    assert found.tobytes() in [each.tobytes() for each in orders], (found, orders)

    wide = dy.astype(np.float32)
    on_cpu = pool.gradient(torch, to_tensor(torch, wide), torch.zeros(pool.shape))
    of_torch = to_array(torch, on_cpu).astype(dy.dtype)
    limit = bound(pool, soc, dtype, pool.sums_of_magnitudes(dy))
    if limit is None or is_exact(pool, wide):
        assert_same_bits(found, of_torch)
        return True
    distance = np.abs(found.astype(np.float64) - of_torch.astype(np.float64))
    assert (distance <= limit).all(), (distance.max(), limit.max())
    return False


def check_pools(soc: str) -> tuple[int, int]:
    """Run all cases; return how many there were, and how many had the bits of torch's CPU kernels by necessity."""
    torch, drawn = start(), average_cases()
    return len(drawn), sum(check_case(torch, soc, case, seed) for seed, case in enumerate(drawn))


def check_case(torch: Any, soc: str, case: tuple[AveragePool, str, str], seed: int) -> bool:
    try:
        return check_pool(torch, soc, case, seed)
    except Exception as error:
        raise AssertionError(f"{case}, {seed=}") from error


def check_padded_globals() -> list[float]:
    """The quotient of torch's gradient and of torch_npu's, of each pool."""
    torch, quotients = start(), []
    for pool in PADDED_GLOBAL:
        x, dy = torch.zeros(pool.shape), torch.ones(pool.grad_shape)
        found, of_torch = (
            to_array(torch, pool.gradient(torch, *tensors)) for tensors in ((dy.npu(), x.npu()), (dy, x))
        )
        inside = of_torch != 0
        quotients.append(float((of_torch[inside] / found[inside]).mean()))
    return quotients


@pytest.mark.parametrize(("soc", "queue", "host_mode"), PROCESSES)
def test_gradients(soc: str, queue: str, host_mode: str) -> None:
    count, same = run_client(check_pools, soc, soc=soc, queue=queue, **HOST_MODES[host_mode])
    assert count == len(average_cases())
    assert same > count // 6


@pytest.mark.parametrize("soc", SOCS)
def test_windows_over_padding_and_all_of_a_plane(soc: str) -> None:
    """CANN divides by all elements of the kernel, torch by those that the window counts."""
    quotients = run_client(check_padded_globals, soc=soc, **STRICT)
    expected = [np.prod(pool.case.ksize) / pool.divisors.max() for pool in PADDED_GLOBAL]
    np.testing.assert_allclose(quotients, expected, rtol=1e-6)
