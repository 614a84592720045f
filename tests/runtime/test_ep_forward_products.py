# SPDX-License-Identifier: Apache-2.0

"""Pools on each Ascend product that the host backend simulates, and on the cann backend, which stages operands."""

from __future__ import annotations

from pathlib import Path

import pytest

from poolgrad_lowering.runtime import get_host_library_path
from tests.harness.sessions.ep_process import run_python

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


def test_products_without_the_operators_run_bodies() -> None:
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
