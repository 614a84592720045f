# SPDX-License-Identifier: Apache-2.0

"""What results are held against: definitions written with numpy, onnx's reference evaluator, onnxruntime's CPU.

Nothing here may import the compiler or the runtime that it judges.
"""

from __future__ import annotations

from tests.oracles.bits import assert_same_bits
from tests.oracles.pooling import (
    adaptive_windows,
    ascend_pool,
    max_pool,
    max_pool_indices,
    pool_gradient,
    pool_windows,
    same_pads,
)
from tests.oracles.running import optimized_by_ort, run_ort, run_reference

__all__ = [
    "adaptive_windows",
    "ascend_pool",
    "assert_same_bits",
    "max_pool",
    "max_pool_indices",
    "optimized_by_ort",
    "pool_gradient",
    "pool_windows",
    "run_ort",
    "run_reference",
    "same_pads",
]
