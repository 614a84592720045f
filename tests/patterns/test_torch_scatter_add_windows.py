# SPDX-License-Identifier: Apache-2.0

"""PyTorch's form over every kind of window, and in half types: what the lowered node's attributes become."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.helper import tensor_dtype_to_np_dtype
from onnx.parser import parse_model

from poolgrad_lowering import lower
from tests.graphs import Written
from tests.oracles import assert_same_bits, max_pool_indices, pool_gradient
from tests.patterns.lookalikes.scatter import gradient
from tests.patterns.lowering_checks import check_lowered, known_runners


def test_padding_beyond_half_the_kernel_takes_a_canvas(written: Written) -> None:
    check_lowered(
        gradient(
            inputs="float[2,3,9,12] x, float[2,3,4,6] dy",
            outputs="float[2,3,4,6] y, float[2,3,9,12] dx",
            pool="y, i = MaxPool <kernel_shape=[3,3], strides=[3,2], pads=[2,1,2,1]> (x)",
            constants={"row_shape": "int64[2] row_shape = {6, 24}"},
        ),
        written,
    )


# MaxPool takes bfloat16 from opset 22 on.
@pytest.mark.parametrize(("element_type", "number", "opset"), [("float16", 10, 18), ("bfloat16", 16, 22)])
def test_half_types_are_scattered_in_float32(element_type: str, number: int, opset: int, written: Written) -> None:
    if tensor_dtype_to_np_dtype(number).itemsize != 2:
        pytest.skip("this onnx has no bfloat16 to compute with")
    check_lowered(
        gradient(
            inputs=f"{element_type}[2,3,9,12] x, {element_type}[2,3,5,6] dy",
            outputs=f"{element_type}[2,3,5,6] y, {element_type}[2,3,9,12] dx",
            updates="v = Reshape (dy, row_shape)\nu = Cast <to=1> (v)",
            result=f"w = Reshape (s, x_shape)\ndx = Cast <to={number}> (w)",
        ).replace('"": 18', f'"": {opset}'),
        written,
    )


def test_sums_in_a_half_type_are_rounded_once(written: Written) -> None:
    """The lowered node adds in float32: held against the definition, since the scatter itself rounds every sum."""
    model = parse_model(
        gradient(
            inputs="float16[2,3,9,12] x, float16[2,3,5,6] dy",
            outputs="float16[2,3,5,6] y, float16[2,3,9,12] dx",
            canvas="w = Expand (zero, canvas_shape)\nz = Cast <to=10> (w)",
        )
    )
    random = np.random.default_rng(0)
    x = random.choice([0, 1, 2], (2, 3, 9, 12)).astype(np.float16)
    dy = random.standard_normal((2, 3, 5, 6)).astype(np.float16)
    lowered = lower(model, forward=False).model
    written(model, lowered)
    expected = pool_gradient(x.shape, dy, max_pool_indices(x, [3, 3], [2, 2], [1, 1, 1, 1]))
    for result in (lowered, lower(model).model):
        for run in known_runners(result):
            assert_same_bits(run(result, {"x": x, "dy": dy})["dx"], expected)
