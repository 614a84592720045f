# SPDX-License-Identifier: Apache-2.0

"""The cases of torch_npu's pools on the host library: what one process runs, and which processes there are."""

from __future__ import annotations

import itertools

from tests.harness.torch_npu.client import EXACT, QUEUES, SOCS, STRICT
from tests.torch_npu.average_pools import AveragePool, all_average_pools
from tests.torch_npu.pools import Pool, all_pools, refusal
from tests.torch_npu.tensors import DTYPES, LAYOUTS

HOST_MODES: dict[str, dict[str, str]] = {"lenient": {}, "strict": {**STRICT, **EXACT}}
PROCESSES = list(itertools.product(SOCS, QUEUES, HOST_MODES))


def cases(soc: str) -> list[tuple[Pool, str, str]]:
    """The pools that torch_npu runs on the product, each with every type and layout of tensors."""
    pools = [pool for pool in all_pools() if refusal(soc, pool) is None]
    return list(itertools.product(pools, DTYPES, LAYOUTS))


def average_cases() -> list[tuple[AveragePool, str, str]]:
    """The average pools whose gradients are torch's, each with every type and layout of tensors that CANN computes."""
    pools = [pool for pool in all_average_pools() if not pool.is_divided_by_kernel]
    return [case for case in itertools.product(pools, DTYPES, LAYOUTS) if not case[0].fails(case[1])]


def count_cases() -> int:
    """The number of cases of max pools of all processes, which docs/hardware.md tells."""
    return sum(len(cases(soc)) for soc, _, _ in PROCESSES)


def count_average_cases() -> int:
    """The number of cases of average pools of all processes."""
    return len(average_cases()) * len(PROCESSES)
