# SPDX-License-Identifier: Apache-2.0

"""The compiler names the functions that the runtime calls: its table is that of the runtime's routes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from poolgrad_lowering.dialect import OPS
from poolgrad_lowering.dialect.ops import PROVIDER_OPERATORS
from poolgrad_lowering.dialect.scalars import UNSQUEEZE_SCALARS
from poolgrad_lowering.dialect.targets import TARGETS, aclnn_function, aclnn_functions
from tools.soc_table import aclnn_product

SOURCES = Path(__file__).parent.parent.parent.parent / "runtime" / "src"
ROUTE = re.compile(r'\{"(\w+)", Product::(\w+), (\d), (\d), Entry::k(\w+),\s+IndexTypes::(\w+),')
ROUTES = ROUTE.findall((SOURCES / "ep" / "routes.cpp").read_text(encoding="utf-8"))


def routed(op: str, product: str, rank: int) -> str:
    """The function of the first route that takes an int32 argmax, as the C++ sources have it."""
    found = (
        f"aclnn{entry}"
        for name, of, least, most, entry, types in ROUTES
        if (name, of) == (op, product) and int(least) <= rank <= int(most) and types != "kInt64"
    )
    return next(found, f"no row of runtime/src/ep/routes.cpp for {op} on {product} and tensors of rank {rank}")


@pytest.mark.parametrize(
    ("target", "op"), [(target.name, op) for target in TARGETS.values() for op in target.operators]
)
def test_functions_are_those_of_the_runtime(target: str, op: str) -> None:
    found = {rank: routed(op, aclnn_product(TARGETS[target].aclnn), rank) for rank in OPS[op].ranks}
    assert found == {rank: aclnn_function(op, rank) for rank in OPS[op].ranks}
    assert aclnn_functions(op) == tuple(dict.fromkeys(found.values()))


def test_the_provider_has_a_route_for_each_of_its_operators() -> None:
    """What `inspect` says that the provider runs; the operator for scalars has a kernel without a route."""
    assert {name for name, *_ in ROUTES} | {UNSQUEEZE_SCALARS} == PROVIDER_OPERATORS
