# SPDX-License-Identifier: Apache-2.0

"""The vectorized ConvTranspose against that of onnx's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from poolgrad_lowering.verification.operators import pooling

ROWS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((4, 1, 5), (1, 1, 3), {}),
    ((4, 1, 5), (1, 1, 3), {"strides": [2], "pads": [1, 0], "output_padding": [1]}),
    ((4, 1, 5, 4), (1, 1, 3, 2), {"strides": [2, 3], "pads": [1, 0, 0, 1], "output_padding": [1, 2]}),
    ((2, 3, 5, 4), (3, 1, 3, 2), {"strides": [2, 1], "group": 3}),
    ((2, 3, 5, 4), (3, 1, 3, 2), {"dilations": [2, 1], "group": 3}),
    ((2, 3, 5, 4), (3, 2, 3, 2), {}),
    ((2, 1, 3, 4, 3), (1, 1, 2, 2, 1), {"strides": [1, 2, 1]}),
]


@pytest.mark.parametrize(("x", "w", "attributes"), ROWS)
def test_conv_transpose(x: tuple[int, ...], w: tuple[int, ...], attributes: dict[str, Any]) -> None:
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], **attributes)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "w", "y")]
    graph = helper.make_graph([node], "g", values[:2], values[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    random = np.random.default_rng(0)
    feeds = {name: random.integers(-4, 5, shape).astype(np.float32) for name, shape in (("x", x), ("w", w))}
    [expected] = ReferenceEvaluator(model).run(None, feeds)
    [found] = ReferenceEvaluator(model, new_ops=list(pooling.OPERATORS)).run(None, feeds)
    assert np.asarray(found).dtype == np.float32
    np.testing.assert_array_equal(found, expected)
