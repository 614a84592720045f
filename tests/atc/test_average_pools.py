# SPDX-License-Identifier: Apache-2.0

"""Gradients of average pools in exports for ATC: GE computes what they define, in rank 5 and from constant shapes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from poolgrad_lowering import verify
from poolgrad_lowering.ge.atc.conversion import conversion
from tests.average_models import (
    ADAPTIVE_3D,
    AVERAGE_3D,
    CASES,
    AverageCase,
    average_feeds,
    average_model,
    exact_grad,
)
from tests.harness.ge.checking import convert
from tests.harness.ge.driver import AnyPlugin
from tests.oracles import assert_same_bits, run_reference
from tests.poolgrad_lowering.ge.atc.average_exports import OPERATORS, SOCS, exported, target_of, with_computed_sizes
from tests.poolgrad_lowering.verification.average_pairs import pair, site_node

EXPORTED = [
    pytest.param(case, target, id=f"{target}-{name}")
    for target, operators in OPERATORS.items()
    for name, case in CASES.items()
    if case.op in operators and (case.op, target) != (ADAPTIVE_3D, "atlas-a2")
]


def exact(case: AverageCase) -> Any:
    """A gradient whose quotients are whole; the windows of adaptive pools here have 1 to 9, 12 or 35 elements."""
    if not case.output_size:
        return exact_grad(case)
    return np.random.default_rng(0).integers(-4, 5, case.grad_shape).astype(np.float32) * 5040


@pytest.mark.parametrize(("case", "target"), EXPORTED)
def test_ge_computes_the_definition(shipped: AnyPlugin, case: AverageCase, target: str) -> None:
    model, edits, obstacles = exported(average_model(case, 16), target)
    assert obstacles == ()
    assert edits.raised == (case.op in (AVERAGE_3D, ADAPTIVE_3D) and len(case.x_shape) < 5)
    grad = exact(case)
    feeds = average_feeds(case, model, grad)
    expected = case.expected(grad).astype(np.float32)
    assert_same_bits(convert(model, feeds, shipped, SOCS[target], "9.1.0")["y"], expected)
    assert_same_bits(run_reference(model, feeds)["y"], expected)


@pytest.mark.parametrize(("case", "target"), EXPORTED)
def test_the_export_is_proven(case: AverageCase, target: str) -> None:
    if len(case.x_shape) == 3 and case.output_size:
        pytest.skip("PyTorch has no such operator")
    original, lowered = pair(case, "aten")
    model, _, _ = exported(lowered, target)
    found = verify(original, model, whole_model=False, runs=3)
    assert found.proven, (found.differences, found.sites)


@pytest.mark.parametrize("opset", [12, 16])
def test_older_opsets(shipped: AnyPlugin, opset: int) -> None:
    """Below opset 13 the axes of Unsqueeze and Squeeze are attributes."""
    case = CASES["2d in 3d"]
    model, _, _ = exported(average_model(case, opset), "atlas-a2")
    grad = exact(case)
    found = convert(model, average_feeds(case, model, grad), shipped, "ascend910b")
    assert_same_bits(found["y"], case.expected(grad).astype(np.float32))


@pytest.mark.parametrize(("name", "target"), [("2d in 3d", "atlas-a2"), ("2d", "ascend950")])
def test_sizes_that_are_computed_become_constants(shipped: AnyPlugin, name: str, target: str) -> None:
    case = CASES[name]
    model, edits, obstacles = exported(with_computed_sizes(average_model(case, 16), declared=True), target)
    assert (edits.rewritten, obstacles) == (1, ())
    grad = exact(case)
    feeds = average_feeds(case, model, grad)
    assert_same_bits(convert(model, feeds, shipped, SOCS[target])["y"], case.expected(grad).astype(np.float32))


@pytest.mark.parametrize(
    ("name", "target", "release"),
    [
        ("2d in 3d", "atlas-a2", "8.5.0"),
        ("2d in 3d", "ascend950", "9.0.0"),
        ("2d", "ascend950", "9.0.0"),
        ("adaptive 2d", "ascend950", "9.1.0"),
        ("adaptive, shape", "ascend950", "9.1.0"),
    ],
)
def test_the_oldest_release(name: str, target: str, release: str) -> None:
    model, _, _ = exported(average_model(CASES[name], 16), target)
    assert conversion(model, target_of(target), None, "model.onnx").cann == release


def test_two_nodes_share_the_shape_of_x(shipped: AnyPlugin) -> None:
    """Each reads the same constant, which is raised once."""
    case = CASES["2d in 3d"]
    model = average_model(case, 16)
    twin = deepcopy(site_node(model))
    twin.name, twin.output[0] = "twin", "z"
    model.graph.node.insert(2, twin)
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [None] * 4))
    found, edits, obstacles = exported(model, "atlas-a2")
    assert (edits.raised, obstacles) == (2, ())
    assert sum(tensor.name.startswith("sizes/5d") for tensor in found.graph.initializer) == 1
    grad = exact(case)
    results = convert(found, average_feeds(case, found, grad), shipped, "ascend910b")
    for name in "yz":
        assert_same_bits(results[name], case.expected(grad).astype(np.float32))
