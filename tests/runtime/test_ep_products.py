# SPDX-License-Identifier: Apache-2.0

"""Pools and gradients on each Ascend product that the host backend simulates, which ACLNN_HOST_SOC names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from poolgrad_lowering.runtime import get_host_library_path
from tests.harness.sessions.ep_process import run_python

# Runs a case; returns the operators claimed, and whether the result has the expected bits.
_RUN = """
import os
import numpy as np
from tests.runtime.ep_models import Case, make_feeds, make_model, window
from poolgrad_lowering.runtime import assignment, create_session, get_ep_name

def run(case, values, indices):
    feeds, _ = make_feeds(case, values, indices)
    model = make_model(case.op, case.attributes(indices), x=case.x_shape, grad=feeds["grad"].shape,
                       values=values, indices=indices)
    session = create_session(model, backend="host")
    claimed = [node.op_type for node in assignment(session) if node.provider == get_ep_name()]
    (y,) = session.run(None, feeds)
    on_atlas = claimed and not os.environ["ACLNN_HOST_SOC"].startswith("Ascend950")
    _, expected = make_feeds(case, values, indices, reverse=on_atlas and bool(case.window))
    return claimed, y.tobytes() == expected.tobytes()

"""
_POOL_3D = "'MaxPool3DGradWithArgmax', (2, 2, 5, 6, 7), window([2, 3, 2], [1, 2, 2], [1, 1, 0], [1, 1, 1])"
_POOL_2D = "'MaxPoolGradWithArgmaxV3', (2, 3, 9, 8), window([3, 2], [2, 1], [1, 1], [1, 1])"
_POOL_2D_DILATED = "'MaxPoolGradWithArgmaxV3', (2, 3, 9, 8), window([3, 2], [2, 1], [1, 1], [2, 1])"
_ADAPTIVE_2D = "'AdaptiveMaxPool3DGrad', (2, 3, 7, 8), out=(3, 4)"
_ADAPTIVE_3D = "'AdaptiveMaxPool3DGrad', (2, 2, 5, 6, 7), out=(2, 6, 3)"


def run_cases(cases: list[str], soc: str, values: Sequence[str] = ("float32",), indices: str = "int32") -> list[Any]:
    calls = [f"run(Case({case}), '{kind}', '{indices}')" for case in cases for kind in values]
    answers: list[Any] = run_python(f"{_RUN}answer([{', '.join(calls)}])", ACLNN_HOST_SOC=soc)
    return answers


@pytest.mark.parametrize("soc", ["Ascend950DT_9581", "Ascend910B3", "Ascend910_9362"])
def test_products_with_the_operators_take_int32(soc: str) -> None:
    cases = [_POOL_3D, _POOL_2D, _POOL_2D_DILATED, _ADAPTIVE_2D, _ADAPTIVE_3D]
    expected = [[[case.split("'")[1]], True] for case in cases for _ in range(2)]
    assert run_cases(cases, soc, ("float32", "bfloat16")) == expected


def test_atlas_a2_takes_int64_in_one_operator_only() -> None:
    cases = [_POOL_3D, _POOL_2D, _ADAPTIVE_3D, _ADAPTIVE_2D]
    expected = [[[], True]] * 3 + [[["AdaptiveMaxPool3DGrad"], True]]
    assert run_cases(cases, "Ascend910B1", indices="int64") == expected


@pytest.mark.parametrize("soc", ["Ascend310P3", "Ascend910B", "Ascend910A", "Ascend310B4", "Ascend350_354f"])
def test_products_without_the_operators_run_bodies(soc: str) -> None:
    assert run_cases([_POOL_3D], soc) == [[[], True]]


def test_atlas_a2_refuses_large_planes_that_do_not_divide() -> None:
    """Its kernel compares positions in float32, which holds integers up to 2^24."""
    code = """
from tests.runtime.ep_models import make_model
from poolgrad_lowering.runtime import assignment, create_session, get_ep_name

def is_claimed(width, out):
    model = make_model("AdaptiveMaxPool3DGrad", {}, x=(1, 1, 4097, width), grad=(1, 1, 1, out))
    return any(node.provider == get_ep_name() for node in assignment(create_session(model, backend="host")))

answer([is_claimed(4096, 1), is_claimed(4096, 3), is_claimed(4000, 3)])
"""
    assert run_python(code, ACLNN_HOST_SOC="Ascend910B3") == [True, False, True]
    assert run_python(code, ACLNN_HOST_SOC="Ascend950PR_9599") == [True, True, True]


def test_int32_argmax_cannot_name_the_elements_of_a_larger_plane() -> None:
    # Without optimisations: onnxruntime would compute the zeros of the node that it inlines, 8 GiB, and copy them.
    code = """
import onnxruntime
from tests.runtime.ep_models import make_model, window
from poolgrad_lowering.runtime import assignment, create_session, get_ep_name

def is_claimed(width, indices):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    windows = window([1, 1, 2**15], [1, 1, 2**15], [0, 0, 0], [1, 1, 1])
    model = make_model("MaxPool3DGradWithArgmax", {**windows, "ceil_mode": 0, "data_format": "NCDHW"}, indices=indices,
                       x=(1, 1, 2**15, width), grad=(1, 1, 2**15, width // 2**15))
    session = create_session(model, backend="host", session_options=options)
    return any(node.provider == get_ep_name() for node in assignment(session))

answer([is_claimed(2**16, "int32"), is_claimed(2**16 - 1, "int32"), is_claimed(2**16, "int64")])
"""
    assert run_python(code) == [False, True, True]


def test_unknown_soc_is_an_error_that_names_it() -> None:
    code = """
from poolgrad_lowering.runtime import SessionError, register
try:
    register()
except SessionError as error:
    answer(str(error))
"""
    assert "Ascend911" in run_python(code, ACLNN_HOST_SOC="Ascend911")


def test_custom_operators_on_a_product_without_them_fail_the_session() -> None:
    code = """
import onnxruntime
from tests.runtime.ep_models import Case, make_model, window
from poolgrad_lowering.runtime import get_library_path

case = Case({case})
options = onnxruntime.SessionOptions()
options.register_custom_ops_library(get_library_path())
model = make_model(case.op, case.attributes(), x=case.x_shape, grad=(2, 2, 6, 3, 4), with_body=False)
try:
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
except Exception as error:
    answer(str(error))
"""
    message = run_python(code.format(case=_POOL_3D), ACLNN_HOST_SOC="Ascend310P3")
    assert "MaxPool3DGradWithArgmax node 'pool_grad': this product has no operator for x of rank 5" in message


# Answers, for each case, index type and element type, what is wrong: the node is not claimed, or the result differs.
_RUN_ALL = """
import numpy as np
from onnx import TensorProto
from tests.pool_models import CASES, pool_model, values_with_ties
from poolgrad_lowering.runtime import assignment, create_session, get_ep_name

wrong = []
for name, case in CASES.items():
    for indices, index_type in (("int32", TensorProto.INT32), ("int64", TensorProto.INT64)):
        for values, element_type in (("float32", TensorProto.FLOAT), ("float16", TensorProto.FLOAT16)):
            shape = [None] * len(case.x_shape)
            model = pool_model(
                case.op, case.attributes(index_type), 20, shape, element_type=element_type, index_type=index_type
            )
            session = create_session(model, backend="{backend}")
            if not any(node.provider == get_ep_name() for node in assignment(session)):
                wrong.append([name, indices, "not claimed"])
                continue  # onnxruntime runs the body, by its own MaxPool, of which old releases do -inf otherwise
            x = values_with_ties(case.x_shape, values)
            y, argmax = case.expected(x)
            for _ in range(2):  # the second call reuses stream and buffers
                results = session.run(None, {{"x": x}})
                if results[0].tobytes() != y.tobytes() or not np.array_equal(results[1], argmax.astype(indices)):
                    wrong.append([name, indices, "wrong"])
answer(sorted(map(list, set(map(tuple, wrong)))))
"""

_INT32_ONLY = ["1d", "2d in 3d", "2d in 3d, ceil", "3d", "3d ceil", "adaptive 3d"]
_DILATED = ["1d dilated", "3d dilated", "2d dilated, ceil"]


def test_ascend950_takes_all() -> None:
    assert run_python(_RUN_ALL.format(backend="host"), ACLNN_HOST_SOC="Ascend950DT_9581") == []


@pytest.mark.parametrize("soc", ["Ascend910B3", "Ascend910_9362"])
def test_atlas_a2_and_a3_take_no_dilation_and_int64_in_two_dimensions_only(soc: str) -> None:
    wrong = run_python(_RUN_ALL.format(backend="host"), ACLNN_HOST_SOC=soc)
    expected = [[name, indices, "not claimed"] for name in _DILATED for indices in ("int32", "int64")]
    expected += [[name, "int64", "not claimed"] for name in _INT32_ONLY]
    assert wrong == sorted(expected)


def test_products_without_the_pools_run_bodies() -> None:
    wrong = run_python(_RUN_ALL.format(backend="host"), ACLNN_HOST_SOC="Ascend310P3")
    assert {problem for *_, problem in wrong} == {"not claimed"}


@pytest.mark.parametrize("soc", ["Ascend950PR_9599", "Ascend910B1"])
def test_staged_calls(tmp_path: Path, soc: str) -> None:
    folder = tmp_path / "lib64"
    folder.mkdir()
    for name in ("libacl_rt.so", "libnnopbase.so", "libopapi_nn.so"):
        (folder / name).symlink_to(get_host_library_path())
    code = _RUN_ALL.format(backend="cann")
    wrong = run_python(code, ASCEND_HOME_PATH=str(tmp_path), ACLNN_HOST_SOC=soc)
    assert all(problem == "not claimed" for *_, problem in wrong)
    assert bool(wrong) == (soc == "Ascend910B1")


def test_plane_limits() -> None:
    """int32 indices allow planes of up to 2^31 - 1 elements; larger planes need int64 and Ascend950."""
    code = """
import onnxruntime
from onnx import TensorProto
from tests.pool_models import POOL_2D, POOL_3D, PoolCase, pool_model
from poolgrad_lowering.runtime import assignment, create_session, get_ep_name

def is_claimed(op, width, index_type):
    case = PoolCase(op, (1, 1, 2, width), (2, 2), (2, 2), (0, 0), (1, 1))
    model = pool_model(op, case.attributes(index_type), 20, case.x_shape, index_type=index_type)
    options = onnxruntime.SessionOptions()
    # Or onnxruntime folds what the body of a node that is not claimed makes of the size of a plane.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = create_session(model, backend="host", session_options=options)
    return any(node.provider == get_ep_name() for node in assignment(session))

answer([is_claimed(op, width, index_type) for op in (POOL_3D, POOL_2D) for width in (2**30 - 1, 2**30)
        for index_type in (TensorProto.INT32, TensorProto.INT64)])
"""
    assert run_python(code, ACLNN_HOST_SOC="Ascend950PR_9599") == [True, True, False, True] * 2
    assert run_python(code, ACLNN_HOST_SOC="Ascend910B1") == [True, False, False, False, True, True, False, False]
