# SPDX-License-Identifier: Apache-2.0

"""The kernel of UnsqueezeScalars: tensors of rank 0 get one axis, and no byte is copied."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from poolgrad_lowering.dialect.scalars import UNSQUEEZE_SCALARS, unsqueeze_scalars_body
from poolgrad_lowering.runtime import assignment, create_session, get_ep_name
from tests.harness.sessions.device_process import on_device
from tests.harness.sessions.host_control import HostLibrary
from tests.oracles import assert_same_bits

OPSET = 17
VALUES: dict[str, Any] = {
    "float": np.array(0.1, np.float32),
    "int64": np.array(-(2**40), np.int64),
    "float16": np.array(0.1, np.float16),
    "bool": np.array(True),
    "uint8": np.array(200, np.uint8),
    "double": np.array(0.1, np.float64),
}
COPIED = "aclrtMemcpy"


def model_of(elements: list[int], shape: tuple[int, ...] = ()) -> onnx.ModelProto:
    """A model whose outputs are its inputs with an axis, each twice."""
    count = len(elements)
    inputs, axes, outputs = ([f"{letter}{number}" for number in range(count)] for letter in "xay")
    nodes = [helper.make_node(UNSQUEEZE_SCALARS, inputs, axes, domain="npu", name="scalars")]
    twice = zip(axes, outputs, strict=True)
    nodes += [helper.make_node("Concat", [a, a], [y], name=f"to_{y}", axis=0) for a, y in twice]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, element, shape) for name, element in zip(inputs, elements, strict=True)],
        [helper.make_tensor_value_info(name, element, None) for name, element in zip(outputs, elements, strict=True)],
    )
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid("npu", 1)]
    bodies = [unsqueeze_scalars_body(count, OPSET)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9, functions=bodies)


def elements() -> list[int]:
    return [helper.np_dtype_to_tensor_dtype(value.dtype) for value in VALUES.values()]


def feeds() -> dict[str, Any]:
    return {f"x{number}": value for number, value in enumerate(VALUES.values())}


def check_types() -> None:
    session = create_session(model_of(elements()))
    assert [node.provider for node in assignment(session) if node.op_type == UNSQUEEZE_SCALARS] == [get_ep_name()]
    for found, value in zip(session.run(None, feeds()), feeds().values(), strict=True):
        assert_same_bits(np.asarray(found), value.reshape(1).repeat(2))


def check_copies() -> None:
    """On a device, inputs are copied to it, outputs from it, and nothing on it."""
    session = create_session(model_of(elements()))
    calls = HostLibrary().trace(lambda: session.run(None, feeds()))
    kinds = [call["kind"] for call in calls if str(call.get("call", "")).startswith(COPIED)]
    assert 3 not in kinds


def check_many() -> None:
    """More scalars than the kernel's definition lets share memory: the others are copied."""
    count = 600
    session = create_session(model_of([TensorProto.FLOAT] * count))
    given = {f"x{number}": np.array(number, np.float32) for number in range(count)}
    assert [float(value[0]) for value in session.run(None, given)] == list(range(count))


def test_types_in_host_memory() -> None:
    check_types()


def test_many_in_host_memory() -> None:
    check_many()


@pytest.mark.parametrize("check", [check_types, check_copies, check_many])
def test_on_a_device(check: Any) -> None:
    on_device(check)


def test_more_than_one_element_is_an_error() -> None:
    session = create_session(model_of([TensorProto.FLOAT], shape=("N",)))  # type: ignore[arg-type]
    with pytest.raises(Exception, match="more than one element"):
        session.run(None, {"x0": np.zeros(2, np.float32)})


def test_the_body_does_the_same_in_plain_onnxruntime() -> None:
    model = model_of(elements())
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for found, value in zip(session.run(None, feeds()), feeds().values(), strict=True):
        assert_same_bits(np.asarray(found), value.reshape(1).repeat(2))
