# SPDX-License-Identifier: Apache-2.0

"""The operators of domain `npu` for which the execution provider has kernels."""

from __future__ import annotations

from poolgrad_lowering.dialect.max_pool_ops import MAX_POOL_OPS
from poolgrad_lowering.dialect.scalars import UNSQUEEZE_SCALARS

PROVIDER_OPERATORS = frozenset((*(op.name for op in MAX_POOL_OPS), UNSQUEEZE_SCALARS))
"""Any other operator of the domain runs by its function body, or not at all. A test compares the runtime's routes."""
