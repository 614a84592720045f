# SPDX-License-Identifier: Apache-2.0

"""Scalars get the axes of the tensors that they meet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import GraphProto, helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator

from poolgrad_lowering.model.scalar_axes import FEWEST, declared_sizes, give_axes

HEAD = '<ir_version: 10, opset_import: ["" : 18, "other" : 1]>'


def model(text: str) -> onnx.ModelProto:
    return parser.parse_model(f"{HEAD} {text}")


def rewritten(before: onnx.ModelProto) -> onnx.ModelProto:
    after = onnx.ModelProto.FromString(before.SerializeToString())
    after.graph.value_info.append(helper.make_tensor_value_info("two", onnx.TensorProto.FLOAT, []))
    inferred = onnx.shape_inference.infer_shapes(after).graph
    give_axes(after.graph, declared_sizes((*inferred.input, *inferred.value_info, *inferred.output)))
    onnx.checker.check_model(after, full_check=True)
    return after


def ranks(graph: GraphProto, name: str) -> list[int]:
    """How many axes the constant operands of a node have."""
    [node] = [node for node in graph.node if name in node.output]
    constants = {tensor.name: len(tensor.dims) for tensor in graph.initializer}
    return [constants[operand] for operand in node.input if operand in constants]


MIXED = """agraph (float[64, 8, 1, 1] weight, float rate, float[1] bias, bool[64, 8, 1, 1] mask) => (
        float[64, 8, 1, 1] moved, float[64, 8, 1, 1] chosen, float[64, 8] flat, float kept)
    <float two = {2.0}, float half = {0.5}, int64[2] sizes = {64, 8}> {
        scaled = Mul (weight, two)
        step = Mul (rate, scaled)
        shifted = Sub (step, bias)
        moved = Mul (shifted, rate)
        chosen = Where (mask, moved, half)
        reshaped = Reshape (moved, sizes)
        flat = Mul (half, reshaped)
        kept = Add (rate, half)
    }"""


def test_the_results_have_the_same_bits() -> None:
    before = model(MIXED)
    after = rewritten(before)
    rng = np.random.default_rng(1)
    weight = rng.standard_normal((64, 8, 1, 1)).astype(np.float32)
    mask = rng.random(weight.shape) < 0.5
    feeds = {"weight": weight, "rate": np.float32(0.3), "bias": np.array([0.7], np.float32), "mask": mask}
    expected, found = (ReferenceEvaluator(each).run(None, feeds) for each in (before, after))
    for one, other in zip(expected, found, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
        assert np.shape(one) == np.shape(other)


def test_constants_have_axes_and_what_is_computed_is_given_them_once() -> None:
    graph = rewritten(model(MIXED)).graph
    assert ranks(graph, "scaled") == ranks(graph, "chosen") == [4]
    assert ranks(graph, "flat") == ranks(graph, "kept") == [0]
    assert [node.input[0] for node in graph.node if node.output[0].endswith(".4d")] == ["rate", "bias"]
    assert {"two", "half"} & {tensor.name for tensor in graph.initializer} == {"half"}
    assert "two" not in {value.name for value in graph.value_info}


@pytest.mark.parametrize(
    ("shape", "others", "is_given"),
    [
        ([FEWEST, 1], [[]], True),
        ([FEWEST, 1], [[1]], True),
        (["N", 1], [[]], True),
        ([1, FEWEST], [[]], False),
        ([FEWEST, "N"], [[]], False),
        ([FEWEST - 1, 1], [[]], False),
        ([FEWEST, 1], [[3]], False),
        ([FEWEST, 1], [[1, 1]], False),
        (None, [[]], False),
    ],
)
def test_where_it_is_slow_without(
    shape: Sequence[int | str] | None, others: Sequence[list[int]], is_given: bool
) -> None:
    values = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)]
    tensors = [numpy_helper.from_array(np.ones(other, np.float32), f"c{at}") for at, other in enumerate(others)]
    node = helper.make_node("Max", ["x", *(tensor.name for tensor in tensors)], ["y"])
    graph = helper.make_graph([node], "g", values, [helper.make_empty_tensor_value_info("y")], tensors)
    give_axes(graph, declared_sizes(graph.input))
    assert ranks(graph, "y") == ([2] if is_given else [len(other) for other in others])


def test_other_operators_and_other_domains_stay() -> None:
    before = model("""agraph (float[64, 1] x) => (float[64, 1] y, float[64, 1] z) <float two = {2.0}> {
        y = other.Mul (x, two)
        z = Clip (x, two)
    }""")
    after = onnx.ModelProto.FromString(before.SerializeToString())
    give_axes(after.graph, declared_sizes((*after.graph.input, *after.graph.output)))
    assert after == before
