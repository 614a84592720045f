# SPDX-License-Identifier: Apache-2.0

"""The compiler names the functions that the runtime calls: its table is that of the runtime's routes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from poolgrad_lowering.dialect import OPS
from poolgrad_lowering.targets.aclnn_functions import aclnn_function, aclnn_functions
from poolgrad_lowering.targets.table import TARGETS

SOURCES = Path(__file__).parent.parent.parent.parent / "runtime" / "src"
PRODUCTS = {"ascend950": "kAscend950", "atlas-a3": "kAtlasA2A3", "atlas-a2": "kAtlasA2A3"}
ROUTE = re.compile(r'\{"(\w+)", Product::(\w+), (\d), (\d), Entry::(\w+), \d, IndexTypes::(\w+),')
MEMBER = {
    "kMaxPool3d": "max_pool_3d",
    "kMaxPool2d": "max_pool_2d",
    "kAdaptive3d": "adaptive_3d",
    "kAdaptive2d": "adaptive_2d",
}


def routed(op: str, product: str, rank: int) -> str:
    """The phase 2 of the first route that takes an int32 argmax, as the C++ sources have it."""
    routes = ROUTE.findall((SOURCES / "ep" / "routes.cpp").read_text(encoding="utf-8"))
    members = (SOURCES / "aclnn" / "api.h").read_text(encoding="utf-8")
    entry = next(
        entry
        for name, of, least, most, entry, types in routes
        if (name, of) == (op, product) and int(least) <= rank <= int(most) and types != "kInt64"
    )
    member = MEMBER[entry] + ("_backward" if "Grad" in op else "")
    [function] = re.findall(rf'\b{member}\s*\{{\s*\{{"\w+", "(\w+)"', members)
    return str(function)


@pytest.mark.parametrize(
    ("target", "op"), [(target.name, op) for target in TARGETS.values() for op in target.operators]
)
def test_functions_are_those_of_the_runtime(target: str, op: str) -> None:
    found = {rank: routed(op, PRODUCTS[target], rank) for rank in OPS[op].ranks}
    assert found == {rank: aclnn_function(op, rank) for rank in OPS[op].ranks}
    assert aclnn_functions(op) == tuple(dict.fromkeys(found.values()))
