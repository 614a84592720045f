# SPDX-License-Identifier: Apache-2.0

"""The provider makes no call that CANN takes and computes wrong: the strict library reports each as a violation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from poolgrad_lowering.runtime import assignment, create_session, get_ep_name
from tests.average_models import AVERAGE_2D, AVERAGE_3D, AverageCase, average_feeds, average_model
from tests.harness.sessions.device_process import on_device
from tests.runtime.average_calls import A2, A950
from tests.runtime.ep_models import VALUE_TYPES, Case, make_feeds, make_model, window

POOL_3D, POOL_2D = "MaxPool3DGradWithArgmax", "MaxPoolGradWithArgmaxV3"

DILATED = {
    "one axis": Case(POOL_3D, (1, 2, 3), window([1, 1, 2], [1, 1, 2], [0, 0, 1], [1, 1, 2])),
    "one axis, stride above kernel": Case(POOL_3D, (2, 1, 17), window([1, 1, 2], [1, 1, 3], [0, 0, 0], [1, 1, 6])),
    "two axes": Case(POOL_3D, (2, 2, 9, 8), window([1, 2, 3], [1, 2, 3], [0, 1, 1], [1, 2, 1])),
    "three axes": Case(POOL_3D, (1, 2, 7, 8, 9), window([2, 2, 3], [2, 2, 3], [1, 0, 1], [2, 4, 3])),
    "three axes, overlapping": Case(POOL_3D, (1, 2, 6, 7, 8), window([2, 3, 2], [1, 1, 2], [0, 0, 1], [2, 2, 3])),
    "rounded up": Case(POOL_3D, (1, 2, 12), window([1, 1, 2], [1, 1, 2], [0, 0, 1], [1, 1, 4]), ceil_mode=1),
    "gaps without a second element": Case(POOL_3D, (1, 2, 6), window([1, 1, 1], [1, 1, 2], [0, 0, 0], [1, 1, 3])),
    "planes of two axes": Case(POOL_2D, (1, 2, 20, 22), window([2, 2], [1, 1], [0, 1], [2, 2])),
    "planes of two axes, apart": Case(POOL_2D, (1, 1, 9, 10), window([2, 2], [2, 2], [1, 1], [2, 4])),
}


def gradients_of_dilated_windows() -> list[str]:
    """The cases that the provider does not run, or not with the result of the definition."""
    wrong = []
    for name, case in DILATED.items():
        for values in VALUE_TYPES:
            feeds, expected = make_feeds(case, values)
            model = make_model(case.op, case.attributes(), x=case.x_shape, grad=feeds["grad"].shape, values=values)
            session = create_session(model, backend="host")
            runs = {node.op_type: node.provider for node in assignment(session)}
            found = np.asarray(session.run(None, feeds)[0])
            # Sums of overlapping windows are in reverse order: up to 8 terms of order 4, rounded once for half types.
            bound = {"float32": 2.0**-19, "float16": 2.0**-8, "bfloat16": 2.0**-5}[values]
            if runs[case.op] != get_ep_name() or not np.abs(found - expected).max() <= bound:
                wrong.append(f"{name}, {values}")
    return wrong


@pytest.mark.parametrize("soc", [A2, A950])
def test_windows_with_gaps_become_windows_without(soc: str) -> None:
    """On Atlas A2 and A3 windows that share elements lose sums, on Ascend 950 those of two axes do."""
    assert on_device(gradients_of_dilated_windows, ACLNN_HOST_SOC=soc) == []


def test_windows_that_span_more_than_int32_are_left_to_the_body() -> None:
    case = Case(POOL_3D, (1, 1, 9), window([1, 1, 2], [1, 1, 1], [0, 0, 1], [1, 1, 2**31 - 1]))
    session = create_session(make_model(case.op, case.attributes(), x=(1, 1, 9), grad=(1, 1, 1)), backend="host")
    assert all(node.provider != get_ep_name() for node in assignment(session))


def half(op: str, x_shape: tuple[int, ...], kernel: int = 2, **others: Any) -> AverageCase:
    """Windows of an even kernel, half of which is padding, with stride 1: one more than elements along each axis."""
    axes = len(x_shape) - 2
    return AverageCase(op, x_shape, (kernel,) * axes, (1,) * axes, (kernel // 2,) * axes, **others)


FEW = {
    "one element": half(AVERAGE_3D, (1, 1, 1)),
    "an axis": half(AVERAGE_3D, (1, 1, 2), count_include_pad=True),
    "twelve planes": half(AVERAGE_3D, (3, 4, 3)),
    "two axes": half(AVERAGE_3D, (2, 1, 3, 4)),
    "two axes of their own operator": half(AVERAGE_2D, (1, 2, 4, 5), kernel=4),
    "three axes": half(AVERAGE_3D, (1, 5, 1, 3, 3), count_include_pad=True),
    "47 elements": half(AVERAGE_3D, (1, 1, 47)),
}
ENOUGH = {
    "48 elements": half(AVERAGE_3D, (1, 2, 24)),
    "as many windows as elements": AverageCase(AVERAGE_3D, (1, 1, 5), (3,), (1,), (1,)),
    "one axis has fewer windows": AverageCase(AVERAGE_3D, (1, 1, 3, 6), (2, 2), (1, 2), (1, 0)),
}


def claims(soc_cases: dict[str, AverageCase], element: int, *, declared: bool) -> list[str]:
    """The cases whose gradient the provider runs, with the result of the definition."""
    found = []
    for name, case in soc_cases.items():
        model = average_model(case, 20, element)
        if declared:
            model.graph.value_info.append(helper.make_tensor_value_info("y_cast", element, case.x_shape))
        session = create_session(model, backend="host")
        is_claimed = any(node.provider == get_ep_name() for node in assignment(session))
        grad = np.random.default_rng(3).standard_normal(case.grad_shape).astype(np.float32)
        grad = grad.astype(np.float16 if element == TensorProto.FLOAT16 else np.float32)
        try:
            (y,) = session.run(None, average_feeds(case, model, grad))
        except Exception as error:
            if is_claimed and "CANN divides by zero then" in str(error):
                continue
            raise
        # Up to four terms, divided and added with roundings to 11 or 8 bits at each step of a body.
        tolerance = 2.0**-5 if element == TensorProto.BFLOAT16 else 2.0**-8
        np.testing.assert_allclose(np.float64(y), case.expected(grad.astype(np.float64)), rtol=0, atol=tolerance)
        found += [name] * is_claimed
    return found


HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)


def half_averages() -> list[list[list[str]]]:
    """For both half types and for float32: which of FEW and ENOUGH run, with declared shapes and without."""
    few = [claims(FEW, element, declared=declared) for element in HALVES for declared in (True, False)]
    enough = [claims(ENOUGH, element, declared=True) for element in HALVES]
    return [few, enough, [claims(FEW | ENOUGH, TensorProto.FLOAT, declared=True)]]


def test_half_averages_of_fewer_elements_than_cores_do_not_run_on_atlas_a2() -> None:
    """By their function body if the sizes are known when the session is made, else the Run is an error."""
    found = on_device(half_averages, ACLNN_HOST_SOC=A2)
    assert found == [[[]] * 4, [list(ENOUGH)] * 2, [[*FEW, *ENOUGH]]]


def test_on_ascend950_only_three_axes_use_that_operator() -> None:
    found = on_device(half_averages, ACLNN_HOST_SOC=A950)
    others = [name for name in FEW if name != "three axes"]
    assert found == [[others] * 4, [list(ENOUGH)] * 2, [[*FEW, *ENOUGH]]]
