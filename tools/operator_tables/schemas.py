# SPDX-License-Identifier: Apache-2.0

"""The names of operators in the JSON schemas."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from poolgrad_lowering.dialect import Op


def with_names(text: str, ops: Iterable[Op], record: str, *, gradient: str, pool: str) -> str:
    """Return a schema with the names of the operators in these fields of a record."""
    schema: dict[str, Any] = json.loads(text)
    ops = list(ops)
    gradients, pools = ([op.name for op in ops if op.is_gradient == is_gradient] for is_gradient in (True, False))
    fields = schema["$defs"][record]["properties"]
    fields[gradient]["enum"] = [*gradients, None]
    fields[pool]["enum"] = [*pools, None]
    fields["alternatives"]["items"]["enum"] = gradients
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
