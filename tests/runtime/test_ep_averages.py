# SPDX-License-Identifier: Apache-2.0

"""The provider runs the gradients of average pools, at every rank and type; what aclnn does not take runs its body."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import TensorProto

from poolgrad_lowering.runtime import create_session
from tests.average_models import (
    ADAPTIVE_2D,
    ADAPTIVE_3D,
    AVERAGE_2D,
    AVERAGE_3D,
    CASES,
    SHAPED,
    AverageCase,
    average_feeds,
    average_model,
)
from tests.harness.sessions.device_process import STRICT
from tests.harness.sessions.ep_process import run_python
from tests.oracles import assert_same_bits
from tests.runtime.average_calls import A2, A950, AverageCall
from tests.runtime.ep_models import OPSET, VALUE_TYPES, claimed

Array = npt.NDArray[Any]

LARGER = "adaptive 2d larger"  # more windows than elements along an axis, which the provider does not claim
CLAIMED = {name: case for name, case in CASES.items() if name != LARGER}
CASE = CASES["2d"]
NODE = "site"


def gradients(case: AverageCase, values: str = "float32", seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(case.grad_shape).astype(VALUE_TYPES[values][1])


def result(session: Any, model: onnx.ModelProto, case: AverageCase, grad: Array) -> Array:
    """The only output, with the inputs in the types of the model: bfloat16 is float32 there."""
    fed = grad if grad.dtype != VALUE_TYPES["bfloat16"][1] else grad.astype(np.float32)
    (y,) = session.run(None, average_feeds(case, model, fed))
    return np.asarray(y)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("values", VALUE_TYPES)
@pytest.mark.parametrize("name", CLAIMED)
def test_bits_of_the_operators(name: str, values: str, symbolic: bool) -> None:
    case = CASES[name]
    model = average_model(case, OPSET, VALUE_TYPES[values][0], symbolic=symbolic)
    session = create_session(model, backend="host")
    assert claimed(session) == [case.op]
    grad = gradients(case, values)
    expected = AverageCall(case).expected(grad)
    assert_same_bits(result(session, model, case, grad).astype(grad.dtype), expected)


def mismatches(soc: str, **options: str) -> list[str]:
    """The cases that the provider does not run with the bits of the product, in either order of the sums."""
    wrong = []
    for name, case in CLAIMED.items():
        model = average_model(case, OPSET)
        session = create_session(model, backend="host", **options)
        grad = gradients(case)
        orders = [AverageCall(case).expected(grad, soc, reverse=reverse).tobytes() for reverse in (False, True)]
        results = [result(session, model, case, grad).tobytes() for _ in range(2)]
        if claimed(session) != [case.op] or results[0] not in orders or results[1] != results[0]:
            wrong.append(name)
    return wrong


MISMATCHES = """
from tests.harness.sessions.host_control import HostLibrary
from tests.runtime.test_ep_averages import mismatches
answer([mismatches({arguments}), HostLibrary().violations()])
"""


@pytest.mark.parametrize("soc", [A950, A2])
@pytest.mark.parametrize("memory", ["device", "host"])
def test_memory_of_a_device(memory: str, soc: str) -> None:
    """Tensors in device memory, or staged; orig_input_shape is in host memory in both."""
    code = MISMATCHES.format(arguments=f"{soc!r}, memory={memory!r}")
    assert run_python(code, ACLNN_HOST_SOC=soc, **STRICT) == [[], []]


def test_atlas_a2() -> None:
    assert run_python(MISMATCHES.format(arguments=repr(A2)), ACLNN_HOST_SOC=A2) == [[], []]


@pytest.mark.parametrize("soc", ["Ascend310P3", "Ascend910A"])
def test_products_without_the_operators_run_bodies(soc: str) -> None:
    code = MISMATCHES.format(arguments=repr(soc))
    wrong, _ = run_python(code, ACLNN_HOST_SOC=soc)
    assert wrong == list(CLAIMED)


def test_sizes_may_change_from_run_to_run() -> None:
    sizes = [(1, 2, 8, 9), (3, 1, 17, 6), (1, 2, 8, 9), (2, 2, 3, 3)]
    cases = [AverageCase(AVERAGE_2D, size, (3, 3), (2, 2), (1, 1)) for size in sizes]
    model = average_model(cases[0], OPSET, symbolic=True)
    session = create_session(model, backend="host")
    for seed, case in enumerate(cases):
        grad = gradients(case, seed=seed)
        assert_same_bits(result(session, model, case, grad), AverageCall(case).expected(grad))


def test_sizes_are_not_trusted() -> None:
    """What orig_input_shape holds in a Run is checked against the gradient."""
    model = average_model(CASE, OPSET, symbolic=True)
    [declared] = [value for value in model.graph.input if value.name == "sizes"]
    declared.type.tensor_type.shape.dim[0].Clear()
    session = create_session(model, backend="host")
    grad = gradients(CASE)
    for sizes, message in {
        (2, 3, 9, 9): "grad (2, 3, 5, 9) is not the pooled shape of x (2, 3, 9, 9): along W the window gives 10",
        (1, 3, 9, 8): "differ in N or C",
        (2, 3, -9, 8): "orig_input_shape holds a negative size",
        (2, 3, 0, 8): "is empty, grad",
        (2, 3, 9, 2**31 - 1): "is not the pooled shape of x",
        (2, 3, 9): "orig_input_shape has the shape (3), and grad has rank 4",
    }.items():
        feeds = {"grad": grad, "sizes": np.array(sizes, np.int32)}
        with pytest.raises(Exception, match=f"{CASE.op} node '{NODE}': ") as raised:
            session.run(None, feeds)
        assert message in str(raised.value)
    assert_same_bits(result(session, model, CASE, grad), AverageCall(CASE).expected(grad))


@pytest.mark.parametrize(
    ("x_shape", "grad_shape"),
    [((0, 2, 4, 4), (0, 2, 3, 3)), ((2, 0, 4, 4), (2, 0, 3, 3)), ((2, 2, 1, 1), (2, 2, 0, 0))],
)
@pytest.mark.parametrize("op", [AVERAGE_2D, AVERAGE_3D])
def test_empty_tensors(op: str, x_shape: tuple[int, ...], grad_shape: tuple[int, ...]) -> None:
    case = AverageCase(op, (1, 1, 4, 4), (2, 2), (1, 1), (0, 0))
    session = create_session(average_model(case, OPSET, symbolic=True), backend="host")
    binding = session.io_binding()
    binding.bind_cpu_input("grad", np.ones(grad_shape, np.float32))
    binding.bind_cpu_input("sizes", np.array(x_shape, np.int32))
    y = onnxruntime.OrtValue.ortvalue_from_numpy(np.full(x_shape, 7, np.float32))  # memory that is not zero before
    binding.bind_ortvalue_output("y", y)
    session.run_with_iobinding(binding)
    assert_same_bits(y.numpy(), np.zeros(x_shape, np.float32))


def changed_model(case: AverageCase, **changed: Any) -> onnx.ModelProto:
    """The model of a case whose node has other attributes, with declared sizes of y; None removes an attribute."""
    model = average_model(case, OPSET)
    [node] = [node for node in model.graph.node if node.op_type == case.op]
    for attribute in [attribute for attribute in node.attribute if attribute.name in changed]:
        node.attribute.remove(attribute)
    node.attribute.extend(
        onnx.helper.make_attribute(name, value) for name, value in changed.items() if value is not None
    )
    return model


REFUSED: list[tuple[AverageCase, dict[str, Any], str]] = [
    (CASE, {"padding_mode": "SAME"}, "padding_mode is not CALCULATED"),
    (CASE, {"data_format": "NHWC"}, "data_format is not NCHW"),
    (CASE, {"global_pooling": 1}, "global_pooling is not 0"),
    (CASE, {"ksize": [3, 2]}, "ksize has 2 values, not 4"),
    (CASE, {"ksize": [1, 2, 3, 2]}, "ksize is not 1 for N and C"),
    (CASE, {"ksize": [1, 1, 3, 0]}, "ksize holds 0, below 1"),
    (CASE, {"strides": [1, 1, 2, 2**31]}, "strides holds 2147483648"),
    (CASE, {"pads": [1, 1, 2, 2]}, "pads holds 2, more than half of ksize 2"),
    (CASE, {"pads": [1, 0, 1, 1]}, "pads holds 1 before an axis and 0 after it"),
    (CASE, {"pads": [-1, -1, 1, 1]}, "pads holds -1, below 0"),
    (CASE, {"exclusive": 0}, "onnx_counted_pads names other windows"),
    (CASE, {"ceil_mode": 1}, "onnx_uncounted_pads names other windows"),
    (CASE, {"divisor_override": 4}, "onnx_divisor is not divisor_override"),
    (CASE, {"divisor_override": -4}, "divisor_override is -4"),
    (CASE, {"divisor_override": 2**31}, "divisor_override is 2147483648"),
    (CASE, {"onnx_pads": [1, 1, 0, 1]}, "onnx_pads names other windows"),
    (CASE, {"onnx_output_padding": [0, 0]}, "onnx_output_padding names other windows"),
    (CASES["2d in 3d"], {"ksize": [2, 3, 2]}, "the attributes pool along D, which onnx_kernel_shape lacks"),
    (CASES["2d in 3d"], {"count_include_pad": 1}, "onnx_counted_pads names other windows"),
    (CASES["adaptive 2d"], {"data_format": "NDHWC"}, "data_format is not NCDHW"),
    (CASES[LARGER], {}, "grad (2, 3, 7, 6) has more positions along an axis than x (2, 3, 3, 4)"),
]


@pytest.mark.parametrize(("case", "changed", "reason"), REFUSED)
def test_what_aclnn_does_not_take_runs_its_body(
    case: AverageCase, changed: dict[str, Any], reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 1
    model = changed_model(case, **changed)
    session = create_session(model, backend="host", session_options=options)
    assert claimed(session) == []
    assert f"{case.op} node '{NODE}' is left to its function body: {reason}" in capfd.readouterr().err
    if any(name.startswith("onnx_") for name in changed):
        return  # the body computes another gradient
    grad = gradients(case)
    y = result(session, model, case, grad)
    np.testing.assert_allclose(y, case.expected(grad.astype(np.float64)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("op", SHAPED)
def test_double_is_not_claimed(op: str) -> None:
    case = CASE if op == AVERAGE_2D else CASES["2d in 3d"]
    model = average_model(case, OPSET)
    model.graph.node[0].attribute[0].i = TensorProto.DOUBLE  # the Cast of grad
    [body] = model.functions
    del body.node[:]
    body.node.append(onnx.helper.make_node("Identity", [body.input[1]], [body.output[0]]))
    assert claimed(create_session(model, backend="host")) == []


GLOBAL = {
    "one divisor": AverageCase(AVERAGE_2D, (2, 3, 12, 11), (12, 11), (12, 11), (0, 0)),
    "padding does not count": AverageCase(AVERAGE_2D, (2, 3, 12, 11), (12, 11), (20, 20), (5, 4)),
    "padding counts": AverageCase(AVERAGE_2D, (2, 3, 12, 11), (12, 11), (20, 20), (5, 4), count_include_pad=True),
    "more than float16 counts": AverageCase(AVERAGE_2D, (1, 2, 300, 301), (300, 301), (1, 1), (0, 0)),
}


@pytest.mark.parametrize("soc", [A950, A2])
def test_global_pools_have_the_divisor_of_their_window(soc: str) -> None:
    """aclnnAvgPool2dBackward alone would divide by all elements of the kernel, of float16 in float16."""
    code = """
import numpy as np
from onnx import TensorProto
from poolgrad_lowering.runtime import create_session
from tests.average_models import average_model
from tests.runtime.test_ep_averages import GLOBAL, claimed, gradients, result
far = []
for name, case in GLOBAL.items():
    for values in ("float32", "float16"):
        model = average_model(case, 20, {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16}[values])
        session = create_session(model, backend="host")
        grad = gradients(case, values)
        y = result(session, model, case, grad).astype(np.float64)
        expected = case.expected(grad.astype(np.float64))
        # A quotient, or a product with a rounded reciprocal, rounded once more to float16.
        bound = np.abs(expected) * {"float32": 2.0**-22, "float16": 2.0**-10}[values] + 2.0**-25
        if claimed(session) != [case.op] or not (np.abs(y - expected) <= bound).all():
            far.append(name + values)
answer(far)
"""
    # On one thread: TSan does not see how onnxruntime ends the work of its threads, which read this thread's stack.
    assert run_python(code, ACLNN_HOST_SOC=soc, ACLNN_HOST_THREADS="1") == []


@pytest.mark.parametrize("op", [ADAPTIVE_2D, ADAPTIVE_3D, AVERAGE_2D, AVERAGE_3D])
def test_symbolic_models_are_claimed(op: str) -> None:
    case = next(case for case in CLAIMED.values() if case.op == op)
    assert claimed(create_session(average_model(case, OPSET, symbolic=True), backend="host")) == [op]
