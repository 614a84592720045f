# SPDX-License-Identifier: Apache-2.0

"""The operators of domain `npu` for which the execution provider has kernels."""

from __future__ import annotations

from poolgrad_lowering.dialect.ops import OPS
from poolgrad_lowering.dialect.scalars import UNSQUEEZE_SCALARS

PROVIDER_OPERATORS = frozenset((*OPS, UNSQUEEZE_SCALARS))
"""Any other operator of the domain runs by its function body, or not at all."""
