# SPDX-License-Identifier: Apache-2.0

"""Published cases: ONNX's backend cases of MaxPool, and the pools of onnxruntime's gradient checker.

Each becomes a training graph in both forms that any pool can have.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper

from poolgrad_lowering import LoweringResult, lower
from tests.generators.forms import FORMS, refusal
from tests.generators.models import build
from tests.generators.plans import Plan, Root, Site
from tests.generators.sites import Pooling, Spelling
from tests.generators.windows import PoolWindows
from tests.oracles import assert_same_bits, pool_gradient, run_ort, run_reference, same_pads
from tests.oracles.backend_cases import max_pool_cases
from tests.patterns.lowering_checks import TARGETS
from tests.window_facts import Axis

Array = npt.NDArray[Any]
ANY_POOL = ("F1", "F4")
LARGE = 10_000
"""From so many elements on, the scatter of onnx's reference evaluator takes seconds; onnxruntime runs these."""


def backend_cases() -> list[Any]:
    """ONNX's own cases, as parameters (attributes, x, y)."""
    found = []
    for case in max_pool_cases():
        assert case.model is not None
        assert case.data_sets is not None
        [node] = case.model.graph.node
        attributes = {held.name: helper.get_attribute_value(held) for held in node.attribute}
        [([x], [y, *_])] = case.data_sets
        found.append(pytest.param(attributes, x, y, id=case.name))
    return found


def windows_of(attributes: dict[str, Any], sizes: tuple[int, ...]) -> PoolWindows:
    """The windows of a node's attributes."""
    kernel = attributes["kernel_shape"]
    ones = [1] * len(kernel)
    strides, auto_pad = attributes.get("strides", ones), attributes.get("auto_pad", b"NOTSET").decode()
    pads = attributes.get("pads", [0] * 2 * len(kernel))
    if auto_pad.startswith("SAME"):
        pads = same_pads(sizes, kernel, strides, upper=auto_pad == "SAME_UPPER")
    dilations, ceil = attributes.get("dilations", ones), bool(attributes.get("ceil_mode", 0))
    lists = zip(kernel, strides, dilations, pads[: len(kernel)], pads[len(kernel) :], strict=True)
    axes = tuple(Axis(*values, ceil=ceil) for values in lists)
    return PoolWindows(axes, auto_pad, bool(attributes.get("storage_order", 0)))


def plan_of(form: str, windows: PoolWindows, x_shape: tuple[int, ...], element_type: int, target: str) -> Plan:
    """One pool with its gradient."""
    pooling = Pooling(windows, Spelling(), x_shape, element_type)
    root = Root(x_shape, element_type, cast=False, values=(0,), sites=(Site(form, pooling, (0,)),))
    return Plan(22, (root,), (), symbols=0, special=False, constant_nodes=False, target=target, forward=True)


def lowered(form: str, windows: PoolWindows, x: Array, target: str) -> tuple[onnx.ModelProto, LoweringResult]:
    element_type = helper.np_dtype_to_tensor_dtype(x.dtype)
    plan = plan_of(form, windows, x.shape, element_type, target)
    model = build(plan)
    return model, lower(model, target=target)


@pytest.mark.parametrize(("attributes", "x", "y"), backend_cases())
def test_backend_cases(attributes: dict[str, Any], x: Array, y: Array) -> None:
    windows = windows_of(attributes, x.shape[2:])
    maxima, indices = windows.record(x)
    assert_same_bits(maxima, y)
    pooling = Pooling(windows, Spelling(), x.shape, helper.np_dtype_to_tensor_dtype(x.dtype))
    dy = np.resize([1.0, 2.0, 0.5, 2.0**24, -1.0], y.shape).astype(x.dtype)
    expected = pool_gradient(x.shape, dy, indices)
    run = run_ort if x.size > LARGE else run_reference
    for form, target in itertools.product(ANY_POOL, TARGETS):
        model, result = lowered(form, windows, x, target)
        refused = refusal(form, pooling)
        code = "dtype" if x.dtype == np.uint8 else refused.value if refused is not None else None
        verdicts = [(anchor.status, anchor.code) for anchor in result.report.anchors]
        assert verdicts == [("lowered", None) if code is None else ("refused", code)]
        if code is None:
            assert_same_bits(run(result.model, {"r0x": x, "r0s0dy": dy})["r0s0dx"], expected)
        else:
            assert result.model.SerializeToString() == model.SerializeToString()


# x's shape, the pooled sizes, kernel, stride and padding of every axis: orttraining's gradient checks of MaxPool
GRADIENT_CHECKS = {
    "1d": ((2, 2, 9), (8,), 2, 1, 0),
    "2d": ((2, 3, 5, 5), (4, 4), 2, 1, 0),
    "2d pads": ((1, 1, 5, 5), (7, 7), 3, 1, 2),
    "2d strides": ((1, 1, 32, 32), (10, 10), 5, 3, 0),
    "3d": ((2, 1, 3, 3, 3), (2, 2, 2), 2, 1, 0),
}


@pytest.mark.parametrize("name", GRADIENT_CHECKS)
def test_finite_differences(name: str) -> None:
    """The pool of distinct integers is linear within a quarter, so the difference quotient is exactly the gradient."""
    shape, sizes, kernel, stride, pad = GRADIENT_CHECKS[name]
    windows = PoolWindows((Axis(kernel, stride, 1, pad, pad, ceil=False),) * len(sizes))
    random = np.random.default_rng(0)
    x = random.permutation(int(np.prod(shape))).reshape(shape).astype(np.float32)
    dy = random.integers(-8, 9, (*shape[:2], *sizes)).astype(np.float32)
    expected = difference_quotient(x, dy, windows)
    for form, target in itertools.product(ANY_POOL, TARGETS):
        _, result = lowered(form, windows, x, target)
        assert [anchor.pattern for anchor in result.report.lowered] == [FORMS[form].pattern]
        assert_same_bits(run_reference(result.model, {"r0x": x, "r0s0dy": dy})["r0s0dx"], expected)


def difference_quotient(x: Array, dy: Array, windows: PoolWindows) -> Array:
    """The quotient of dy · y between a quarter above and a quarter below each element of x."""

    def loss(moved: Array) -> float:
        pads = [(0, 0), (0, 0), *((axis.begin, axis.end) for axis in windows.axes)]
        padded = np.pad(moved, pads, constant_values=-np.inf)
        axes = tuple(range(2, x.ndim))
        seen = np.lib.stride_tricks.sliding_window_view(padded, windows.kernel, axes)
        steps = tuple(slice(None, None, stride) for stride in windows.strides)
        of_all_planes = (slice(None), slice(None), *steps)
        return float((seen[of_all_planes].max(axis=tuple(range(-len(axes), 0))) * dy).sum())

    quotients = np.empty(x.shape, np.float32)
    for place in np.ndindex(x.shape):
        above, below = x.astype(np.float64), x.astype(np.float64)
        above[place] += 0.25
        below[place] -= 0.25
        quotients[place] = (loss(above) - loss(below)) / 0.5
    return quotients
