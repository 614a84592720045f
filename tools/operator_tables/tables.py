# SPDX-License-Identifier: Apache-2.0

"""The files with tables of operators, functions and products that other languages read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from poolgrad_lowering.dialect import OPS, Op
from poolgrad_lowering.dialect.targets import TARGETS, Target
from tools.operator_tables.cpp import guarded, header
from tools.operator_tables.functions import function_table
from tools.operator_tables.operators import operator_table, route_table
from tools.operator_tables.plugin import plugin_table
from tools.operator_tables.products import product_table
from tools.operator_tables.schemas import with_names

ROOT = Path(__file__).parents[2]
SOCS = Path("runtime/src/abi/soc_table.h")
FUNCTIONS = Path("runtime/src/abi/aclnn_table.h")
OPERATORS = Path("runtime/src/ep/dialect_table.h")
ROUTES = Path("runtime/src/ep/route_table.h")
PLUGIN = Path("poolgrad_lowering/ge/atc/plugin/operators.cpp")
PLAN = Path("poolgrad_lowering/schemas/plan.json")
REPORT = Path("poolgrad_lowering/schemas/report.json")


def tables(ops: Iterable[Op] = OPS.values(), targets: Iterable[Target] = TARGETS.values()) -> dict[Path, str]:
    """Return the text of each file for these operators and targets, by its path in the repository."""
    ops, targets = list(ops), list(targets)
    plan, report = ((ROOT / path).read_text(encoding="utf-8") for path in (PLAN, REPORT))
    return {
        SOCS: header(SOCS, "", "poolgrad", product_table(targets)),
        FUNCTIONS: guarded(FUNCTIONS, function_table(ops)),
        OPERATORS: header(OPERATORS, '#include "ep/dialect.h"\n', "poolgrad::ep", operator_table(ops)),
        ROUTES: header(ROUTES, '#include "ep/routes.h"\n', "poolgrad::ep", route_table(ops, targets)),
        PLUGIN: plugin_table(ops),
        PLAN: with_names(plan, ops, "site", gradient="operator", pool="forward"),
        REPORT: with_names(report, ops, "anchor", gradient="op", pool="forward_op"),
    }
