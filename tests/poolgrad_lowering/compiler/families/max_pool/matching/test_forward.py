# SPDX-License-Identifier: Apache-2.0

"""What a MaxPool pools and to what, where the graph tells it and where it does not."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto

from poolgrad_lowering.compiler.families.max_pool.matching.forward import ForwardPool, forward_pool
from poolgrad_lowering.model.diagnostics.codes import Code
from tests.patterns.lowering_checks import refuses
from tests.pool_graphs import main_value, parse

WINDOW = "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]"


def pool(
    attributes: str = WINDOW, x: str = "float[2,3,9,12] x", outputs: str = "y, i", before: str = ""
) -> ForwardPool:
    last = outputs.rsplit(", ", maxsplit=1)[-1]
    facts, out = main_value(parse(f"g ({x}) => ({last}) {{ {before} {outputs} = MaxPool<{attributes}>(x) }}"), last)
    assert out.producer is not None
    return forward_pool(facts, out.producer)


@pytest.mark.parametrize("outputs", ["y", "y, i", ", i"])
def test_static(outputs: str) -> None:
    found = pool(outputs=outputs)
    assert [dim.static for dim in found.x_shape] == [2, 3, 9, 12]
    assert [dim.static for dim in found.pooled_shape] == [2, 3, 5, 6]
    assert (found.x.name, found.element_type) == ("x", TensorProto.FLOAT)


def test_unknown_sizes_are_equal_to_themselves_alone() -> None:
    """Those of the pooled tensor are not those of x."""
    found = pool(x="float x0, int64[k] s", before="x = Expand (x0, s)")
    assert list(map(str, found.x_shape)) == [f"?main:x[{axis}]" for axis in range(4)]
    assert list(map(str, found.pooled_shape)) == [f"?main:i[{axis}]" for axis in range(4)]


def without(side: str) -> onnx.ModelProto:
    model = parse(f"g (float[2,3,9,12] x) => (y) {{ y = MaxPool<{WINDOW}>(x) z = Neg (y) }}")
    del getattr(model.graph.node[0], side)[:]
    return model


@pytest.mark.parametrize("side", ["input", "output"])
def test_nothing_pooled(side: str) -> None:
    facts, z = main_value(without(side), "z")
    node = z.scope.node(0)
    with refuses(Code.POOL_ATTRIBUTES, names=node.label):
        forward_pool(facts, node)


REFUSED = {
    "no_kernel": ("strides = [2, 2]", "float[2,3,9,12] x", Code.POOL_ATTRIBUTES),
    "column_major": (f"{WINDOW}, storage_order = 1", "float[2,3,9,12] x", Code.STORAGE_ORDER),
    "ambiguous_pads": (
        'kernel_shape = [2, 2], strides = [3, 3], auto_pad = "SAME_LOWER"',
        "float[2,3,9,12] x",
        Code.POOL_ATTRIBUTES,
    ),
    "no_batch": (WINDOW, "float[3,9,12] x", Code.POOL_ATTRIBUTES),
    "another_axis": (WINDOW, "float[2,3,9,12,1] x", Code.POOL_ATTRIBUTES),
}


@pytest.mark.parametrize(("attributes", "x", "code"), REFUSED.values(), ids=REFUSED)
def test_refused(attributes: str, x: str, code: Code) -> None:
    with refuses(code, names="y"):
        pool(attributes, x)
