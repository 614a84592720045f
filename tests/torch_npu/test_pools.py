# SPDX-License-Identifier: Apache-2.0

"""torch_npu's pools and their gradients on the host library, against torch's CPU kernels and the definition: same bits.

One process runs all pools with every type and layout of tensors, for a product, a mode of torch_npu's queue and a mode
of the host library.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.harness.torch_npu.client import ASCEND_950, SOCS, STRICT, run_client, start
from tests.oracles import assert_same_bits
from tests.pool_models import values_with_ties
from tests.torch_npu.cases import HOST_MODES, PROCESSES, cases
from tests.torch_npu.pools import Pool, all_pools, refusal
from tests.torch_npu.tensors import DTYPES, on_npu, plane_indices, to_array, to_tensor

pytestmark = pytest.mark.torch_npu


def check_pool(torch: Any, soc: str, case: tuple[Pool, str, str], seed: int) -> None:
    """Run a pool and its gradient on the NPU, and compare them."""
    pool, dtype, layout = case
    function = getattr(torch.nn.functional, pool.function)
    x = values_with_ties(pool.shape, np.float32, seed)
    x.reshape(-1)[seed % x.size] = np.nan
    x = x.astype(DTYPES[dtype])
    y, indices = pool.expected(x)
    rng = np.random.default_rng(seed)
    # Sums of these integers are exact in every type and order; without an order they are all that can be compared.
    ordered = seed % 2 == 0
    drawn = rng.standard_normal(y.shape) if ordered else rng.integers(-3, 4, y.shape)
    dy = drawn.astype(np.float32).astype(DTYPES[dtype])
    torch.use_deterministic_algorithms(ordered)
    reverse = ordered and soc != ASCEND_950 and not pool.is_adaptive

    leaf = on_npu(torch, x, layout, pool.rank).requires_grad_()
    found, found_indices = function(leaf, return_indices=True, **pool.arguments)
    [gradient] = torch.autograd.grad(found, leaf, on_npu(torch, dy, layout, pool.rank))
    assert_same_bits(to_array(torch, found), y)
    assert_same_bits(plane_indices(torch, found_indices, y.shape), indices)
    assert_same_bits(to_array(torch, gradient), pool.expected_gradient(dy, indices, reverse=reverse))

    cpu_leaf = to_tensor(torch, x).requires_grad_()
    on_cpu, cpu_indices = function(cpu_leaf, return_indices=True, **pool.arguments)
    [cpu_gradient] = torch.autograd.grad(on_cpu, cpu_leaf, to_tensor(torch, dy))
    assert_same_bits(to_array(torch, found), to_array(torch, on_cpu))
    assert_same_bits(indices, to_array(torch, cpu_indices))
    # The sums of torch's CPU kernels are in row-major order and rounded after each addition.
    if not ordered or (dtype == "float32" and not reverse):
        assert_same_bits(to_array(torch, gradient), to_array(torch, cpu_gradient))


def check_pools(soc: str) -> int:
    torch = start()
    for seed, case in enumerate(cases(soc)):
        check_case(torch, soc, case, seed)
    return len(cases(soc))


def check_case(torch: Any, soc: str, case: tuple[Pool, str, str], seed: int) -> None:
    try:
        check_pool(torch, soc, case, seed)
    except Exception as error:
        raise AssertionError(f"{case}, {seed=}") from error


def check_refusals(soc: str) -> int:
    torch = start()
    count = 0
    for pool in all_pools():
        message = refusal(soc, pool)
        if message is None:
            continue
        with pytest.raises(RuntimeError, match=message):
            getattr(torch.nn.functional, pool.function)(torch.zeros(pool.shape).npu(), **pool.arguments)
        count += 1
    check_pool(torch, soc, (all_pools()[0], "float32", "contiguous"), 0)  # as before
    return count


@pytest.mark.parametrize(("soc", "queue", "host_mode"), PROCESSES)
def test_pools(soc: str, queue: str, host_mode: str) -> None:
    assert run_client(check_pools, soc, soc=soc, queue=queue, **HOST_MODES[host_mode]) == len(cases(soc))


@pytest.mark.parametrize("soc", SOCS)
def test_refusals(soc: str) -> None:
    """Without the queue, on which errors would be found later."""
    refused = sum(refusal(soc, pool) is not None for pool in all_pools())
    assert run_client(check_refusals, soc, soc=soc, queue="0", **STRICT) == refused
