# SPDX-License-Identifier: Apache-2.0

"""The provider computes every dialect op at every rank and type, bit for bit as the definition says."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from poolgrad_lowering.runtime import assignment, create_session, get_ep_name
from tests.oracles import assert_same_bits
from tests.runtime.ep_models import INDEX_TYPES, VALUE_TYPES, Case, make_feeds, make_model, window

POOL_3D = "MaxPool3DGradWithArgmax"
POOL_2D = "MaxPoolGradWithArgmaxV3"
ADAPTIVE = "AdaptiveMaxPool3DGrad"

CASES = {
    "1d": Case(POOL_3D, (2, 3, 11), window([1, 1, 3], [1, 1, 2], [0, 0, 1], [1, 1, 1])),
    "2d in 3d": Case(POOL_3D, (2, 3, 9, 8), window([1, 3, 2], [1, 2, 1], [0, 1, 0], [1, 1, 1])),
    "3d": Case(POOL_3D, (2, 2, 5, 6, 7), window([2, 3, 2], [1, 2, 2], [1, 1, 0], [1, 1, 1])),
    "3d ceil": Case(POOL_3D, (1, 2, 5, 6, 7), window([2, 2, 3], [2, 4, 3], [0, 0, 1], [1, 1, 1]), ceil_mode=1),
    "3d dilated": Case(POOL_3D, (1, 2, 6, 7, 8), window([2, 3, 2], [1, 1, 2], [0, 0, 1], [2, 2, 3])),
    "2d": Case(POOL_2D, (2, 3, 9, 8), window([3, 2], [2, 1], [1, 1], [1, 1])),
    "2d ceil": Case(POOL_2D, (2, 3, 10, 7), window([3, 3], [3, 2], [1, 0], [1, 1]), ceil_mode=1),
    # Rounding up gives a window in the right padding alone, which is dropped.
    "2d ceil dropped": Case(POOL_2D, (1, 2, 4, 7), window([2, 2], [3, 3], [1, 1], [1, 1]), ceil_mode=1),
    "2d dilated": Case(POOL_2D, (2, 1, 9, 10), window([3, 3], [2, 2], [1, 1], [2, 3])),
    "adaptive 1d": Case(ADAPTIVE, (2, 3, 11), out=(4,)),
    "adaptive 2d": Case(ADAPTIVE, (2, 3, 7, 8), out=(3, 4)),
    "adaptive 2d even": Case(ADAPTIVE, (2, 3, 8, 6), out=(4, 3)),
    "adaptive 3d": Case(ADAPTIVE, (2, 2, 5, 6, 7), out=(2, 6, 3)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("values", VALUE_TYPES)
@pytest.mark.parametrize("indices", INDEX_TYPES)
def test_gradient_is_that_of_the_definition(case: Case, values: str, indices: str) -> None:
    feeds, expected = make_feeds(case, values, indices)
    model = make_model(
        case.op, case.attributes(indices), x=case.x_shape, grad=feeds["grad"].shape, values=values, indices=indices
    )
    session = create_session(model, backend="host")
    providers = {node.op_type: node.provider for node in assignment(session)}
    assert providers[case.op] == get_ep_name()
    assert_same_bits(session.run(None, feeds)[0], expected)


def test_sizes_may_change_from_run_to_run() -> None:
    sizes = [(1, 2, 8, 9), (3, 1, 17, 6), (1, 2, 8, 9), (2, 2, 3, 3)]
    cases = [Case(POOL_2D, size, window([3, 3], [2, 2], [1, 1], [1, 1])) for size in sizes]
    model = make_model(POOL_2D, cases[0].attributes(), x=["N", "C", "H", "W"], grad=["N", "C", "h", "w"])
    session = create_session(model, backend="host")
    for seed, case in enumerate(cases):
        feeds, expected = make_feeds(case, seed=seed)
        assert_same_bits(session.run(None, feeds)[0], expected)


def test_special_values_pass_through() -> None:
    case = Case(POOL_3D, (1, 1, 6), window([1, 1, 2], [1, 1, 1], [0, 0, 0], [1, 1, 1]))
    grad = np.array([[[-0.0, np.inf, -np.inf, np.nan, 1e-45]]], np.float32)
    argmax = np.array([[[0, 1, 1, 3, 5]]], np.int32)
    session = create_session(make_model(case.op, case.attributes(), x=(1, 1, 6), grad=(1, 1, 5)), backend="host")
    (y,) = session.run(None, {"x": np.zeros((1, 1, 6), np.float32), "grad": grad, "argmax": argmax})
    assert_same_bits(y, np.array([[[0.0, np.nan, 0.0, np.nan, 0.0, 1e-45]]], np.float32))


@pytest.mark.parametrize(
    ("op", "x_shape", "grad_shape"),
    [
        (POOL_3D, (0, 2, 3, 4, 4), (0, 2, 3, 3, 3)),
        (POOL_3D, (2, 0, 4, 4), (2, 0, 3, 3)),
        (POOL_3D, (2, 2, 1, 1), (2, 2, 0, 0)),  # the window is larger than the input
        (POOL_2D, (0, 2, 4, 4), (0, 2, 3, 3)),
        (POOL_2D, (2, 2, 1, 1), (2, 2, 0, 0)),
        (ADAPTIVE, (0, 2, 4, 4), (0, 2, 2, 2)),
        (ADAPTIVE, (2, 2, 4, 4), (2, 2, 0, 2)),
        (ADAPTIVE, (2, 2, 4, 0), (2, 2, 0, 0)),
    ],
)
def test_empty_tensors(op: str, x_shape: tuple[int, ...], grad_shape: tuple[int, ...]) -> None:
    axes = {POOL_3D: 3, POOL_2D: 2, ADAPTIVE: 0}[op]
    ones = [1] * axes
    case = Case(op, x_shape, window([1, 2, 2][3 - axes :], ones, [0] * axes, ones) if axes else {})
    dims = [None] * len(x_shape)
    session = create_session(make_model(op, case.attributes(), x=dims, grad=dims), backend="host")
    binding = session.io_binding()
    binding.bind_cpu_input("x", np.ones(x_shape, np.float32))
    binding.bind_cpu_input("grad", np.ones(grad_shape, np.float32))
    binding.bind_cpu_input("argmax", np.zeros(grad_shape, np.int32))
    y = onnxruntime.OrtValue.ortvalue_from_numpy(np.full(x_shape, 7, np.float32))  # memory that is not zero before
    binding.bind_ortvalue_output("y", y)
    session.run_with_iobinding(binding)
    assert_same_bits(y.numpy(), np.zeros(x_shape, np.float32))
