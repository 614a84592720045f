# SPDX-License-Identifier: Apache-2.0

"""The table of the dialect: the ops of domain `npu`, family by family.

Schemas, function bodies, the rewrite and the documentation read this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from poolgrad_lowering.dialect.average_pool_ops import AVERAGE_POOL_OPS
from poolgrad_lowering.dialect.max_pool_ops import MAX_POOL_OPS
from poolgrad_lowering.dialect.op import Op
from poolgrad_lowering.dialect.scalars import UNSQUEEZE_SCALARS

OPS: Mapping[str, Op] = MappingProxyType({op.name: op for op in (*MAX_POOL_OPS, *AVERAGE_POOL_OPS)})

PROVIDER_OPERATORS = frozenset((*OPS, UNSQUEEZE_SCALARS))
"""The operators of the domain for which the execution provider has kernels; a test compares the runtime's routes."""
