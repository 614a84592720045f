# SPDX-License-Identifier: Apache-2.0

"""What onnxruntime says of its own sources is left out where its messages are quoted."""

from __future__ import annotations

import numpy as np
import pytest

from poolgrad_lowering.model.io.onnxruntime import quoted
from poolgrad_lowering.runtime import SessionError, create_session
from tests.pool_graphs import parse

SOURCES = "/onnxruntime_src/onnxruntime/core"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : "
            f"{SOURCES}/session/plugin_ep/ep_plugin_provider_interfaces.cc:393 virtual "
            "std::unique_ptr<onnxruntime::IExecutionProvider> onnxruntime::PluginExecutionProviderFactory::"
            "CreateProvider(const OrtSessionOptions&, const OrtLogger&) [ONNXRuntimeError] : 2 : INVALID_ARGUMENT : "
            "'nonsense' is no provider option\n",
            "'nonsense' is no provider option",
        ),
        (
            "Non-zero status code returned while running Reshape node. Name:'r' Status Message: "
            f"{SOURCES}/providers/cpu/tensor/reshape_helper.h:91 onnxruntime::ReshapeHelper::ReshapeHelper(const "
            "onnxruntime::TensorShape&, onnxruntime::TensorShapeVector&, bool) input_shape_size == size was false. "
            "The input tensor cannot be reshaped (Input shape:{2,3}).",
            "Non-zero status code returned while running Reshape node. Name:'r' Status Message: input_shape_size == "
            "size was false. The input tensor cannot be reshaped (Input shape:{2,3}).",
        ),
        ("Status Message: matmul_helper.h:59 Compute MatMul dimension mismatch", "Status Message: Compute MatMul dim"),
        ("cannot read /data/model.cc: no such file", "cannot read /data/model.cc: no such file"),
        ("Load model from /a.onnx failed: ns::f(x) of g", "Load model from /a.onnx failed: ns::f(x) of g"),
    ],
)
def test_sources_are_left_out_and_causes_stay(message: str, expected: str) -> None:
    assert quoted(RuntimeError(message)).startswith(expected)
    assert quoted(RuntimeError(expected)) == expected


def test_messages_of_this_onnxruntime() -> None:
    """Errors of a session and of the function that makes it; the latter's text comes from the provider."""
    model = parse("g (float[2,3] X, int64[2] S) => (Y) { Y = Reshape(X, S) }")
    with pytest.raises(SessionError, match=r"AclnnExecutionProvider: 'nonsense' is no provider option") as error:
        create_session(model, nonsense="1")
    assert ".cc:" in str(error.value.__cause__)
    with pytest.warns(RuntimeWarning):
        session = create_session(model)
    with pytest.raises(Exception, match=r"\.h:\d+ .*cannot be reshaped") as failure:
        session.run(None, {"X": np.zeros((2, 3), np.float32), "S": np.array([4, 4])})
    assert "The input tensor cannot be reshaped to the requested shape" in quoted(failure.value)
    assert "/" not in quoted(failure.value)
    assert "ReshapeHelper" not in quoted(failure.value)
