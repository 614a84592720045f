# SPDX-License-Identifier: Apache-2.0

"""The checkpoint of average pools refuses what a form did not ask about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from poolgrad_lowering.compiler.families.avg_pool.gradient import verify_gradient
from poolgrad_lowering.model.diagnostics.codes import attempt
from poolgrad_lowering.model.facts.facts import Facts
from poolgrad_lowering.model.ir.index import ModelIndex
from poolgrad_lowering.model.windows import PoolAttributes
from poolgrad_lowering.patterns import ort_average_pool_grad
from tests.pool_graphs import parse

MODEL = parse(
    """g (float[2,3,8,8] x, float[2,3,4,4] dy) => (y, float[2,3,8,8] dx) {
        y = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (x)
        dx = AveragePoolGrad <kernel_shape = [2, 2], strides = [2, 2]> (dy)
    }"""
)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, None),
        ({"storage_order": 1}, "storage-order"),
        ({"auto_pad": "SAME_UPPER", "dilations": (2, 2)}, "pool-attributes"),
        ({"auto_pad": "SAME_LOWER", "begins": (1, 1)}, "pool-attributes"),
    ],
)
def test_windows_about_which_runtimes_disagree(changes: dict[str, Any], code: str | None) -> None:
    index = ModelIndex(MODEL)
    facts = Facts(index)
    gradient = ort_average_pool_grad.match(facts, index.scopes[0].node(1))
    assert gradient is not None
    assert isinstance(gradient.windows, PoolAttributes)
    changed = replace(gradient, windows=replace(gradient.windows, **changes))
    refusal = attempt(verify_gradient, facts, changed)
    assert (None if refusal is None else refusal.code.value) == code
