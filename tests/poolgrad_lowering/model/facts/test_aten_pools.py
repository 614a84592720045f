# SPDX-License-Identifier: Apache-2.0

"""The shapes of PyTorch's pools and of their gradients; a test of `tests/torch_step` compares `SHAPES` with PyTorch."""

from __future__ import annotations

import pytest

from poolgrad_lowering.model.facts.known import is_opaque
from tests.pool_graphs import main_value, parse

NONE = "float[0] {}"
SHAPES: dict[tuple[str, str, tuple[str, ...]], str] = {  # operator, x's shape and further arguments: the result's shape
    ("avg_pool1d", "2,3,9", ("int64[1] {2}", NONE)): "2,3,4",
    ("avg_pool1d", "3,9", ("int64[1] {2}", "int64[1] {2}", "int64[1] {1}", "bool {1}")): "3,5",
    ("avg_pool2d", "2,3,8,9", ("int64[2] {2,3}",)): "2,3,4,3",
    ("avg_pool2d", "3,8,9", ("int64[2] {2,3}", NONE)): "3,4,3",
    ("avg_pool2d", "2,3,8,9", ("int64[1] {3}", "int64[2] {2,1}", "int64[1] {1}", "bool {0}", "bool {0}")): "2,3,4,9",
    ("avg_pool2d", "2,3,7,9", ("int64[2] {2,2}", "int64[2] {3,4}", "int64[2] {0,0}", "bool {1}")): "2,3,3,3",
    ("avg_pool2d", "2,3,6,6", ("int64[1] {2}", "int64[1] {5}", "int64[1] {0}", "bool {1}")): "2,3,2,2",
    ("avg_pool2d", "2,3,5,5", ("int64[1] {2}", "int64[1] {5}", "int64[1] {0}", "bool {1}")): "2,3,1,1",
    ("avg_pool3d", "2,3,8,9,4", ("int64[3] {2,3,2}", NONE)): "2,3,4,3,2",
    ("max_pool1d", "2,3,9", ("int64[1] {3}", "int64[1] {1}", "int64[1] {1}", "int64[1] {2}")): "2,3,7",
    ("max_pool1d_with_indices", "2,3,9", ("int64[1] {3}", NONE)): "2,3,3",
    ("max_pool2d", "2,3,8,9", ("int64[2] {2,2}", NONE)): "2,3,4,4",
    ("max_pool2d_with_indices", "2,3,8,9", ("int64[2] {2,2}", NONE, "int64[1] {0}", "int64[1] {3}")): "2,3,3,3",
    ("max_pool2d_with_indices", "3,8,9", ("int64[2] {2,2}", NONE)): "3,4,4",
    ("max_pool3d_with_indices", "2,3,8,9,4", ("int64[1] {2}", NONE)): "2,3,4,4,2",
    ("adaptive_avg_pool1d", "2,3,9", ("int64[1] {4}",)): "2,3,4",
    ("_adaptive_avg_pool2d", "2,3,8,9", ("int64[2] {3,2}",)): "2,3,3,2",
    ("adaptive_avg_pool2d", "3,8,9", ("int64[2] {3,2}",)): "3,3,2",
    ("_adaptive_avg_pool3d", "2,3,8,9,4", ("int64[3] {3,2,1}",)): "2,3,3,2,1",
    ("adaptive_max_pool1d", "2,3,9", ("int64[1] {4}",)): "2,3,4",
    ("adaptive_max_pool2d", "2,3,8,9", ("int64[2] {3,2}",)): "2,3,3,2",
    ("adaptive_max_pool3d", "2,3,8,9,4", ("int64[3] {3,2,1}",)): "2,3,3,2,1",
    ("max.dim", "2,3,8", ("int64 {-2}", "bool {0}")): "2,8",
    ("max.dim", "2,3,8", ("int64 {1}", "bool {1}")): "2,1,8",
}
SYMBOLIC = {
    ("avg_pool2d", "N,C,H,9", ("int64[2] {2,3}", NONE)): "N,C,?,3",
    ("avg_pool2d", "N,C,H,9", ("int64[1] {3}", "int64[1] {1}", "int64[1] {1}")): "N,C,H,9",
    ("_adaptive_avg_pool2d", "N,C,H,W", ("int64[2] {3,2}",)): "N,C,3,2",
}
HAVE_POSITIONS = ("_with_indices", "max.dim", "adaptive_max")


def call(operator: str, arguments: tuple[str, ...], *operands: str) -> str:
    """Return the text of a node with constant arguments, and of the constants."""
    names = [f"c{number}" for number in range(len(arguments))]
    constants = [f"{name} = Constant <value = {held}> ()" for name, held in zip(names, arguments, strict=True)]
    name, _, overload = operator.partition(".")
    node = f'org.pytorch.aten.ATen <operator="{name}", overload_name="{overload}"> ({", ".join((*operands, *names))})'
    results = "y, i" if any(part in operator for part in HAVE_POSITIONS) else "y"
    return " ".join((*constants, f"{results} = {node}"))


def shape_of(graph: str, value: str = "y", functions: str = "") -> str:
    """Return the shape that the facts tell, `?` for a size without a name."""
    facts, found = main_value(parse(graph, imports='"org.pytorch.aten": 1', functions=functions), value)
    shape = facts.shape(found)
    return "unknown" if shape is None else ",".join("?" if is_opaque(dim) else str(dim) for dim in shape)


@pytest.mark.parametrize("case", [*SHAPES, *SYMBOLIC])
def test_results(case: tuple[str, str, tuple[str, ...]]) -> None:
    operator, x, arguments = case
    text = f"g (float[{x}] x) => (y) {{ {call(operator, arguments, 'x')} z = Relu (y) }}"
    expected = {**SHAPES, **SYMBOLIC}[case]
    assert shape_of(text) == shape_of(text, "z") == expected
    if any(part in operator for part in HAVE_POSITIONS):
        assert shape_of(text.replace("Relu (y)", "Neg (i)"), "z") == expected


GRADIENTS = (
    *(f"avg_pool{rank}d_backward" for rank in (1, 2, 3)),
    *(f"_adaptive_avg_pool{rank}d_backward" for rank in (2, 3)),
    *(f"adaptive_max_pool{rank}d_backward" for rank in (2, 3)),
    *(f"max_pool{rank}d_with_indices_backward" for rank in (2, 3)),
)


@pytest.mark.parametrize("operator", GRADIENTS)
def test_a_gradient_has_the_shape_of_x(operator: str) -> None:
    node = f'y = org.pytorch.aten.ATen <operator="{operator}"> (dy, x)'
    text = f"g (float[N,3,8,9] x, float[N,3,4,4] dy) => (y) {{ {node} }}"
    assert shape_of(text) == "N,3,8,9"


def test_the_gradient_of_an_axis_has_the_sizes_that_it_is_given() -> None:
    node = "s = Shape (x) y = org.pytorch.aten.value_selecting_reduction_backward (dy, dim, i, s, keep)"
    inputs = "float[N,3,8] x, float[N,8] dy, int64[N,8] i, int64 dim, bool keep"
    assert shape_of(f"g ({inputs}) => (y) {{ {node} }}") == "N,3,8"


UNKNOWN = {
    "a kernel from outside": "y = org.pytorch.aten.avg_pool2d (x, k)",
    "strides as floats": call("avg_pool2d", ("int64[2] {2,2}", "float[2] {2,2}"), "x"),
    "a rank of no pool": call("avg_pool1d", ("int64[1] {2}",), "x"),
    "three sizes for two axes": call("_adaptive_avg_pool2d", ("int64[3] {3,2,1}",), "x"),
    "a window larger than x": call("avg_pool2d", ("int64[2] {40,2}", "int64[2] {2,2}"), "x"),
    "the maximum of two tensors": "y = org.pytorch.aten.max (x, x)",
    "another operator": "y = org.pytorch.aten.silu (x)",
    "an axis that x does not have": call("max.dim", ("int64 {4}", "bool {0}"), "x"),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_nothing_is_told_of(what: str) -> None:
    inputs = "float[2,3,8,9] x, int64[2] k"
    assert shape_of(f"g ({inputs}) => (y) {{ {UNKNOWN[what]} }}") == "unknown"
