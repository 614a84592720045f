# SPDX-License-Identifier: Apache-2.0

"""onnxruntime training's AveragePoolGrad, text in and node out; near misses and reasons."""

from __future__ import annotations

import onnx
import pytest

from poolgrad_lowering.model.diagnostics.codes import Code
from tests.patterns.average_checks import check_average, of_pool
from tests.patterns.lowering_checks import NearMisses, check_refused, near_misses
from tests.texts import Says

PADDED = "kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]"


def gradient(
    *,
    attributes: str = PADDED,
    pool: str = "y = AveragePool <{}> (x)",
    shape: str = "2,3,9,12",
    pooled: str = "2,3,5,6",
    dx: str = "",
    more: str = "",
    elements: str = "float",
    backward: str = "dx = AveragePoolGrad <{}> (dy)",
    opset: int = 17,
) -> str:
    """Return the text of the form, some of its parts replaced."""
    return f"""<ir_version: 8, opset_import: ["" : {opset}]>
    g ({elements}[{shape}] x, {elements}[{pooled}] dy{more}) =>
        ({elements}[{pooled}] y, {elements}[{dx or shape}] dx) {{
        {pool.format(attributes)}
        {backward.format(attributes)}
    }}"""


X = (2, 3, 9, 12)


def test_the_shape_of_dx_without_a_pool() -> None:
    """The graph declares the shape that onnxruntime's kernel uses; the pool may be in another model."""
    expected = of_pool(X, (3, 3), (2, 2), (1, 1, 1, 1))
    check_average(gradient(pool="y = Identity (dy)"), expected, op="AvgPool3DGrad")


def test_the_pool_that_it_is_named_after() -> None:
    """Of two pools with its attributes and output sizes, whose inputs differ, the name tells which one is meant."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,1,H] x, float[N,1,8] z, float[N,1,4] dy) => (float[N,1,4] y, float[N,1,4] w, float[N,1,L] dx) {
        y = AveragePool <kernel_shape=[2], strides=[2]> (z)
        w = AveragePool <kernel_shape=[2], strides=[2]> (x)
        dx = AveragePoolGrad <kernel_shape=[2], strides=[2]> (dy)
    }""")
    check_refused(model, Code.UNKNOWN_SHAPE)
    model.graph.node[0].name, model.graph.node[2].name = "/first", "/first_Grad/AveragePoolGrad_0"
    expected = of_pool((2, 1, 8), (2,), (2,))
    check_average(model, expected, op="AvgPool3DGrad", sizes={"N": 2, "H": 9, "L": 8})


def test_pools_over_inputs_of_unknown_shapes() -> None:
    """Nothing tells which of the two inputs has the shape of dx."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,1,H] x, float[N,1,H] z, float[N,1,L] dy) => (float[N,1,L] y, float[N,1,L] w, float[N,1,H] dx) {
        y = AveragePool <kernel_shape=[2], strides=[2]> (x)
        w = AveragePool <kernel_shape=[2], strides=[2]> (z)
        dx = AveragePoolGrad <kernel_shape=[2], strides=[2]> (dy)
    }""")
    for value in model.graph.input[:2]:
        value.type.tensor_type.ClearField("shape")
    check_refused(model, Code.UNKNOWN_SHAPE)


NEAR_MISSES: NearMisses = {
    (Code.OUTPUT_SIZE, "no_elements_to_pool"): gradient(
        attributes="kernel_shape=[2,2]", shape="1,1,0,4", pooled="1,1,0,3"
    ),
    (Code.UNKNOWN_SHAPE, "no_sizes"): gradient(
        pool="y = Identity (dy)", backward="d = AveragePoolGrad <{}> (dy) dx = Identity (d)"
    ).replace("float[2,3,9,12] dx", "float[a] dx"),
    (Code.ARITY, "two_inputs"): gradient(backward="dx = AveragePoolGrad <{}> (dy, x)"),
    (Code.POOL_ATTRIBUTES, "no_kernel"): gradient(backward="dx = AveragePoolGrad <strides=[2,2]> (dy)"),
    (Code.DILATED_AVERAGE, "dilation"): gradient(
        attributes="kernel_shape=[3,3], dilations=[2,2]", pooled="2,3,5,8", opset=19
    ),
    (Code.GRAD_SHAPE, "another_number_of_windows"): gradient(pool="y = Identity (dy)", pooled="2,3,5,5"),
    (Code.SPATIAL_RANK, "four_axes"): gradient(
        attributes="kernel_shape=[2,2,2,2]", shape="1,1,3,3,3,3", pooled="1,1,2,2,2,2"
    ),
    (Code.DTYPE, "double"): gradient(elements="double"),
    (Code.SYMBOLIC_CANVAS, "unequal_pads_of_symbolic_sizes"): gradient(
        attributes="kernel_shape=[3,3], strides=[2,2], pads=[0,0,1,1]", shape="2,3,H,12", pooled="2,3,OH,6"
    ),
    (Code.EMPTY_WINDOW, "an_empty_window"): gradient(
        attributes="kernel_shape=[3,3], pads=[3,1,1,1]", pooled="2,3,11,12"
    ),
}


@pytest.mark.parametrize(("code", "model"), near_misses(NEAR_MISSES))
def test_refused(code: Code, model: str, says: Says) -> None:
    says(check_refused(model, code))
