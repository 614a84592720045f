# SPDX-License-Identifier: Apache-2.0

"""The table of the dialect: the ops of domain `npu`, family by family.

Schemas, function bodies, the rewrite and the documentation read this table.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from poolgrad_lowering.dialect.max_pool_ops import MAX_POOL_OPS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from poolgrad_lowering.dialect.op import Op

OPS: Mapping[str, Op] = MappingProxyType({op.name: op for op in (*MAX_POOL_OPS,)})
